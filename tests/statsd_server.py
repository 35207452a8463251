"""What Airflow sends to StatsD, on a real socket of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


class StatsdServer:
    """Receives metrics on a UDP port, inside :meth:`running`."""

    def __init__(self, receiver: socket.socket) -> None:
        self._socket = receiver
        self.port: int = receiver.getsockname()[1]

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[StatsdServer]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            receiver.settimeout(0.05)
            yield cls(receiver)

    @property
    def environment(self) -> dict[str, str]:
        """Airflow's settings, with tags in the form of InfluxDB."""
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self.port),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
        }

    def received(self) -> list[str]:
        """The lines of this package's metrics since the last call."""
        lines: list[str] = []
        while True:
            try:
                lines += self._socket.recv(65535).decode().splitlines()
            except TimeoutError:
                return [line for line in lines if line.startswith("airflow.kafka_spark.")]
