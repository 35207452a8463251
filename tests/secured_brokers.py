"""The brokers with logins that several test modules share. Each starts once in a test process, when the first test asks
for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

USERS = {"alice": "alice's-pass", "copier": "the-right-password", "reader": "s3cr3t-of-everybody"}


@pytest.fixture(scope="session")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


@pytest.fixture(scope="session")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider({"copier": "s3cret-of-copier"}) as provider:
        yield provider


@pytest.fixture(scope="session")
def kdc() -> Iterator[Kdc | None]:
    if not Kdc.is_available():
        yield None
        return
    with Kdc() as kdc:
        yield kdc


@pytest.fixture(scope="session")
def secured_broker(
    authority: CertificateAuthority, provider: IdentityProvider, kdc: Kdc | None
) -> Iterator[KafkaBroker]:
    """All listeners and all mechanisms; the listener SSL asks for a client certificate. The topic ``orders`` exists."""
    tls = BrokerTls(authority.issue("broker"), authority.ca_pem, "required")
    with KafkaBroker(sasl_users=USERS, tls=tls, identity_provider=provider, kerberos=kdc) as broker:
        broker.create_topic("orders", partitions=2)
        broker.produce("orders", [Record(value=b"v")])
        yield broker


@pytest.fixture(scope="session")
def authorizing_broker() -> Iterator[KafkaBroker]:
    """``copier`` may describe the topic ``seen``, and nothing else: neither the topic ``hidden`` nor any group."""
    with KafkaBroker(sasl_users=USERS, authorizer=True) as broker:
        for name in ("seen", "hidden"):
            broker.produce(broker.create_topic(name), [Record(value=b"v")])
        broker.add_acl("User:copier", "describe", "topic", "seen")
        yield broker


@pytest.fixture(scope="session")
def misconfigured_broker(
    authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """Its certificate is of another host at SSL and has expired at SASL_SSL; at SASL_PLAINTEXT there is only PLAIN."""
    expired = authority.issue("broker", valid_until=datetime.now(timezone.utc) - timedelta(minutes=1))
    store = tmp_path_factory.mktemp("store") / "expired.pem"
    store.write_text(expired.plain_key_pem + expired.certificate_pem)
    properties = {
        "listener.name.sasl_ssl.ssl.keystore.location": str(store),
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
    }
    tls = BrokerTls(authority.issue("broker", hosts=["elsewhere.example"]), authority.ca_pem)
    with KafkaBroker(sasl_users=USERS, tls=tls, properties=properties) as broker:
        broker.create_topic("orders", partitions=2)
        yield broker


@pytest.fixture(scope="session")
def broker_without_tokens() -> Iterator[KafkaBroker]:
    """A broker that has no key for delegation tokens."""
    properties: dict[str, Any] = {"delegation.token.secret.key": None}
    with KafkaBroker(sasl_users=USERS, properties=properties) as broker:
        yield broker
