"""Promises of :mod:`airflow_provider_kafka_spark.metrics`: they arrive at a StatsD server, and fail nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.observability import stats as stats_of_triggerer
from airflow.observability.metrics import stats_utils as factories_of_triggerer
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_provider_kafka_spark import coverage
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, DataLossError
from airflow_provider_kafka_spark.coverage import uncovered
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.metrics import FAILURES, METRICS, count_copy, count_retry, send
from airflow_provider_kafka_spark.triggers.watcher_health import WatcherHealth, watcher_name
from tests.airflow_fakes import AssetStateStore, task_context
from tests.core.ledger.test_coverage import entry
from tests.statsd_server import StatsdServer
from tests.test_coverage_command import Api, event
from tests.test_coverage_command import api as api
from tests.triggers.conftest import run, until
from tests.triggers.triggerer import Triggerer

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULT = {"records_read": 100, "records_written": 97, "bytes_written": 9_700, "seconds": 2.5, "records_behind": 7}


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsdServer]:
    """A server to which tasks and triggers of this process send."""
    with StatsdServer.running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        stats_of_triggerer.initialize(factory=factories_of_triggerer.get_stats_factory(), export_legacy_names=False)
        yield server
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    stats_of_triggerer.initialize(factory=factories_of_triggerer.get_stats_factory(), export_legacy_names=False)


def test_a_copy_is_counted(statsd: StatsdServer) -> None:
    count_retry(task_context())  # type: ignore[arg-type]
    count_copy(task_context(), RESULT)  # type: ignore[arg-type]
    tags = "dag_id=dag,task_id=task"
    assert statsd.received() == [
        f"airflow.kafka_spark.retries,{tags}:1|c",
        f"airflow.kafka_spark.records_read,{tags}:100|c",
        f"airflow.kafka_spark.records_written,{tags}:97|c",
        f"airflow.kafka_spark.bytes_written,{tags}:9700|c",
        f"airflow.kafka_spark.duration,{tags}:2500.000000|ms",
        f"airflow.kafka_spark.records_behind,{tags}:7|g",
    ]


def test_what_is_missing_is_a_gauge_of_each_pair_of_topics(statsd: StatsdServer, api: Api) -> None:
    """Sent by a task and by the command, which nobody but itself has started."""
    tags = "source=broker-1_9092,topic=orders,target=broker-2_9092,target_topic=copy"
    ranges = ["orders:0:0:10", "orders:0:15:20"]
    api.events = [event(1, *ranges)]

    uncovered([entry("a", *ranges)], "orders")
    assert statsd.received() == [f"airflow.kafka_spark.offsets_missing,{tags}:5|g"]
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
    assert coverage.main(["orders"]) == 1
    assert statsd.received() == [f"airflow.kafka_spark.offsets_missing,{tags}:5|g"]


@pytest.mark.parametrize("error", [DataLossError("gone"), BrokerUnavailableError("later")])
def test_a_failure_is_counted_once_by_its_name(statsd: StatsdServer, error: Exception) -> None:
    """Although it passes through two methods, as after a deferral."""

    @no_retry_on_permanent_error
    def execute(context: dict[str, Any]) -> None:
        raise error

    resume = no_retry_on_permanent_error(execute)
    with pytest.raises((AirflowFailException, BrokerUnavailableError)):
        resume(task_context())
    (line,) = statsd.received()
    assert line == f"airflow.kafka_spark.failures,dag_id=dag,task_id=task,error={type(error).__name__}:1|c"


def test_what_cannot_be_sent_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no socket")

    monkeypatch.setattr(stats, "incr", fail)
    send(FAILURES, 1, {"error": "x"})


def test_a_watcher_whose_broker_is_away_is_seen(statsd: StatsdServer) -> None:
    """The real trigger in Airflow's own manager, and a port where nothing listens."""

    async def main() -> None:
        async with Triggerer(
            AssetStateStore(), topics=["orders"], kafka_timeout=0.2, source_conn_id="nobody"
        ).running():
            lines: list[str] = []
            await until(lambda: lines.extend(statsd.received()) or len(lines) >= 4, "metrics of the watcher")
            assert any(
                re.match(r"airflow\.kafka_spark\.watcher\.failures,watcher=orders,error=\w+:1\|c", x) for x in lines
            )
            assert "airflow.kafka_spark.watcher.alive,watcher=orders:0|g" in lines

    with pytest.MonkeyPatch.context() as patch:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}
        patch.setenv("AIRFLOW_CONN_NOBODY", json.dumps(connection))
        run(main)


