"""Promises of naming failures: by the client's background errors, without requests to unavailable servers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_kafka_spark.clients.connection import broker_failures
from airflow_provider_kafka_spark.clients.connection.broker_failures import BrokerFailures
from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.connection.faults import SPEAKS_TLS, LoginFault
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerAuthorizationError,
    BrokerError,
    BrokerTlsError,
    BrokerUnavailableError,
    UnknownTopicError,
)

_CONFIG = translate("my_kafka", {"bootstrap.servers": "b:9093"})
_TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))
_EXPIRED = (KafkaError._SSL, "SSL handshake failed: certificate has expired")
_UNVERIFIED = (
    KafkaError._SSL,
    "SSL handshake failed: certificate verify failed: broker certificate could not be verified",
)
_ENDED = (KafkaError._TRANSPORT, "SSL connection closed by peer: connecting to a PLAINTEXT broker listener?")
_DOWN = (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
_NO_TOKEN = (KafkaError._AUTHENTICATION, 'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}')
_NO_PROVIDER = (KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: Failed to connect to id:1")
#: The bytes "HTTP", read as a number.
_WEB_SERVER = (
    KafkaError._TRANSPORT,
    "b:9093/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000)",
)


class Listener:
    """The result of probing the brokers."""

    def __init__(self) -> None:
        self.fault: LoginFault | None = None
        self.asked = 0

    def find(self, config: KafkaClientConfig, seconds: float) -> LoginFault | None:
        assert config is _CONFIG
        assert 0 < seconds <= 3
        self.asked += 1
        return self.fault


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    listener = Listener()
    monkeypatch.setattr(broker_failures, "find_listener_fault", listener.find)
    return listener


def _failures(*errors: tuple[int, str]) -> BrokerFailures:
    failures = BrokerFailures(_CONFIG)
    for code, text in errors:
        failures.add(KafkaError(code, text))
    return failures


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        pytest.param([_EXPIRED], BrokerTlsError, id="tls"),
        pytest.param([_UNVERIFIED], BrokerTlsError, id="tls-without-reason"),
        pytest.param([_NO_TOKEN], BrokerAuthenticationError, id="identity-provider"),
        pytest.param([(KafkaError._AUTHENTICATION, "no words that are known")], BrokerAuthenticationError, id="login"),
        pytest.param([_NO_PROVIDER], BrokerUnavailableError, id="nobody-answers"),
        pytest.param([_WEB_SERVER], BrokerError, id="a-web-server"),
        pytest.param([_DOWN], BrokerUnavailableError, id="down"),
        pytest.param([_ENDED], BrokerUnavailableError, id="a-guess-is-no-fault"),
        pytest.param([], BrokerUnavailableError, id="silence"),
    ],
)
def test_a_time_out_is_named_by_the_background_errors(
    listener: Listener, errors: list[tuple[int, str]], kind: type[BrokerError]
) -> None:
    """With the servers, the connection and what was asked."""
    error = _failures(*errors).to_error(_TIMED_OUT, "reading metadata", 20)

    assert type(error) is kind
    for words in ("b:9093", "connection 'my_kafka'", "reading metadata"):
        assert words in str(error)


@pytest.mark.parametrize("errors", [_DOWN, _ENDED, _UNVERIFIED])
def test_the_listener_is_probed_if_the_client_has_no_reason(listener: Listener, errors: tuple[int, str]) -> None:
    """And what it says counts."""
    listener.fault = SPEAKS_TLS
    error = _failures(errors).to_error(_TIMED_OUT, "reading metadata", 20)

    assert type(error) is BrokerTlsError
    assert "speaks TLS" in str(error)


@pytest.mark.parametrize("errors", [_EXPIRED, _NO_TOKEN, (KafkaError._RESOLVE, "Failed to resolve 'b:9093'")])
def test_the_listener_is_not_probed_if_the_reason_is_known(listener: Listener, errors: tuple[int, str]) -> None:
    """Where the reason is known, or there is no address to ask at."""
    _failures(errors).to_error(_TIMED_OUT, "reading metadata", 20)
    assert listener.asked == 0


def test_waiting_ends_when_it_cannot_succeed(listener: Listener) -> None:
    """A server that does not answer may do so later, and has half of the time-out for it."""
    assert _failures(_EXPIRED).is_final(0.5, 20)
    assert not _failures(_DOWN).is_final(15, 20)
    assert not _failures(_NO_PROVIDER).is_final(5, 20)
    assert _failures(_NO_PROVIDER).is_final(15, 20)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerAuthorizationError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicError),
        (KafkaError.LEADER_NOT_AVAILABLE, BrokerUnavailableError),
        (KafkaError._NOENT, BrokerUnavailableError),  # noqa: SLF001 - a public code
        (KafkaError.SASL_AUTHENTICATION_FAILED, BrokerAuthenticationError),
        (KafkaError.INVALID_CONFIG, BrokerError),
    ],
)
def test_other_failures_keep_their_names(listener: Listener, code: int, kind: type[Exception]) -> None:
    """Also where one broker of several had a certificate that is not good."""
    errors = [] if kind is BrokerAuthenticationError else [_EXPIRED]
    error = _failures(*errors).to_error(KafkaException(KafkaError(code, "said")), "describing", 20)
    assert type(error) is kind


def test_listeners_are_not_asked_all_the_time(listener: Listener) -> None:
    """Waiting callers check repeatedly, and must not load brokers that are starting."""
    failures = _failures(_DOWN)
    assert not any(failures.is_final(1, 20) for _ in range(10))
    assert listener.asked == 1


def test_a_form_has_its_own_words() -> None:
    failures = BrokerFailures(replace(_CONFIG, has_form=True))
    failures.add(KafkaError(KafkaError._SSL, "unable to get local issuer certificate"))
    message = str(failures.to_error(_TIMED_OUT, "reading metadata", 20))
    assert 'ssl.ca.location is "CA certificates" (ssl_ca)' in message
