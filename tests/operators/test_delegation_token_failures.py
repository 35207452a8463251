"""A login that brokers refuse is named in time by an operator on tokens, and tried once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.operators.delegation_token import RenewDelegationTokensOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import task_context
from tests.child_processes import children_with

pytestmark = pytest.mark.broker

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


def test_a_wrong_password_is_tried_once(
    broker_without_tokens: KafkaBroker, connection: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the default time-out; more tries may lock the user out. No process is left, and no clock is to blame."""
    broker, began = broker_without_tokens, time.monotonic()
    with closing(Door(broker.sasl_bootstrap_servers)) as door:
        wrong = {"sasl.password": "wrong-password", "bootstrap.servers": door.address}
        connection("kafka_wrong", extra={**broker.sasl_client_config("alice"), **wrong})
        renew = RenewDelegationTokensOperator(task_id="t", conn_id="kafka_wrong", token_owner="alice")
        with pytest.raises(AirflowFailException, match=r"BrokerAuthenticationError: .*sasl\.password") as caught:
            renew.execute(task_context())  # type: ignore[arg-type]
        assert door.logins == 1
    assert time.monotonic() - began < 38
    assert children_with("py4j.GatewayServer") == []
    said = "".join((str(caught.value), *capsys.readouterr()))
    assert "clock" not in said
    assert "wrong-password" not in said
