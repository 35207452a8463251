from __future__ import annotations

import json

import pytest

from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.docs.examples.own_token import end_tokens_of, use_a_token


@pytest.mark.long
@pytest.mark.broker
def test_the_example_makes_a_token_and_ends_it(secured_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token has ended when the example has: brokers do not list it any more. So has another one of its owner."""
    extra = secured_broker.sasl_client_config("copier", "SCRAM-SHA-512")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))

    use_a_token()

    with DelegationTokenHook("kafka_default") as hook:
        assert hook.describe("User:copier") == []
        hook.create()
        end_tokens_of("User:copier")
        assert hook.describe("User:copier") == []
