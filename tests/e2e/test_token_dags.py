"""The examples that are about delegation tokens, for real: ``dag.test()``, a broker that has tokens, and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from croniter import croniter  # type: ignore[import-untyped]

from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import task_context
from tests.copy_proof import prove_copy
from tests.e2e.conftest import DAGS
from tests.services.dag_runs import DagRuns

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.long]

_PASSWORD = "password-of-etl"
_HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaBroker]:
    with KafkaBroker(sasl_users={"etl": _PASSWORD}) as broker:
        yield broker


@pytest.fixture(scope="module")
def airflow(secured: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    home = AirflowHome(
        tmp_path_factory.mktemp("home"),
        DAGS,
        tmp_path_factory.mktemp("scratch"),
        connections={
            "kafka_default": {"conn_type": "kafka", "extra": dict(secured.sasl_client_config("etl"))},
            "spark_default": {"conn_type": "spark", "host": "local[2]"},
        },
    )
    home.migrate()
    return home


@pytest.fixture(scope="module")
def runs(airflow: AirflowHome) -> Iterator[DagRuns]:
    with DagRuns(airflow) as runs:
        yield runs


@pytest.fixture
def tokens(secured: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[DelegationTokenHook]:
    extra = secured.sasl_client_config("etl")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    with DelegationTokenHook() as hook:
        yield hook


def test_tokens_are_renewed_long_before_they_end(
    airflow: AirflowHome, runs: DagRuns, tokens: DelegationTokenHook
) -> None:
    """The one that has come to the second half of its day, and not the other; no secret is left."""
    soon, other = tokens.create(lease_ms=11 * _HOUR_MS), tokens.create(lease_ms=13 * _HOUR_MS)
    log = airflow.logs / "renew_tokens.log"
    left = runs.run("renew_tokens", log)

    found = left["tasks"]["expiring"]["-1"]["xcom"]["return_value"]
    renewed = left["tasks"]["renew"]["-1"]["xcom"]["return_value"]
    assert found["tokens"] == [soon.info.as_json()]
    ((token_id, end),) = ((t["token_id"], t["expiry_timestamp_ms"]) for t in renewed["tokens"])
    assert token_id == soon.info.token_id
    assert end > soon.info.expiry_ms + 12 * _HOUR_MS
    assert other.info in tokens.describe("etl")
    seen = json.dumps(left) + log.read_text()
    assert not [secret for secret in (soon.hmac, other.hmac, _PASSWORD) if secret in seen]
    tokens.expire(TokenSelection(owner="User:etl"))


def test_a_token_that_one_run_just_misses_lives_beyond_the_next(tokens: DelegationTokenHook) -> None:
    """By the broker's own period; and the sensor sleeps for a good part of that."""
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(DAGS / "renew_tokens.py").dags["renew_tokens"]
    expiring: Any = dag.get_task("expiring")
    token = tokens.create().info
    with pytest.raises(TaskDeferred) as asleep:
        expiring.execute(task_context())
    tokens.expire(TokenSelection(owner="User:etl"))

    due_ms = asleep.value.trigger.moment.timestamp() * 1000
    runs = croniter(dag.schedule, datetime(2026, 1, 1, tzinfo=timezone.utc))
    between_ms = -(runs.get_next(float) - runs.get_next(float)) * 1000
    life_ms = token.expiry_ms - token.issue_ms
    assert life_ms / 4 < due_ms - token.issue_ms
    # One more run may fail.
    assert due_ms + 2 * between_ms <= token.expiry_ms + 60_000
    assert asleep.value.timeout is not None
    assert asleep.value.timeout.total_seconds() * 1000 > due_ms - token.issue_ms


def test_a_long_copy_has_a_token_of_its_own(
    airflow: AirflowHome, runs: DagRuns, secured: KafkaBroker, tokens: DelegationTokenHook
) -> None:
    """Every record arrives, and the token has ended with the job."""
    for topic in ("orders", "orders_copy"):
        secured.create_topic(topic, 2)
    secured.produce("orders", [Record(str(n).encode(), b"v", partition=n % 2) for n in range(1000)])
    log = airflow.logs / "long_copy.log"
    result = runs.run("long_copy_on_a_token", log)["tasks"]["copy"]["-1"]["xcom"]["return_value"]

    assert result["records_written"] == 1000
    proofs = prove_copy(result, {"orders": secured.consume("orders")}, secured.consume("orders_copy"))
    assert all(p.holds for p in proofs)
    assert "Made token" in log.read_text()
    assert _PASSWORD not in log.read_text()
    assert tokens.describe("etl") == []
