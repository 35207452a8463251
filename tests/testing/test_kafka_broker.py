"""Promises of the broker and of its client, kept by a real broker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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


def test_bulk_records_keep_their_order(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """Many times more records than fit into the client's queue arrive once each, in order per partition."""
    name = topic(partitions=2)
    kafka_broker.produce(
        name, (Record(value=b"%d" % i, partition=i % 2) for i in range(50_000)), {"queue.buffering.max.messages": 1000}
    )
    records = kafka_broker.consume(name)
    assert [int(record.value or b"") for record in records if record.partition == 0] == list(range(0, 50_000, 2))
    assert [int(record.value or b"") for record in records if record.partition == 1] == list(range(1, 50_000, 2))


def test_a_record_that_is_too_large_is_an_error(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """What the broker refuses is not lost silently."""
    name = topic(config={"max.message.bytes": "1000"})
    with pytest.raises(LocalServiceError, match=f"take every record for topic '{name}'.*too large"):
        kafka_broker.produce(name, [Record(value=os.urandom(5000))])


def test_aborted_records_are_read_on_demand_only(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """read_committed, the default, sees neither aborted records nor the markers that take up offsets."""
    name = topic()
    kafka_broker.produce_transaction(name, [Record(value=b"aborted")], commit=False)
    kafka_broker.produce_transaction(name, [Record(value=b"committed")])
    assert [record.value for record in kafka_broker.consume(name)] == [b"committed"]
    both = kafka_broker.consume(name, isolation_level="read_uncommitted")
    assert [(record.offset, record.value) for record in both] == [(0, b"aborted"), (2, b"committed")]
    assert kafka_broker.offsets(name) == {0: (0, 4)}


def test_deleted_records_are_gone(kafka_broker: KafkaBroker, topic: TopicFactory) -> None:
    """Records before the given offset age out, of the named partitions only; a test that ages out what is not there has
    a mistake in it.
    """
    name = topic(partitions=2)
    kafka_broker.produce(name, [Record(value=b"%d" % i, partition=i % 2) for i in range(10)])
    kafka_broker.delete_records(name, {1: 3})
    assert kafka_broker.offsets(name) == {0: (0, 5), 1: (3, 5)}
    assert [record.value for record in kafka_broker.consume(name) if record.partition == 1] == [b"7", b"9"]
    with pytest.raises(LocalServiceError, match="delete records"):
        kafka_broker.delete_records(name, {0: 6})


def test_a_topic_that_nobody_created_is_not_there(kafka_broker: KafkaBroker) -> None:
    """A misspelt name is an error, not a new topic."""
    with pytest.raises(LocalServiceError, match="must have topic 'misspelt'"):
        kafka_broker.consume("misspelt")
    assert "misspelt" not in kafka_broker.topics()


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


@pytest.mark.long
def test_the_command_line_runs_a_broker_until_a_signal(tmp_path: Path) -> None:
    """It prints the bootstrap servers first, and ends cleanly; ``test_broker_command.py`` has the other ways to end."""
    command = [sys.executable, "-m", "airflow_provider_kafka_spark.testing.kafka_broker"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        servers = process.stdout.readline().strip()
        KafkaBroker.existing(servers).start()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not _answers(servers)
    assert not list(tmp_path.glob("kafka-broker-*"))


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
