"""The worker's clients with tokens of a cloud's library, at a real broker. Only the library's function is replaced."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.toolchain.connector import client_jars
from airflow_provider_kafka_spark.toolchain.login_handlers import fetched_handler
from tests.services.identity_provider import IdentityProvider
from tests.waiting import until

pytestmark = pytest.mark.broker

_EXTRA = {
    "bootstrap.servers": "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
_CONFIG = translate("msk", _EXTRA)


class Signer:
    """In place of MSK's library: signed tokens that the broker accepts, or a failure."""

    def __init__(self, provider: IdentityProvider) -> None:
        self.provider = provider
        self.life = 3600
        self.made = 0
        self.fault: Exception | None = None
        self.token: str | None = None

    def generate_auth_token(self, region: str) -> tuple[str, int]:
        assert region == "eu-west-1"
        if self.fault is not None:
            raise self.fault
        self.made += 1
        ends = int(time.time()) + self.life
        return self.token or self.provider.token("copier", life=self.life), ends * 1000


@pytest.fixture
def signer(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> Signer:
    signer = Signer(provider)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", signer)
    return signer


@pytest.fixture
def hook(secured_broker: KafkaBroker) -> Iterator[KafkaHook]:
    """Of a connection to MSK, whose names lead to the test's broker."""
    servers = {"bootstrap.servers": secured_broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    with KafkaHook("msk", timeout=15) as hook:
        hook.config = replace(
            _CONFIG,
            bootstrap_servers=servers["bootstrap.servers"],
            librdkafka={**_CONFIG.librdkafka, **servers},
            protocol="SASL_PLAINTEXT",
        )
        yield hook


def test_the_workers_clients_log_in(signer: Signer, hook: KafkaHook) -> None:
    """That for metadata and that for offsets."""
    assert set(hook.state(["orders"]).topic("orders").partitions) == {0, 1}
    assert hook.group_consumer("any").list_topics("orders", 10).topics["orders"].error is None
    assert signer.made == 2


def test_a_token_is_renewed_before_it_ends(signer: Signer, hook: KafkaHook) -> None:
    """librdkafka asks again after four fifths of a token's life, while the task does something else. A failing renewal
    is no end, as the cloud may answer again; the error names it meanwhile, without its text.
    """
    # A fifth of it is what a slow machine has for the renewal.
    signer.life = 8
    hook.metadata()
    until(lambda: signer.made >= 2)
    assert set(hook.state(["orders"]).topic("orders").partitions) == {0, 1}
    signer.fault = RuntimeError("secret-of-the-role")

    errors: list[KafkaSparkError] = []

    def has_failed() -> bool:
        hook.client.poll(0)
        errors.append(hook.to_error(TimeoutError(), "reading metadata"))
        return "made no new token" in str(errors[-1])

    until(has_failed)

    assert type(errors[-1]) is BrokerUnavailableError
    assert "secret-of-the-role" not in str(errors[-1])


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (AttributeError("secret-of-the-role"), BrokerAuthenticationError, "role of IAM"),
        (ModuleNotFoundError("secret", name="botocore"), ConnectionConfigError, "airflow-provider-kafka-spark[msk]"),
        (None, BrokerAuthenticationError, "refused the token"),
    ],
)
def test_no_token_is_a_named_error(
    signer: Signer,
    hook: KafkaHook,
    provider: IdentityProvider,
    fault: Exception | None,
    kind: type[KafkaSparkError],
    words: str,
) -> None:
    """Nor is one that the broker refuses."""
    signer.fault = fault
    signer.token = provider.token("copier", aud="another")

    with pytest.raises(kind) as raised:
        hook.state(["orders"])

    assert words in str(raised.value)
    assert not [text for text in ("secret", signer.token) if text in str(raised.value)]


@pytest.mark.long
@pytest.mark.parametrize("is_on_class_path", [True, False])
def test_java_s_handler_comes_from_its_jar(secured_broker: KafkaBroker, is_on_class_path: bool) -> None:
    """It is loaded, and the broker, which is not MSK's, says that it does not have the mechanism. A thread's class
    loader has what Spark is given by --jars, while Kafka's client is on the class path.
    """
    [handler] = fetched_handler(str(_CONFIG.login_handler))
    java = {
        **_CONFIG.java,
        "bootstrap.servers": secured_broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
    }
    jars = [*client_jars(None), *([handler] if is_on_class_path else [])]
    with KafkaJvm({}, "the test's broker", timeout=30.0, jars=jars) as jvm:

        def refusal() -> str:
            with pytest.raises(KafkaSparkError) as raised:
                jvm.get(jvm.admin(java).describeCluster().clusterId(), "reading the cluster's id")
            return str(raised.value)

        if not is_on_class_path:
            assert "could not be found" in refusal()
            _load_in_this_thread(jvm, handler)
        assert "UnsupportedSaslMechanismException" in refusal()


def _load_in_this_thread(jvm: KafkaJvm, jar: Path) -> None:
    lang, net = jvm.java.java.lang, jvm.java.java.net
    urls = lang.reflect.Array.newInstance(lang.Class.forName("java.net.URL"), 1)
    urls[0] = net.URL(jar.as_uri())
    thread = lang.Thread.currentThread()
    thread.setContextClassLoader(net.URLClassLoader(urls, thread.getContextClassLoader()))


def test_a_managed_service_issues_no_delegation_tokens() -> None:
    with (
        pytest.raises(ConnectionConfigError, match=r"connection 'msk' .*issues none"),
        DelegationTokenHook("msk", config=_CONFIG),
    ):
        pass
