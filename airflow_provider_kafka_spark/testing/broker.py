"""``python -m airflow_provider_kafka_spark.testing.broker``: a Kafka broker, topics and records to try things with.

It needs Java only. Ctrl-C ends it at any moment, with all its data.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from airflow_provider_kafka_spark.core.errors import KafkaSparkError, LocalServiceError
from airflow_provider_kafka_spark.testing.ports import LOOPBACK
from airflow_provider_kafka_spark.testing.stoppable import Stoppable

_TOPIC = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,3}))?")
_POLL_SECONDS = 0.2
_HOURS = timedelta(hours=24)


def main(argv: Sequence[str] | None = None) -> int:
    """Start a broker, and keep it until Ctrl-C.

    :return: 0 after ``--seconds``, 1 if the broker did not start or ended by itself.
    """
    stoppable = Stoppable("broker")
    options = _parse(argv)
    scratch = Path(tempfile.mkdtemp(prefix="kafka-spark-broker-"))
    # The broker's files too: nothing is left when it is interrupted.
    tempfile.tempdir = str(scratch)
    try:
        return stoppable.run(lambda: _run(options, stoppable.emit), lambda: shutil.rmtree(scratch, ignore_errors=True))
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1


class Topic(NamedTuple):
    """A topic to create, and the number of its partitions."""

    name: str
    partitions: int


def _run(options: argparse.Namespace, emit: Callable[[str], None]) -> int:
    """Keep a broker with topics, of which the first has records; 0 when the seconds are over.

    :param emit: prints.
    :raises LocalServiceError: the port is in use, the broker did not start, or it ended by itself
    """
    from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
    from airflow_provider_kafka_spark.testing.orders import orders

    if options.port is not None:
        _check_port(options.port)
    emit("Kafka: starting a broker (the first time, its jars are fetched) ...")
    with KafkaBroker(port=options.port) as broker:
        for topic in options.topic:
            broker.create_topic(topic.name, topic.partitions)
            emit(f"Topic {topic.name}: {topic.partitions} partitions.")
        if options.records:
            first = options.topic[0]
            end = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
            start = end - _HOURS
            broker.produce(first.name, orders(options.records, first.partitions, start, _HOURS))
            emit(f"Topic {first.name}: {options.records:,} orders, of {start:%d %B %H:%M} to {end:%d %B %H:%M} UTC.")
        host, _, port = broker.bootstrap_servers.rpartition(":")
        connection = {"conn_type": "kafka_spark", "host": host, "port": int(port)}
        emit(f"Bootstrap server: {broker.bootstrap_servers}")
        emit("For the shell in which Airflow runs:")
        emit(f"export AIRFLOW_CONN_KAFKA_DEFAULT={shlex.quote(json.dumps(connection))}")
        emit("Ctrl-C ends the broker, with all its data.")
        deadline = None if options.seconds is None else time.monotonic() + options.seconds
        while deadline is None or time.monotonic() < deadline:
            if not broker.running:
                raise LocalServiceError(
                    f"The broker at {broker.bootstrap_servers} must run until Ctrl-C; it ended by itself.\n{broker.log}"
                )
            time.sleep(_POLL_SECONDS)
    return 0


def _check_port(port: int) -> None:
    with socket.socket() as listener:
        # As the broker does: a port whose connections have just ended is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise LocalServiceError(
                f"--port must be a port that is free; got {port} ({error.strerror}). Choose another one, or leave it "
                "out to take any free one."
            ) from error


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_kafka_spark.testing.broker",
        description="Start a Kafka broker on this machine, with topics and records to try things with. Ctrl-C ends it.",
        epilog="It listens on the loopback interface, without a login. Exit code: 0 after --seconds, 1 if the broker "
        "did not start or ended by itself, 128 plus the number of a signal that ended it.",
    )
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="create a topic, such as orders:3; may be repeated (default: one partition)",
    )
    parser.add_argument(
        "--records", type=_number, default=0, metavar="N", help="write N orders into the first topic (default: 0)"
    )
    parser.add_argument("--port", type=_port, help="the port to listen on (default: any free one)")
    parser.add_argument("--seconds", type=_number, metavar="N", help="end after N seconds (default: never)")
    options = parser.parse_args(argv)
    names = [topic.name for topic in options.topic]
    if options.records and not names:
        parser.error("--records needs a topic, such as --topic orders:3")
    if len(set(names)) < len(names):
        parser.error(f"--topic must name each topic once; got {names}")
    return options


def _topic(text: str) -> Topic:
    found = _TOPIC.fullmatch(text)
    if found is None or found[1] in (".", ".."):
        raise argparse.ArgumentTypeError(f"expected a name and a number of partitions, such as orders:3; got {text!r}")
    return Topic(found[1], int(found[2] or 1))


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"expected a number, such as 1000; got {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text) or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"expected a port of 1 to 65535, such as 9092; got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
