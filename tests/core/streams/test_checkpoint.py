from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import CheckpointError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.streams.checkpoint import (
    BEAT_SECONDS,
    LEASE_SECONDS,
    STALE_SECONDS,
    Batch,
    Lock,
    Offsets,
    StreamManifest,
    batch_ranges,
    check_commit,
    commit_text,
    parse_initial,
)
from tests.core.refusals import refuses

_PARTS = {"target_topic": "copy", "topic_map": {"orders": "x", "gone": "y"}, "schema_id_map": {"values": {"3": 17}}}
_BINDING = Binding("A", '[["orders"], null, null]', "B", _PARTS)
_FORM = BatchForm(Trace.HEADERS, True, True, "read_committed", "exactly_once")
_MANIFEST = StreamManifest(_BINDING, _FORM, "0123456789abcdef", {TopicPartition("orders", 0): 5}, {"orders": "id-1"})
_METADATA = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_795_165_200_000, "conf": {"a": "b\\n"}})
_OFFSETS_FILE = f'v1\n{_METADATA}\n{{"orders":{{"1":7,"0":23}}}}'
_INITIAL_FILE = '\0v1\n{"orders":{"0":5}}'


def _offsets(**ends: int) -> Offsets:
    """``_offsets(o0=5)`` is offset 5 of partition 0 of topic ``o``."""
    return {TopicPartition(name[:-1], int(name[-1])): end for name, end in ends.items()}


@pytest.mark.parametrize(
    ("begun", "now", "changes"),
    [
        pytest.param({}, {}, [], id="the-same"),
        pytest.param({"provenance": Trace.SEGMENTS}, {}, ["provenance must stay 'segments'; got 'headers'"], id="one"),
        pytest.param(
            {"provenance": Trace.NOTHING}, {"provenance": Trace.NOTHING, "delivery": "at_least_once"},
            ["delivery must stay 'exactly_once'; got 'at_least_once'"], id="progress-that-would-be-lost",
        ),
        pytest.param({}, {"delivery": "at_least_once"}, [], id="the-target-is-read-back"),
        pytest.param(
            {"provenance": Trace.NOTHING, "delivery": "at_least_once"}, {"provenance": Trace.NOTHING}, [],
            id="there-is-no-progress",
        ),
    ],
)  # fmt: skip
def test_what_must_not_change_within_a_batch(begun: dict[str, Any], now: dict[str, Any], changes: list[str]) -> None:
    """The delivery only where its progress is all that is known of the batch."""
    assert replace(_FORM, **begun).changes(replace(_FORM, **now)) == changes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"version": 1}, "must be of version 3; got 1", id="version"),
        pytest.param({"more": 1}, "unknown keys ['more']", id="unknown-key"),
        pytest.param({"stream_id": "0123456789abcdef" * 9}, "stream_id", id="stream-id-too-long"),
    ],
)
def test_a_record_of_another_version_or_shape_is_refused(change: dict[str, Any], says: str) -> None:
    with refuses(CheckpointError, "checkpoint file stream.json", says, "pass another checkpoint_location") as raised:
        StreamManifest.from_json(json.dumps({**json.loads(_MANIFEST.to_json()), **change}), "stream.json")

    assert len(str(raised.value)) < 800


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(_OFFSETS_FILE.replace("v1", "v2", 1), "got 'v2'. It is cut off, damaged", id="version"),
        pytest.param(f'{_OFFSETS_FILE}\n{{"o":{{"0":1}}}}', "of one source are two lines; got 3", id="two-sources"),
        pytest.param(f"v1\n{_METADATA}\n" + "[" * 100_000, "do not make sense", id="offsets-too-deep"),
        pytest.param('v1\n{\n{"o":{"0":1}}', "metadata", id="metadata-cut-off"),
        pytest.param(f'v1\n{_METADATA}\n{{"o":{{"0":{10**3999}}}}}', "got 1000000", id="offset-of-4000-digits"),
        pytest.param(f'v1\n{_METADATA}\n{{"o":{{" 1_0":1}}}}', "as '0'; got ' 1_0'", id="partition-not-plain"),
    ],
)
def test_refuses_what_is_no_batch(text: str, says: str) -> None:
    with refuses(CheckpointError, "offsets/3 of /data", says) as raised:
        Batch.parse(text, 3, "offsets/3 of /data")

    assert len(str(raised.value)) < 800


