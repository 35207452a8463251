"""The examples that are about delegation tokens, for real: ``dag.test()``, a broker that has tokens, and Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_kafka_spark.core.logins.delegation_token import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.copy_proof import prove_copy
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.e2e.conftest import DAGS

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow]

_PASSWORD = "password-of-etl"


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


@pytest.fixture
def tokens(secured: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[DelegationTokenHook]:
    extra = secured.sasl_client_config("etl")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    with DelegationTokenHook() as hook:
        yield hook


def test_tokens_are_renewed_at_night(airflow: AirflowHome, tokens: DelegationTokenHook) -> None:
    """The one that ends within a day, and not the other; no secret is left behind."""
    soon, other = tokens.create(lease_ms=3_600_000), tokens.create()
    log = airflow.logs / "renew_tokens.log"
    left = airflow.test_dag("renew_tokens", log)

    found = left["tasks"]["expiring"]["-1"]["xcom"]["return_value"]
    renewed = left["tasks"]["renew"]["-1"]["xcom"]["return_value"]
    # A broker's tokens end after a day, so the other one has just come within it, too.
    assert soon.info.token_id in {t["token_id"] for t in found["tokens"]}
    ends = {t["token_id"]: t["expiry_timestamp_ms"] for t in renewed["tokens"]}
    assert ends[soon.info.token_id] > soon.info.expiry_ms + 20 * 3_600_000
    seen = json.dumps(left) + log.read_text()
    assert not [secret for secret in (soon.hmac, other.hmac, _PASSWORD) if secret in seen]
    tokens.expire(TokenSelection(owner="User:etl"))


def test_a_long_copy_has_a_token_of_its_own(
    airflow: AirflowHome, secured: KafkaBroker, tokens: DelegationTokenHook
) -> None:
    """Every record arrives, and the token has ended with the job."""
    for topic in ("orders", "orders_copy"):
        secured.create_topic(topic, 2)
    secured.produce("orders", [Record(str(n).encode(), b"v", partition=n % 2) for n in range(1000)])
    log = airflow.logs / "long_copy.log"
    result = airflow.test_dag("long_copy_on_a_token", log)["tasks"]["copy"]["-1"]["xcom"]["return_value"]

    assert result["records_written"] == 1000
    proofs = prove_copy(result, {"orders": secured.consume("orders")}, secured.consume("orders_copy"))
    assert all(p.holds for p in proofs)
    assert "Made token" in log.read_text()
    assert _PASSWORD not in log.read_text()
    assert tokens.describe("etl") == []
