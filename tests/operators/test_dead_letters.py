"""Promises of ``dead_letter_topic``, ``keys`` and ``headers``: each record is in one place, once, and counted there.
And of ``schema_id_map``: ids of Confluent's wire format are those of the target's registry, all else is as it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.topic_configs import topic_settings
from airflow_provider_kafka_spark.core.offsets.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.core.records.dead_letters import REASON_HEADER
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore
from tests.operators.conftest import has_submitted_nothing
from tests.operators.copy_task import KINDS, Batch, CopyTask, NewTask, Replay, Stream, audit, covering

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 12
#: Every third value is no number.
BAD = {i for i in range(COUNT) if i % 3 == 0}
REJECT = "try_cast(string(value) as int) is null"
NOW_MS = int(time.time() * 1000)
DOUBLE = {"value": "string(2 * int(string(value)))"}
#: Of two records: the header is not there, and it is null.
TENANTS: dict[int, tuple[tuple[str, bytes | None], ...]] = {10: (), 8: (("tenant", None),)}


def record(i: int) -> Record:
    tenant = TENANTS.get(i, (("tenant", b"acme" if i % 2 else b"other"),))
    key, value = None if i == 5 else b"k%d" % i, b"bad%d" % i if i in BAD else b"%d" % i
    return Record(key, value, (*tenant, ("n", b"%d" % i), ("n", None)), NOW_MS + i, i % 2)


class Scene(CopyTask):
    """A source of two partitions with twelve records, and two empty topics."""

    dead = ""

    def rejecting(self, kind: type = Batch, **parameters: Any) -> dict[str, Any]:
        return self.run(kind, **{"reject_when": REJECT, "dead_letter_topic": self.dead, **parameters})

    def filled(self, value: Any) -> Any:
        """With the names of the topics."""
        if isinstance(value, dict):
            return {self.filled(k): self.filled(v) for k, v in value.items()}
        names = {"source": self.source, "target": self.target, "dead": self.dead}
        return value.format(**names) if isinstance(value, str) else value

    def numbers(self, topic: str) -> Counter[int]:
        """Which records a topic has."""
        return Counter(int(dict(reversed(r.headers))["n"] or b"-1") for r in self.kafka.consume(topic))


@pytest.fixture
def scene(new_task: NewTask, topic: TopicFactory) -> Any:
    found = new_task(Scene, 2, 2, list(map(record, range(COUNT))))
    found.dead = topic(1, suffix="dead")
    return found


def assert_divided(scene: Scene) -> None:
    """Each record is in one of the two topics, once; a dead letter is what the source has, with three headers more."""
    assert scene.numbers(scene.target) == Counter(set(range(COUNT)) - BAD)
    found = scene.kafka.consume(scene.dead)
    assert scene.numbers(scene.dead) == Counter(BAD)
    for letter in found:
        i = int(letter.headers[1][1] or b"")
        original = record(i)
        assert (letter.key, letter.value, letter.timestamp) == (original.key, original.value, original.timestamp)
        assert tuple(letter.headers[:3]) == original.headers
        (reason, text), (name, origin) = letter.headers[3:]
        assert (reason, name, text) == (REASON_HEADER, PROVENANCE_HEADER, REJECT.encode())
        assert Provenance.parse(origin or b"").offset == i // 2


def assert_counted(scene: Scene, result: dict[str, Any]) -> None:
    assert (result["records_read"], result["records_written"]) == (COUNT, COUNT - len(BAD))
    letters = result["dead_letters"]
    assert (letters["topic"], letters["records"]) == (scene.dead, len(BAD))
    assert letters["ranges"][0]["topic"] == scene.dead
    assert sum(r["records_rejected"] for r in result["ranges"]) == len(BAD)
    assert all(r["records_read"] == r["records_written"] + r["records_rejected"] for r in result["ranges"])
    assert result["target_topics"] == [scene.target]
    assert {r["topic"] for r in result["target_ranges"]} == {scene.target}


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "columns": {"columns": DOUBLE, "preserve_partition": True, "provenance": None},
    "expr": {"target_topic": None, "target_topic_expr": "'{target}'"},
    "map": {"target_topic": None, "topic_map": {"{source}": "{target}"}},
}
DELIVERIES = ("exactly_once", "at_least_once")


@pytest.mark.parametrize(
    ("layout", "kind", "reader", "delivery"),
    covering(
        [
            ("plain", Batch, "internal", "at_least_once"),
            ("columns", Stream, "internal", "exactly_once"),
            ("expr", Replay, "public", "exactly_once"),
            ("map", Stream, "public", "at_least_once"),
        ],
        LAYOUTS, KINDS, ("internal", "public"), DELIVERIES,
    ),
)  # fmt: skip
def test_each_record_goes_to_one_of_the_two(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, layout: str, kind: type, reader: str, delivery: str
) -> None:
    """An expression of ``columns`` never sees a rejected record: these would fail it."""
    if reader == "public":
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    result = scene.rejecting(kind, delivery=delivery, **scene.filled(LAYOUTS[layout]))

    assert_divided(scene)
    assert_counted(scene, result)
    written = scene.kafka.consume(scene.target)
    assert result["bytes_written"] == sum(len(r.key or b"") + len(r.value or b"") for r in written)


def test_short_tasks_and_an_outlet_that_announces_no_dead_letters(scene: Scene) -> None:
    """Who is scheduled by the target must not read them."""
    asset, alias = Asset("copied"), AssetAlias("each")
    result = scene.rejecting(preserve_order=False, max_records_per_partition=2, outlets=[asset, alias])

    assert_divided(scene)
    assert_counted(scene, result)
    assert {r["topic"] for r in scene.event(asset).extra["target_ranges"]} == {scene.target}
    events = scene.event(alias).asset_alias_events
    assert [event.dest_asset_key.uri.rpartition("/")[2] for event in events] == [scene.target]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "delivery", "layout"),
    covering(
        [(Batch, "at_least_once", "expr"), (Stream, "exactly_once", "plain")],
        (Batch, Stream), DELIVERIES, ("plain", "expr"),
    ),
)  # fmt: skip
def test_a_retry_after_a_lost_report_counts_the_same(scene: Scene, kind: type, delivery: str, layout: str) -> None:
    """At least once reads both topics back; exactly once goes on from its progress."""
    to = scene.filled(LAYOUTS[layout])
    to |= {"reject_when": REJECT, "dead_letter_topic": scene.dead, "delivery": delivery}
    scene.lose_report(kind, **to)

    result = scene.run(kind, **to)

    assert_divided(scene)
    if kind is not Stream:
        # What an earlier run of a stream finished is not counted again.
        assert_counted(scene, result)


def test_filters_come_first_and_dead_letters_keep_headers_that_are_left_out(scene: Scene) -> None:
    """What is not selected is not rejected, and counts nowhere. Text is the reason, and null is none."""
    reason = "if(offset = 0 and partition = 0, concat('grün: ', string(value)), null)"
    keys = ["k0", "k1", "k2", "k9"]
    result = scene.rejecting(reject_when=reason, where="offset < 2", keys=keys, include_headers=False)

    assert (result["records_read"], result["records_written"], result["dead_letters"]["records"]) == (COUNT, 2, 1)
    (letter,) = scene.kafka.consume(scene.dead)
    assert dict(letter.headers)[REASON_HEADER] == "grün: bad0".encode()
    assert scene.numbers(scene.dead) == Counter([0])
    copies = scene.kafka.consume(scene.target)
    assert [(r.value, len(r.headers)) for r in sorted(copies)] == [(b"1", 1), (b"2", 1)]


def test_an_audit_finds_every_record_in_one_of_the_two(scene: Scene) -> None:
    """And knows a dead letter that was lost."""
    copied = scene.rejecting()
    audited = audit(copied)
    scene.kafka.delete_records(scene.dead, {0: 1})
    later = audit(copied)

    assert (audited["once"], audited["missing"], audited["different"]) == (COUNT, 0, 0)
    assert audited["state"] == "complete"
    assert (later["once"], later["unknown"]) == (COUNT - 1, 1)


@pytest.fixture
def made(scene: Scene) -> Iterator[dict[str, str]]:
    """Names of topics that do not exist."""
    names = {"target_topic": f"made-{uuid4().hex[:8]}", "dead_letter_topic": f"made-{uuid4().hex[:8]}"}
    yield names
    for name in names.values():
        if name in scene.kafka.topics():
            scene.kafka.delete_topic(name)


def test_a_missing_dead_letter_topic_is_made_and_never_compacted(scene: Scene, made: dict[str, str]) -> None:
    scene.kafka.alter_topic(scene.source, {"cleanup.policy": "compact", "retention.ms": "-1"})
    scene.rejecting(**made, create_target_topics=True, keys=[f"k{i}" for i in range(COUNT)])

    with KafkaHook(timeout=20) as hook:
        settings = topic_settings(hook, [made["dead_letter_topic"]])
    assert settings == {made["dead_letter_topic"]: {"cleanup.policy": "delete", "retention.ms": "-1"}}
    assert scene.numbers(made["dead_letter_topic"]) == Counter(BAD)


def test_a_chain_of_copies_has_one_header_of_a_name(scene: Scene, topic: TopicFactory) -> None:
    """The last copy counts. A dead letter that goes back and is rejected again has its new reason."""
    again, other = topic(1, suffix="again"), topic(1, suffix="other")
    scene.clear(reject_when=REJECT, dead_letter_topic=scene.dead)
    second = scene.clear(topics=[scene.dead], target_topic=other, dead_letter_topic=again, reject_when="'again'")

    for letter in scene.kafka.consume(again):
        names = [name for name, _ in letter.headers]
        assert (names.count(PROVENANCE_HEADER), names.count(REASON_HEADER)) == (1, 1)
        assert dict(letter.headers)[REASON_HEADER] == b"again"
        origin = Provenance.parse(dict(letter.headers)[PROVENANCE_HEADER] or b"")
        assert (origin.run_id, origin.topic) == (second["run_id"], scene.dead)
    audited = audit(second)
    assert (audited["once"], audited["different"]) == (len(BAD), 0)


FILTERS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "keys": ({"keys": ["k2", b"k3", {"hex": "6b37"}, "none", None]}, [2, 3, 5, 7]),
    "header": ({"headers": {"tenant": ["acme", "OTHER", None]}}, [1, 3, 5, 7, 8, 9, 11]),
    "all-of": ({"headers": '{"tenant": "acme", "n": ["7", null, "1"]}', "keys": "k8, k7, k1"}, [1, 7]),
}


@pytest.mark.parametrize(
    ("given", "way", "kind"),
    covering(
        [
            ("keys", "sql", Stream), ("header", "writer", Batch), ("header", "sql", Replay), ("keys", "beside", Batch),
            ("all-of", "writer", Stream),
        ],
        FILTERS, ("writer", "beside", "sql"), KINDS,
    ),
)  # fmt: skip
def test_only_wanted_records_are_copied(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, given: str, way: str, kind: type
) -> None:
    """By the writer, by SQL beside the records, and by SQL alone."""
    if way == "sql":
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)
    filters, expected = FILTERS[given]

    result = scene.run(kind, columns={"value": "value"} if way == "beside" else None, **filters)

    assert scene.numbers(scene.target) == Counter(expected)
    assert (result["records_read"], result["records_written"]) == (COUNT, len(expected))


ROUTED = {"target_topic": None, "target_topic_expr": "'{target}'"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dead_letter_topic": None}, "OptionError: .*belong together"),
    ({"reject_when": None}, "OptionError: .*belong together"),
    ({"dead_letter_topic": "{target}"}, "TargetError: .*another"),
    ({"dead_letter_topic": "a b"}, "TargetError: .*name of a topic"),
    ({"dead_letter_topic": "missing"}, "TargetError: .*not exist"),
    ({"dead_letter_topic": "{source}", "allow_same_topic": True}, "TargetError: .*must not be a topic that is read"),
    ({"dead_letter_topic": "{source}", "allow_same_topic": True, **ROUTED}, "TargetError: .*not be a topic that is r"),
    ({"keys": []}, "InvalidInputError: .*list of 1 to 10,000"),
    ({"headers": "tenant"}, "InvalidInputError: .*headers must be JSON"),
]
#: What only the job can check.
REFUSED_BY_THE_JOB: list[tuple[dict[str, Any], str]] = [
    ({"reject_when": "offset"}, "ExpressionError: .*reject_when must be of type"),
    ({"target_topic": None, "target_topic_expr": "'{dead}'"}, "must not lead to the dead-letter topic"),
    ({**ROUTED, "dead_letter_topic": "missing"}, "topics that do not exist"),
]


@pytest.mark.long
def test_what_is_refused_writes_nothing(scene: Scene) -> None:
    for parameters, says in REFUSED:
        with pytest.raises(AirflowFailException, match=rf"^(?s:{says})"):
            scene.rejecting(**scene.filled(parameters))
        assert (scene.spark.requests, has_submitted_nothing(scene.store)) == ([], True), parameters
    for parameters, says in REFUSED_BY_THE_JOB:
        scene.store = TaskStateStore()
        with pytest.raises(AirflowFailException, match=says):
            scene.rejecting(**scene.filled(parameters))
    assert (scene.kafka.consume(scene.target), scene.kafka.consume(scene.dead)) == ([], [])


def framed(schema: int, content: bytes = b"avro") -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + content


VALUES = [framed(3), framed(4, b""), b"plain", b"\0\0\0", b"", None, b"\1\0\0\0\3"]


@pytest.fixture
def task(new_task: NewTask) -> Any:
    return new_task(records=[Record(framed(5, b"%d" % i), value) for i, value in enumerate(VALUES)])


def copies(task: CopyTask) -> list[Record]:
    return task.kafka.consume(task.target)


def test_keys_have_a_map_of_their_own_and_an_expression_decides_itself(task: CopyTask) -> None:
    both = '{"keys": {"5": 9}, "values": {"3": 17, "4": 18}}'
    audited = audit(task.run(schema_id_map=both, columns={"value": "value"}))

    assert [r.value for r in copies(task)] == VALUES
    assert [r.key for r in copies(task)] == [framed(9, b"%d" % i) for i in range(len(VALUES))]
    assert (audited["once"], audited["compared"]) == (len(VALUES), False)


def test_an_unknown_id_fails_by_name_and_a_dead_letter_keeps_its_own(task: CopyTask, topic: TopicFactory) -> None:
    with pytest.raises(AirflowFailException, match=r"^OptionError: .*no id for schema 4 of the value .*\[0\]@1"):
        task.run(schema_id_map={3: 17})
    assert copies(task) == []

    dead = topic(suffix="dead")
    task.clear(schema_id_map={3: 17}, reject_when="offset = 1", dead_letter_topic=dead)
    assert [r.value for r in task.kafka.consume(dead)] == [framed(4, b"")]
    assert [r.value for r in copies(task)] == [framed(17), *VALUES[2:]]
