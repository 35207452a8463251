"""What a broker does that takes no login, or says nothing: named in time by the operators and the sensor on tokens."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.operators.delegation_token import (
    ExpireDelegationTokensOperator,
    RenewDelegationTokensOperator,
)
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import task_context
from tests.child_processes import children_with

pytestmark = pytest.mark.broker

Extra = dict[str, Any]
_SOON = 38.0


_SASL_AUTHENTICATE = (36).to_bytes(2, "big")


class Door:
    """A port in front of the broker's. A client may connect again before it logs in, as on a busy machine."""

    def __init__(self, address: str) -> None:
        self._broker = address.rsplit(":", 1)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.logins = 0
        threading.Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection((self._broker[0], int(self._broker[1])))
                for pair in ((client, broker, self._look), (broker, client, lambda _: None)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    def _look(self, request: bytes) -> None:
        # The size, then the kind; the first message of SCRAM begins so, and no other.
        self.logins += request[4:6] == _SASL_AUTHENTICATE and b"n,,n=" in request


def _pass_on(source: socket.socket, target: socket.socket, look: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            look(data)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    source.close()


@pytest.fixture
def broker(broker_without_tokens: KafkaBroker) -> KafkaBroker:
    return broker_without_tokens


def _renew(conn_id: str) -> Any:
    return RenewDelegationTokensOperator(task_id="t", conn_id=conn_id, token_owner="alice").execute(task_context())  # type: ignore[arg-type]


def _expire(conn_id: str) -> Any:
    return ExpireDelegationTokensOperator(task_id="t", conn_id=conn_id, token_owner="alice").execute(task_context())  # type: ignore[arg-type]


def _defer(conn_id: str) -> Any:
    sensor = DelegationTokenExpirySensor(task_id="t", conn_id=conn_id, min_remaining=60, deferrable=True)
    return sensor.execute(task_context())  # type: ignore[arg-type]


Run = Callable[[str], Any]
one_of_each = pytest.mark.parametrize("run", [_renew, pytest.param(_expire, marks=pytest.mark.long), _defer])


@pytest.fixture
def in_time(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """With the default time-out; no process is left, and no clock is to blame."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < _SOON
    assert children_with("py4j.GatewayServer") == []
    said = "".join(capsys.readouterr())
    assert "clock" not in said
    assert "wrong-password" not in said


@one_of_each
@pytest.mark.usefixtures("in_time")
def test_a_wrong_password_is_tried_once(broker: KafkaBroker, connection: Callable[..., None], run: Run) -> None:
    """More tries may lock the user out."""
    with closing(Door(broker.sasl_bootstrap_servers)) as door:
        wrong = {"sasl.password": "wrong-password", "bootstrap.servers": door.address}
        connection("kafka_wrong", extra={**broker.sasl_client_config("alice"), **wrong})
        with pytest.raises(AirflowFailException, match=r"BrokerAuthenticationError: .*sasl\.password") as caught:
            run("kafka_wrong")
        assert door.logins == 1
    assert "wrong-password" not in str(caught.value)


@pytest.mark.long
@pytest.mark.usefixtures("in_time")
def test_a_silent_broker_is_asked_once(broker: KafkaBroker, connection: Callable[..., None]) -> None:
    """However many questions there are. Airflow may try again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        connection("kafka_away", extra={**broker.sasl_client_config("alice"), "bootstrap.servers": address})
        with pytest.raises(BrokerUnavailableError, match=address):
            _renew("kafka_away")
