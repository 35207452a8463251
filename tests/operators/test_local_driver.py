"""Drivers of their own on the worker's machine: what they show to others on the network and leave to others on the
machine; and what holds when the driver of a stream dies.
"""

from __future__ import annotations

import ipaddress
import resource
import signal
import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, KafkaSparkError
from airflow_provider_kafka_spark.state import checkpoint
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.child_processes import children_with
from tests.operators.conftest import Traces
from tests.operators.copy_task import Batch, Stream, execute
from tests.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark]
#: The types of a request, and of an answer that it failed, in Spark's own protocol.
_REQUEST, _FAILURE = b"\x03", b"\x05"


@pytest.fixture
def core_dumps() -> Iterator[None]:
    """A process that crashes dumps its memory, unless it is configured otherwise."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


@dataclass
class Seen:
    """What there was while the job wrote records.

    :param listening: addresses and ports at which its processes took connections.
    :param uis: addresses of Spark's UI among them.
    :param open_to_all: ports that take a message of Spark's own protocol without a login.
    :param behind_login: those that ask for one.
    :param block_folders: where Spark keeps blocks, with the mode of the job's folder around it.
    :param native_code: the folders of the libraries for compression that it has unpacked and loaded.
    :param written: records in the target, before and after a request to kill the job by Spark's UI.
    """

    listening: set[tuple[str, int]] = field(default_factory=set)
    uis: list[str] = field(default_factory=list)
    open_to_all: list[int] = field(default_factory=list)
    behind_login: list[int] = field(default_factory=list)
    block_folders: dict[str, int] = field(default_factory=dict)
    native_code: set[Path] = field(default_factory=set)
    written: list[int] = field(default_factory=list)


@pytest.mark.usefixtures("core_dumps")
def test_keeps_to_the_loopback_interface_and_to_the_jobs_folder(
    kafka: KafkaBroker, topic: TopicFactory, traces: Traces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody outside reaches the driver, nor ends the job by its UI; blocks, native code and crash report go with the
    folder.
    """
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(value=b"%06d" % i) for i in range(6_000)])
    seen = Seen()
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)

    def written() -> int:
        return sum(end for _, end in kafka.offsets(target).values())

    def wait_for_more_than(count: int) -> None:
        until(lambda: written() > count, "records are written", 90)

    def look_and_crash() -> None:
        wait_for_more_than(100)
        for process in children_with("batch.py"):
            sockets = process.net_connections(kind="inet")
            # Java shows an IPv4 address as an IPv6 one.
            addresses = [s.laddr for s in sockets if s.status == psutil.CONN_LISTEN]
            loaded = (Path(mapped.path) for mapped in process.memory_maps())
            seen.native_code |= {file.parent for file in loaded if file.name.startswith("liblz4")}
            seen.listening |= {(address.ip.removeprefix("::ffff:"), address.port) for address in addresses}
        for _, port in seen.listening:
            answer = _answer_to_spark_message(port)
            if answer.startswith(_FAILURE):
                (seen.behind_login if b"Expected SaslMessage" in answer else seen.open_to_all).append(port)
        for folder in traces.folder.rglob("blockmgr-*"):
            (job_folder,) = traces.folder.glob("airflow-kafka-spark-*")
            seen.block_folders[str(folder.relative_to(job_folder))] = job_folder.stat().st_mode & 0o777
        seen.written.append(written())
        seen.uis += [f"http://127.0.0.1:{port}" for _, port in seen.listening if b"Spark Jobs" in _page(port, "jobs/")]
        for _, port in seen.listening:
            for number in range(3):
                # As the "(kill)" links of the UI do.
                _page(port, f"jobs/job/kill/?id={number}", data=b"")
        wait_for_more_than(seen.written[0] + 100)
        seen.written.append(written())
        for process in children_with("batch.py"):
            if process.name() == "java":
                process.send_signal(signal.SIGSEGV)

    thread = threading.Thread(target=look_and_crash)
    thread.start()
    # For a minute, so that there is a middle to look at; by SQL, as a job that has most of Spark.
    slow: dict[str, Any] = {"max_records_per_second": 100, "where": "length(value) = 6"}
    with pytest.raises(KafkaSparkError):
        execute(Batch(task_id="task", topics=[source], target_topic=target, **slow))
    thread.join()

    assert [address for address in seen.listening if not ipaddress.ip_address(address[0]).is_loopback] == []
    assert len(seen.uis) == 1
    # The driver and its blocks.
    assert (seen.open_to_all, len(seen.behind_login)) == ([], 2)
    assert set(seen.block_folders.values()) == {0o700}
    (unpacked,) = seen.native_code
    assert unpacked.parent == traces.folder
    assert seen.written[1] > seen.written[0] + 100
    # Spark makes an empty folder there, and leaves it in a crash.
    assert {path.name for path in working.iterdir()} <= {"artifacts"}
    assert (traces.files, traces.processes) == ([], [])