@pytest.mark.parametrize("text", [_INITIAL_FILE, _INITIAL_FILE.lstrip("\0"), f"{_INITIAL_FILE}\n"])
def test_reads_where_spark_began(text: str) -> None:
    assert parse_initial(text, "sources/0/0") == _offsets(orders0=5)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(commit_text(), id="ours"),
        pytest.param('v1\n{"nextBatchWatermarkMs":0}', id="sparks"),
        pytest.param('v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}', id="of-a-stream-with-state"),
    ],
)
def test_takes_a_whole_commit(text: str) -> None:
    """Also that of Spark's own streams with state, whose offsets may be asked for."""
    check_commit(text, "commits/3")


@pytest.mark.parametrize(
    ("finished", "ends", "expected"),
    [
        pytest.param(_offsets(o0=5, o1=7), _offsets(o0=5, o1=9), ["o:1:7:9"], id="without-the-empty"),
        pytest.param(_offsets(o0=5), _offsets(o0=5, o1=3), ["o:1:0:3"], id="a-new-partition-from-its-beginning"),
        pytest.param(_offsets(o0=5), _offsets(o0=3), [], id="never-backwards"),
    ],
)
def test_a_batch_reads_from_where_others_finished(finished: Offsets, ends: Offsets, expected: list[str]) -> None:
    """Spark's rule: from the ends of the batch before, and from 0 in a partition that is new."""
    assert batch_ranges(finished, ends).format() == expected


@pytest.mark.parametrize("name", ["source_cluster_id", "selection", "target_cluster_id"])
def test_another_source_or_target_is_described(name: str) -> None:
    other = replace(_BINDING, **{name: "other"})

    assert _BINDING.differences(other) == [f"{name} is 'other' and was {getattr(_BINDING, name)!r}"]
    assert _BINDING.differences(_BINDING) == []


@pytest.mark.parametrize(
    ("name", "value", "is_same"),
    [
        pytest.param("target_topic", "other", False, id="another-value"),
        pytest.param("target_topic", None, False, id="no-value"),
        pytest.param("where", "offset > 3", False, id="a-part-that-is-new"),
        # What is read must be mapped in any case.
        pytest.param("topic_map", {"orders": "x", "new": "z"}, True, id="another-topic"),
        pytest.param("topic_map", {"orders": "y", "gone": "y"}, False, id="another-target"),
        pytest.param("topic_map", {"new": "z"}, False, id="no-topic-in-both"),
        # No record with another id was delivered before; a changed one is another job.
        pytest.param("schema_id_map", {"values": {"3": 17, "4": 18}}, True, id="another-id"),
        pytest.param("schema_id_map", {"values": {"3": 19}}, False, id="a-changed-id"),
        pytest.param("schema_id_map", {"values": {"3": 17}, "keys": {}}, False, id="another-side"),
    ],
)
def test_what_must_not_change_in_a_job(name: str, value: object, is_same: bool) -> None:
    other = replace(_BINDING, transform={**_PARTS, name: value})

    described = [] if is_same else [f"{name} is {value!r} and was {_PARTS.get(name)!r}"]
    assert _BINDING.differences(other) == described


_LOCK = Lock("task 'copy' of DAG 'orders', run 'manual'", "local-1", 7)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"owner": "a", "application_id": "b", "beat": 1, "more": 1}', id="unknown-key"),
        pytest.param("[" * 100_000, id="too-deep"),
    ],
)
def test_what_is_no_lock_is_none(text: str) -> None:
    """Whatever else lies there names no owner; a reader may meet a writer, and must not fail for it."""
    assert Lock.parse(text) is None
    for length in range(len(_LOCK.format())):
        assert Lock.parse(_LOCK.format()[:length]) is None


def test_an_owner_that_others_wrote_stays_on_one_line() -> None:
    """A lock may be anybody's text, and it is named in logs that are read line by line. It has what finds the run."""
    assert str(_LOCK) == "task 'copy' of DAG 'orders', run 'manual' (application local-1)"
    text = str(Lock("me\nERROR forged\u2028" + "x" * 4000, "local-1", 0))

    assert text.startswith("me?ERROR forged?x")
    assert len(text) <= 500


def test_a_run_ends_before_its_lock_is_taken_over() -> None:
    """Several beats may fail; and a JVM takes some seconds to end."""
    assert 5 * BEAT_SECONDS <= LEASE_SECONDS <= STALE_SECONDS - 10
