"""The brokers with logins that several test modules share. Each starts once in a test process, when the first test asks
for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_kafka_spark.testing.kafka_broker import BrokerTls, KafkaBroker, Record
from tests.services.certificates import CertificateAuthority
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook

USERS = {
    "alice": "alice's-pass",
    "copier": "the-right-password",
    **dict.fromkeys(("bob", "reader", "looker", "guest", "nobody"), "s3cr3t-of-everybody"),
}
#: What is in the topics of the secured broker that its users see.
_ACLS = [("reader", "read", "orders"), ("looker", "describe", "orders"), ("guest", "describe", "seen")]


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
    """All listeners, all mechanisms and ACLs; the listener SSL asks for a client certificate.

    ``alice``, ``copier`` and the certificate of ``writer`` may do everything. Of the topics ``orders``, ``seen`` and
    ``hidden``, which have a record each, ``reader`` may read ``orders``, ``looker`` may describe it, and ``guest`` may
    describe ``seen``; ``bob`` and ``nobody`` may do nothing.
    """
    tls = BrokerTls(authority.issue("broker", password="k3y"), authority.ca_pem, "required")
    with KafkaBroker(
        sasl_users=USERS,
        tls=tls,
        identity_provider=provider,
        kerberos=kdc,
        authorizer=True,
        super_users=["User:alice", "User:copier", "User:CN=writer"],
        # Tokens that have ended are soon gone.
        properties={"delegation.token.expiry.check.interval.ms": "1000"},
    ) as broker:
        for name, partitions in (("orders", 2), ("seen", 1), ("hidden", 1)):
            broker.produce(broker.create_topic(name, partitions), [Record(value=b"v")])
        for user, operation, topic in _ACLS:
            broker.add_acl(f"User:{user}", operation, "topic", topic)
        yield broker


@pytest.fixture(scope="module")
def token_hook(secured_broker: KafkaBroker) -> Iterator[DelegationTokenHook]:
    """That of ``alice``, who sees the tokens of all users. Each hook has a JVM, which lives until the module's end."""
    from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook

    with pytest.MonkeyPatch.context() as patch:
        login = {"conn_type": "kafka", "extra": secured_broker.sasl_client_config("alice")}
        patch.setenv("AIRFLOW_CONN_TOKENS_OF_ALICE", json.dumps(login))
        with DelegationTokenHook("tokens_of_alice") as hook:
            yield hook


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
    """A broker that has no key for delegation tokens, and asks for more brokers than there are for transactions."""
    properties: dict[str, Any] = {
        "delegation.token.secret.key": None,
        "transaction.state.log.replication.factor": "3",
    }
    with KafkaBroker(sasl_users=USERS, properties=properties) as broker:
        yield broker