def test_a_watcher_that_fails_for_long_raises_an_alarm(statsd: StatsdServer, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    now = 0.0
    health = WatcherHealth("orders", logging.getLogger("watcher"), lambda: now)
    alarms = []
    for now in (0.0, 299.0, 300.0, 3899.0, 3900.0):
        if health.failed(BrokerUnavailableError("no answer")):
            alarms.append(now)
    assert alarms == [300.0, 3900.0]
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(errors) == 2
    assert "'orders' has failed for 300 s, 3 times in a row" in errors[0]
    assert "BrokerUnavailableError: no answer" in errors[0]
    assert health.succeeded()
    assert not health.succeeded()
    health.announced()
    sent = statsd.received()
    assert sent[-5] == "airflow.kafka_spark.watcher.alive,watcher=orders:1|g"
    assert sent[-2] == "airflow.kafka_spark.watcher.events,watcher=orders:1|c"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("late", ["orders"], None), "late"),
        (("", ["orders", "returns"], None), "orders+returns"),
        (("", None, "a,b=(.*)"), "a_b__.__"),
        (("", ["x" * 200], None), "x" * 100),
    ],
)
def test_a_watchers_name_is_a_tag_for_every_backend(given: tuple[Any, ...], name: str) -> None:
    assert watcher_name(*given) == name


def test_each_metric_is_documented_as_it_is() -> None:
    """The dashboard asks for metrics that there are, by their names in Prometheus, as its StatsD exporter and
    OpenTelemetry make them.
    """
    page = (DOCS / "reference/metrics.md").read_text()
    rows = re.findall(r"^\| `(kafka_spark\.[a-z_.]+)` \| (\w+) \| ([^|]+) \|", page, re.M)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", tags))) for name, kind, tags in rows}
    assert documented == METRICS
    dashboard = json.loads((DOCS / "reference/grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"airflow_kafka_spark_\w+", query)}
    assert asked == {f"airflow_{name.replace('.', '_')}" for name in METRICS}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    _check_kind(dashboard)


#: Of Grafana's published kind "dashboard" (schemaVersion 39, also as jsonschema/dashboard.jsonschema.json of its
#: foundation SDK): what must be there, and the keys that ours has; the kind takes no others.
_KIND: dict[str, tuple[set[str], set[str]]] = {
    "dashboard": (
        {"annotations", "schemaVersion", "templating"},
        {"title", "uid", "version", "editable", "refresh", "time", "tags", "panels"},
    ),
    "panel": ({"type"}, {"id", "title", "description", "datasource", "gridPos", "fieldConfig", "targets", "options"}),
    "gridPos": ({"h", "w", "x", "y"}, set()),
    "fieldConfig": ({"defaults", "overrides"}, set()),
    "target": ({"refId", "expr"}, {"legendFormat", "instant", "datasource"}),
    "variable": ({"name", "type"}, {"query", "datasource", "multi", "includeAll", "allValue"}),
}


def _check_kind(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    parts = [("dashboard", dashboard), *(("panel", panel) for panel in panels)]
    parts += [(name, panel[name]) for panel in panels for name in ("gridPos", "fieldConfig")]
    parts += [("target", target) for panel in panels for target in panel["targets"]]
    parts += [("variable", variable) for variable in dashboard["templating"]["list"]]
    for kind, part in parts:
        required, others = _KIND[kind]
        assert required <= part.keys() <= required | others, (kind, part)
    # Each panel has a place of its own in the grid, which is 24 wide.
    cells = [
        (at["x"] + x, at["y"] + y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["w"])
        for y in range(at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
