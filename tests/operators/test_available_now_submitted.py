"""The stream operator by real ``spark-submit``: what holds when the driver is a process of its own, and dies."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, OptionError
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.child_processes import children_with
from tests.operators.conftest import RecordingSpark
from tests.operators.copy_task import Stream, execute

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def _stream(tmp_path: Path, **parameters: Any) -> dict[str, Any]:
    given = {"checkpoint_location": str(tmp_path / "checkpoint"), "starting_offsets": "earliest", **parameters}
    return execute(Stream(task_id="task", progress_seconds=0.5, **given))


def _kill_driver_when_it_has_written(kafka: KafkaBroker, target: str, killed: threading.Event) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if kafka.consume(target):
            for process in children_with("available_now.py"):
                process.kill()
                killed.set()
            return
        time.sleep(0.01)


def test_a_driver_that_is_killed_in_the_middle_of_a_batch(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
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

    result = _stream(tmp_path, **parameters)

    values = [record.value for record in kafka.consume(target)]
    assert (len(values), len(set(values))) == (total, total)
    (finished,) = (b for b in result["batches"] if b["replayed"])
    assert (finished["batch"], finished["records_read"]) == (0, total)
    assert 0 < result["delivered_before"] < total
    assert not (tmp_path / "checkpoint" / "lock.json").exists()


def test_a_retry_carries_out_what_its_first_try_was_asked_for(
    kafka: KafkaBroker,
    topic: TopicFactory,
    tmp_path: Path,
    recording_spark: RecordingSpark,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another checkpoint or start would copy everything again; a clear takes the parameters as they are by now."""
    source, other, target = topic(suffix="source"), topic(suffix="other"), topic(suffix="target")
    kafka.produce(source, [Record(b"k", b"v")] * 10)
    kafka.produce(other, [Record(b"k", b"v")] * 10)
    store = TaskStateStore()

    def fail_once(parameters: tuple[Any, ...], **context: Any) -> str:
        given = dict(zip(names, parameters, strict=True))
        with pytest.raises(JobReportMissingError):
            execute(Stream(task_id="task", target_topic=target, **given), store, **context)
        return capsys.readouterr().out

    names = ("topics", "checkpoint_location", "starting_offsets", "where")
    fail_once(([source, other], str(tmp_path / "1"), {source: {"0": 4}, other: {"0": -2}}, "offset > 0"))
    later = ([source], str(tmp_path / "2"), "earliest", "offset > 1")
    log = fail_once(later)
    fail_once(later, clear_number=1)

    asked, retried, cleared = (
        (r.transform.where, r.stream.checkpoint, r.stream.planned) for r in recording_spark.requests if r.stream
    )
    assert asked == retried
    for name in names:
        assert f"{name} was " in log
    assert cleared == ("offset > 1", f"file://{tmp_path}/2/generation-0", (f"{source}:0:0:10",))


def test_bad_input_starts_nothing(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, recording_spark: RecordingSpark
) -> None:
    """One clear error, before Spark starts and without a trace."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka.produce(source, [Record(b"k", b"v")])
    refused: list[tuple[dict[str, object], str]] = [
        ({"checkpoint_location": "checkpoints/orders"}, "must be an absolute path or a URI"),
        ({"checkpoint_location": "/proc/self/x"}, "must be a folder that can be written|must be readable"),
        ({"max_offsets_per_trigger": 0}, "max_offsets_per_trigger must be an integer"),
        ({"reset_checkpoint_to": {"t": {"0": None}}}, "integer offset >= 0"),
        ({"commit_group_id": 7}, "commit_group_id must be the name"),
        ({"source_options": {"minOffsetsPerTrigger": 5}}, "a tail unread"),
        ({"topics": ["no-such-topic"]}, "'no-such-topic' does not exist"),
        ({"starting_offsets": {"no-such-topic": {"0": 1}}}, "must name only partitions that are read"),
    ]
    for parameters, message in refused:
        with pytest.raises((AirflowFailException, OptionError), match=message):
            _stream(tmp_path, **{"topics": [source], "target_topic": target, **parameters})
        assert not recording_spark.requests
        assert not (tmp_path / "checkpoint").exists()
