"""Promises of the broker and of its client, kept by a real broker."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.ports import free_ports
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory

pytestmark = pytest.mark.broker


def test_a_record_comes_back_as_it_was_written(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """Null values, null keys, repeated header keys, null header values, timestamps and partitions survive; a record
    without timestamp and partition gets both.
    """
    name = topic(partitions=3)
    records = [
        Record(b"tombstone", None, (("a", b"1"), ("a", b"2"), ("b", None)), 1_700_000_000_123, 2),
        Record(None, b"no key", (), 5, 0),
        Record(b"", b"", (("", b""),), 6, 0),
    ]
    assert kafka_broker.consume(name) == []
    kafka_broker.produce(name, records)
    assert kafka_broker.consume(name) == [
        records[1]._replace(offset=0),
        records[2]._replace(offset=1),
        records[0]._replace(offset=0),
    ]
    name, before = topic(partitions=2), int(time.time() * 1000)
    kafka_broker.produce(name, [Record(b"key", b"value")])
    (record,) = kafka_broker.consume(name)
    assert before <= (record.timestamp or 0) <= int(time.time() * 1000)
    assert record.partition in (0, 1)


def test_a_record_that_is_too_large_is_an_error(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """What the broker refuses is not lost silently."""
    name = topic(config={"max.message.bytes": "1000"})
    with pytest.raises(LocalServiceError, match=f"take every record for topic '{name}'.*too large"):
        kafka_broker.produce(name, [Record(value=os.urandom(5000))])


def test_a_password_that_cannot_be_quoted_is_refused() -> None:
    """Before anything is started."""
    with pytest.raises(OptionError, match="got user 'alice'"):
        KafkaBroker(sasl_users={"alice": 'a"b'}).start()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        # A JVM that refuses its options is noticed before the time-out.
        ({"jvm_options": ["-XX:+NoSuchOption"]}, "NoSuchOption"),
        # Another broker's answer at the wanted port is not mistaken for ours.
        pytest.param({"port": "taken"}, "Address already in use", marks=pytest.mark.long),
    ],
    ids=["jvm", "port"],
)
def test_a_broker_that_cannot_start_gives_the_reason(
    kafka_broker: KafkaBroker, how: dict[str, Any], reason: str
) -> None:
    """The error has the end of the broker's log, and nothing is left."""
    taken = int(kafka_broker.bootstrap_servers.rpartition(":")[2])
    parameters = {name: taken if value == "taken" else value for name, value in how.items()}
    broker = KafkaBroker(**parameters, start_timeout=600)
    before = time.monotonic()
    with pytest.raises(LocalServiceError, match=reason):
        broker.start()
    # Long before its time is over.
    assert time.monotonic() - before < 300
    assert not broker.running


@pytest.mark.long
def test_a_broker_from_its_start_to_its_end(
    kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that another process took meanwhile is replaced, a property that is given replaces ours, and a broker that
    was killed comes back with its data at the same address. A stopped one leaves nothing, and may be stopped again.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken = int(kafka_broker.bootstrap_servers.rpartition(":")[2])
    answers = iter([[taken, *free_ports(1)]])
    monkeypatch.setattr(
        "airflow_provider_kafka_spark.testing.kafka_broker.free_ports", lambda n: next(answers, None) or free_ports(n)
    )
    # It comes back when its earlier session has ended.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    with KafkaBroker(properties={"auto.create.topics.enable": "true", **session}) as broker:
        before = broker.bootstrap_servers
        assert before != kafka_broker.bootstrap_servers
        broker.produce("made-by-writing", [Record(value=b"x")])

        broker.kill()

        assert not broker.running
        assert not _answers(before)
        broker.restart()
        assert broker.bootstrap_servers == before
        assert [r.value for r in broker.consume("made-by-writing")] == [b"x"]
        broker.restart()
        assert [r.value for r in broker.consume("made-by-writing")] == [b"x"]
    assert not list(tmp_path.iterdir())
    assert not _answers(before)
    broker.stop()
    with pytest.raises(LocalServiceError, match="KafkaBroker must run"):
        KafkaBroker().restart()


def test_an_existing_broker_that_does_not_answer_is_an_error() -> None:
    """Bringing a broker that is not there fails within the time-out."""
    broker = KafkaBroker.existing("127.0.0.1:1")
    broker.start_timeout = 1.5
    with pytest.raises(LocalServiceError, match=r"answer at 127\.0\.0\.1:1 within 1\.5 seconds.*Start it"):
        broker.start()


def _answers(servers: str) -> bool:
    host, port = servers.split(":")
    with closing(socket.socket()) as client:
        client.settimeout(2)
        return client.connect_ex((host, int(port))) == 0