def _page(port: int, path: str, data: bytes | None = None) -> bytes:
    """What is answered by HTTP; nothing where that is not spoken, or refused."""
    address = f"http://127.0.0.1:{port}/{path}"
    try:
        with urllib.request.urlopen(address, data=data, timeout=5) as page:
            content: bytes = page.read()
            return content
    except (OSError, HTTPException):
        return b""


def _answer_to_spark_message(port: int) -> bytes:
    """What is answered to a request that nobody understands, without the length of the answer."""
    body = b"\0\0\0\0"
    request = _REQUEST + struct.pack(">qi", 1, len(body)) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">q", len(request) + 8) + request)
            return connection.recv(4096)[8:]
    except OSError:
        return b""


def test_a_record_on_which_an_expression_fails_is_in_no_log(
    kafka: KafkaBroker, topic: TopicFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark quotes it in the error, which executors, the driver and the task log."""
    source, target = topic(1, suffix="source"), topic(1, suffix="target")
    kafka.produce(source, [Record(b"k", b"card 4711-0815-card")])

    with pytest.raises(AirflowFailException) as failed:
        execute(
            Batch(
                task_id="task",
                topics=[source],
                target_topic=target,
                starting_offsets="earliest",
                ending_offsets="latest",
                columns={"value": "string(int(string(value)))"},
            )
        )

    log = "".join(capfd.readouterr())
    assert f"An expression fails on record {source}[0]@0: CAST_INVALID_INPUT" in str(failed.value)
    # Spark's own log is there.
    assert "Lost task 0.0" in log
    assert "4711-0815-card" not in log + str(failed.value)


def _stream(tmp_path: Path, **parameters: Any) -> dict[str, Any]:
    given = {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest", **parameters}
    return execute(Stream(task_id="task", progress_seconds=0.5, **given))


def _kill_driver_when_it_has_written(kafka: KafkaBroker, target: str, killed: threading.Event) -> None:
    until(lambda: kafka.consume(target), "records are there", 120)
    for process in children_with("available_now.py"):
        process.kill()
        killed.set()


def test_a_driver_that_is_killed_in_the_middle_of_a_batch(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try finishes the very offsets of that batch and writes only what is missing."""
    source, target = topic(4, suffix="source"), topic(4, suffix="target")
    total = 4_000
    kafka.produce(source, [Record(b"k%d" % i, b"%08d" % i, partition=i % 4) for i in range(total)])
    parameters: dict[str, Any] = {"topics": [source], "target_topic": target, "where": "length(value) = 8"}
    killed = threading.Event()
    killer = threading.Thread(target=_kill_driver_when_it_has_written, args=(kafka, target, killed), daemon=True)
    killer.start()
    with pytest.raises(JobReportMissingError):
        # Ten seconds, so that there is a middle to be killed in.
        _stream(tmp_path, max_records_per_second=total // 10, **parameters)
    killer.join(timeout=120)
    assert killed.is_set()

    # Nobody changes the lock that the driver has left.
    monkeypatch.setattr(checkpoint, "STALE_SECONDS", 2.0)
    result = _stream(tmp_path, **parameters)

    values = [record.value for record in kafka.consume(target)]
    assert (len(values), len(set(values))) == (total, total)
    (finished,) = (b for b in result["batches"] if b["replayed"])
    assert (finished["batch"], finished["records_read"]) == (0, total)
    assert 0 < result["delivered_before"] < total
    assert not (tmp_path / "checkpoint" / "lock.json").exists()
