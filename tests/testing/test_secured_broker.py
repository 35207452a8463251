"""ACLs and users of the broker's listeners; ``tests/clients/test_logins.py`` has the logins."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient, Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.broker


def test_a_user_may_do_what_an_acl_says(secured_broker: KafkaBroker) -> None:
    """Nothing else, and no longer than it is there."""
    topic = secured_broker.create_topic("acl-orders")
    bob = _client(secured_broker.sasl_client_config("bob"), timeout=10)
    secured_broker.produce(topic, [Record(value=b"1")])
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        bob.consume(topic)
    secured_broker.add_acl("User:bob", "read", "topic", "acl-", "prefixed")
    secured_broker.add_acl("User:bob", "read", "group", "testing-", "prefixed")
    assert len(bob.consume(topic)) == 1
    with pytest.raises(LocalServiceError, match=r"(?i)topic authorization failed"):
        bob.produce(topic, [Record(value=b"2")])
    secured_broker.add_acl("User:bob", "write", "topic", topic)
    bob.produce(topic, [Record(value=b"2")])
    secured_broker.remove_acl("User:bob", "read", "topic", "acl-", "prefixed")
    secured_broker.remove_acl("User:bob", "write", "topic", topic)
    secured_broker.remove_acl("User:bob", "read", "group", "testing-", "prefixed")
    with pytest.raises(LocalServiceError, match=f"must have topic '{topic}'"):
        bob.consume(topic)


@pytest.mark.parametrize(
    "acl",
    [("raed", "topic", "t", "literal"), ("read", "tpoic", "t", "literal"), ("read", "topic", "t", "prefix")],
    ids=["operation", "resource-type", "pattern"],
)
def test_a_misspelt_acl_is_refused(secured_broker: KafkaBroker, acl: tuple[str, str, str, str]) -> None:
    """With the names that there are."""
    with pytest.raises(OptionError, match=r"must be one of \[.*'(read|topic|prefixed)'"):
        secured_broker.add_acl("User:alice", *acl)


def test_acls_that_would_change_nothing(secured_broker: KafkaBroker, kafka_broker: KafkaBroker) -> None:
    """One that was never given cannot be taken back, and without an authorizer there are none."""
    with pytest.raises(LocalServiceError, match="no such ACL"):
        secured_broker.remove_acl("User:alice", "read", "topic", "never-given")
    with pytest.raises(LocalServiceError, match=r"must add the ACL.*(?i:authorizer)"):
        kafka_broker.add_acl("User:alice", "read", "topic", "t")


def test_a_listener_or_user_that_is_not_there_is_an_error(misconfigured_broker: KafkaBroker) -> None:
    """Before a client fails with less to say."""
    for config in (KafkaBroker().ssl_client_config, lambda: KafkaBroker().sasl_client_config("alice")):
        with pytest.raises(OptionError, match=r"must run and have a listener SA?SL"):
            config()
    with pytest.raises(OptionError, match=r"one of the broker's mechanisms.*'GSSAPI'"):
        misconfigured_broker.sasl_client_config("alice", "GSSAPI")
    with pytest.raises(OptionError, match=r"user must be one of .* for PLAIN; got 'carol'"):
        misconfigured_broker.sasl_client_config("carol", "PLAIN")


def test_keys_are_for_the_owner_only(secured_broker: KafkaBroker) -> None:
    """Other users of this machine cannot read the broker's files."""
    stores = list(Path(tempfile.gettempdir()).glob("kafka-broker-*/*.pem"))
    assert {file.name for file in stores} == {"keystore.pem", "truststore.pem"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in stores} == {0o600}


def _client(config: Mapping[str, Any], timeout: float = 20) -> BrokerClient:
    return BrokerClient(config["bootstrap.servers"], config, timeout=timeout)
