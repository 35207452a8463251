"""Sensors and watchers through a real scheduler and a real triggerer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.e2e.process_mark import ProcessMark

T = TypeVar("T")

pytestmark = [pytest.mark.broker, pytest.mark.airflow, pytest.mark.timeout(900)]

SENSORS = 12


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """Two empty topics of the names that the DAGs know."""
    for name in ("waited", "watched"):
        if name in kafka_broker.topics():
            kafka_broker.delete_topic(name)
        kafka_broker.create_topic(name, 2)
    yield kafka_broker
    for name in ("waited", "watched"):
        kafka_broker.delete_topic(name)


@pytest.fixture
def home(topics: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    home = AirflowHome(
        tmp_path_factory.mktemp("waiting airflow"),
        Path(__file__).parent / "waiting_dags",
        tmp_path_factory.mktemp("scratch"),
        connections={"kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": topics.bootstrap_servers}}},
        settings={
            "WAITING_SENSORS": str(SENSORS),
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        },
    )
    home.migrate()
    return home


def test_sensors_wake_up_and_a_watcher_goes_on_after_a_restart(
    topics: KafkaBroker, home: AirflowHome, marked: ProcessMark
) -> None:
    """Deferred sensors end as they would by poking; the watcher announces every record once, those too that arrive
    while there is no triggerer.
    """
    with AirflowStandalone(home) as airflow:
        run = _until(airflow, lambda: _runs(airflow, "waiting"), "a run of the DAG 'waiting'")[0]
        _until(
            airflow,
            lambda: list(_states(airflow, run, "new").values()) == ["deferred"] * SENSORS,
            "all sensors to be deferred",
        )
        _produce(topics, "waited", 10)
        _produce(topics, "watched", 10)
        ended = _until(
            airflow,
            lambda: (s := _states(airflow, run)) and not set(s.values()) - {"success", "failed", "skipped"} and s,
            "the run to end",
        )
        assert ended == {
            **{("new", number): "success" for number in range(SENSORS)},
            ("reached", -1): "success",
            ("poked", -1): "success",
            ("impossible", -1): "failed",
            ("too_late", -1): "skipped",
            ("lag", -1): "success",
        }
        found = [_xcom(airflow, "waiting", run, "new", number) for number in range(SENSORS)]
        assert all(ranges == found[0] for ranges in found)
        assert _count(found[0]) > 0
        for task in ("reached", "poked"):
            assert _xcom(airflow, "waiting", run, task, -1) == {"waited": {"0": 0, "1": 0}}
        _until(airflow, lambda: _covered(airflow) == 10, "the watched records to be announced")

    # There is no triggerer now.
    _produce(topics, "watched", 6)
    with AirflowStandalone(home) as airflow:
        _until(airflow, lambda: _covered(airflow) >= 16, "what arrived meanwhile to be announced")
        _produce(topics, "watched", 4)
        _until(airflow, lambda: _covered(airflow) >= 20, "what arrived then to be announced")
        announced = _announced(airflow)
        # The run for the last event may come a moment after those before it have ended.
        taken = _until(
            airflow, lambda: (r := _taken(airflow)) and _count(r) >= 20 and r, "the woken runs to take it all and end"
        )
    assert marked.alive() == []

    # Every offset once, and consecutive.
    for partition in (0, 1):
        of_partition = sorted(
            (r["from_offset"], r["until_offset"]) for p in announced for r in p["ranges"] if r["partition"] == partition
        )
        assert [start for start, _ in of_partition] == [0, *(end for _, end in of_partition[:-1])]
        assert of_partition[-1][1] == 10
    assert sorted(p["number"] for p in announced) == list(range(1, len(announced) + 1))
    assert _count(taken) == 20


def _produce(broker: KafkaBroker, topic: str, count: int) -> None:
    broker.produce(topic, [Record(value=b"v", partition=i % 2) for i in range(count)])


def _until(airflow: AirflowStandalone, condition: Callable[[], T], what: str, seconds: float = 240.0) -> T:
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"Expected {what} within {seconds:.0f} s.\n{airflow.tail()}"
        time.sleep(0.5)


def _runs(airflow: AirflowStandalone, dag: str) -> list[str]:
    if not any(d["dag_id"] == dag for d in airflow.get("dags")["dags"]):
        return []
    return [r["dag_run_id"] for r in airflow.get(f"dags/{dag}/dagRuns?order_by=run_after")["dag_runs"]]


def _run_state(airflow: AirflowStandalone, run: str) -> str:
    return str(airflow.get(f"dags/woken/dagRuns/{run}")["state"])


def _states(airflow: AirflowStandalone, run: str, task: str | None = None) -> dict[Any, Any]:
    found = airflow.get(f"dags/waiting/dagRuns/{run}/taskInstances?limit=500")["task_instances"]
    return {(i["task_id"], i["map_index"]): i["state"] for i in found if task in (None, i["task_id"])}


def _xcom(airflow: AirflowStandalone, dag: str, run: str, task: str, index: int) -> Any:
    path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value?stringify=false&map_index={index}"
    return airflow.get(path)["value"]


def _announced(airflow: AirflowStandalone) -> list[dict[str, Any]]:
    return [e["extra"]["payload"] for e in airflow.get("assets/events?limit=100&order_by=timestamp")["asset_events"]]


def _covered(airflow: AirflowStandalone) -> int:
    return sum(_count(p["ranges"]) for p in _announced(airflow))


def _taken(airflow: AirflowStandalone) -> list[dict[str, Any]]:
    """The ranges of all woken runs; none while one of them has not ended well."""
    runs = _runs(airflow, "woken")
    if any(_run_state(airflow, run) != "success" for run in runs):
        return []
    return [r for run in runs for r in _xcom(airflow, "woken", run, "announced", -1)]


def _count(ranges: list[dict[str, Any]]) -> int:
    return sum(r["until_offset"] - r["from_offset"] for r in ranges)
