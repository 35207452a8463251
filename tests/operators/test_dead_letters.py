"""Promises of ``dead_letter_topic``, ``keys`` and ``headers``: each record is in one place, once, and counted there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.topic_creation import topic_settings
from airflow_provider_kafka_spark.core.dead_letters import REASON_HEADER
from airflow_provider_kafka_spark.core.errors import InvalidInputError, JobReportMissingError, OptionError, TargetError
from airflow_provider_kafka_spark.core.provenance import PROVENANCE_HEADER, Provenance
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.jobs import kafka_source
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

KINDS = (KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator)
COUNT = 12
#: Every third value is no number.
BAD = {i for i in range(COUNT) if i % 3 == 0}
REJECT = "try_cast(string(value) as int) is null"
NOW_MS = int(time.time() * 1000)
DOUBLE = {"value": "string(2 * int(string(value)))"}


def record(i: int) -> Record:
    headers = (("tenant", b"acme" if i % 2 else b"other"), ("n", b"%d" % i), ("n", None))
    key, value = None if i == 5 else b"k%d" % i, b"bad%d" % i if i in BAD else b"%d" % i
    return Record(key, value, headers, NOW_MS + i, i % 2)


@dataclass
class Scene:
    """A source of two partitions with twelve records, and two empty topics."""

    kafka: KafkaBroker
    source: str
    target: str
    dead: str
    folder: Path
    spark: InProcessSpark
    store: TaskStateStore = field(default_factory=TaskStateStore)
    tries: int = 0
    clears: int = 0

    def run(self, kind: type = KafkaToKafkaBatchOperator, *, clears: bool = False, **parameters: Any) -> dict[str, Any]:
        """One try of the task."""
        more: dict[str, Any] = {"topics": [self.source]}
        if kind is ReplayOffsetRangesOperator:
            more = {"offset_ranges": [f"{self.source}:{p}:{start}:{start + 3}" for p in (0, 1) for start in (0, 3)]}
        if kind is KafkaToKafkaAvailableNowOperator:
            more |= {"checkpoint_location": str(self.folder / "checkpoint"), "starting_offsets": "earliest"}
        given = {"target_topic": self.target, **more, **parameters}
        operator = kind(task_id="task", **{name: value for name, value in given.items() if value is not None})
        operator.render_template_fields({})
        self.tries, self.clears = self.tries + 1, self.clears + clears
        context = task_context(self.store, clear_number=self.clears, ti=Try(try_number=self.tries, max_tries=9))
        result: dict[str, Any] = operator.execute(context)
        if clears:
            for callback in operator.on_success_callback:
                callback({"task": operator, **context})
        self.events = context["outlet_events"]
        return result

    def rejecting(self, kind: type = KafkaToKafkaBatchOperator, **parameters: Any) -> dict[str, Any]:
        return self.run(kind, **{"reject_when": REJECT, "dead_letter_topic": self.dead, **parameters})

    def numbers(self, topic: str) -> Counter[int]:
        """Which records a topic has."""
        return Counter(int(dict(reversed(r.headers))["n"] or b"-1") for r in self.kafka.consume(topic))


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory, in_process_spark: InProcessSpark, tmp_path: Path) -> Scene:
    source = topic(2, suffix="source")
    kafka.produce(source, list(map(record, range(COUNT))))
    return Scene(kafka, source, topic(2, suffix="target"), topic(1, suffix="dead"), tmp_path, in_process_spark)


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


LAYOUTS = [
    pytest.param({}, id="plain"),
    pytest.param({"columns": DOUBLE}, id="columns"),
    pytest.param({"target_topic": None, "target_topic_expr": "'{target}'"}, id="expr"),
    pytest.param({"target_topic": None, "topic_map": {"{source}": "{target}"}}, id="map"),
    pytest.param({"preserve_partition": True}, id="same-partition"),
    pytest.param({"provenance": None}, id="no-header"),
]


def filled(scene: Scene, value: Any) -> Any:
    if isinstance(value, dict):
        return {filled(scene, k): filled(scene, v) for k, v in value.items()}
    return value.format(source=scene.source, target=scene.target) if isinstance(value, str) else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("parameters", LAYOUTS)
def test_each_record_goes_to_one_of_the_two(
    scene: Scene, kind: type, delivery: str, parameters: dict[str, Any]
) -> None:
    """An expression of ``columns`` never sees a rejected record: these would fail it."""
    result = scene.rejecting(kind, delivery=delivery, **filled(scene, parameters))

    assert_divided(scene)
    assert_counted(scene, result)
    written = scene.kafka.consume(scene.target)
    assert result["bytes_written"] == sum(len(r.key or b"") + len(r.value or b"") for r in written)


@pytest.mark.parametrize("columns", [None, DOUBLE])
def test_a_spark_with_only_its_public_reader(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, columns: dict[str, str] | None
) -> None:
    monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    result = scene.rejecting(columns=columns)

    assert_divided(scene)
    assert_counted(scene, result)


def test_short_tasks(scene: Scene) -> None:
    result = scene.rejecting(preserve_order=False, max_records_per_partition=2)

    assert_divided(scene)
    assert_counted(scene, result)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("expression", [False, True])
def test_a_retry_after_a_lost_report_counts_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: type, delivery: str, expression: bool
) -> None:
    """At least once reads both topics back; exactly once goes on from its progress."""
    real = SparkJobHook.run

    def lose(*arguments: Any) -> None:
        real(*arguments)
        raise JobReportMissingError("lost")

    to = {"target_topic": None, "target_topic_expr": f"'{scene.target}'"} if expression else {}
    with monkeypatch.context() as patch:
        patch.setattr(SparkJobHook, "run", lose)
        with pytest.raises(JobReportMissingError):
            scene.rejecting(kind, delivery=delivery, **to)

    result = scene.rejecting(kind, delivery=delivery, **to)

    assert_divided(scene)
    if kind is not KafkaToKafkaAvailableNowOperator:
        # What an earlier run of a stream finished is not counted again.
        assert_counted(scene, result)


@pytest.mark.parametrize("lost", ["target", "dead"])
def test_a_clear_writes_what_one_of_the_two_has_lost(scene: Scene, lost: str) -> None:
    scene.rejecting(clears=True)
    name = getattr(scene, lost)
    scene.kafka.delete_topic(name)
    scene.kafka.create_topic(name, 2)

    result = scene.rejecting(clears=True)

    assert result["delivered_before"] == (COUNT - len(BAD) if lost == "dead" else len(BAD))
    assert_divided(scene)
    assert_counted(scene, result)


def test_another_rule_is_another_run(scene: Scene) -> None:
    """What was rejected by the old rule is copied by the new one, and the dead letters stay."""
    first = scene.rejecting(clears=True)
    second = scene.rejecting(clears=True, reject_when="string(value) = 'bad3'")

    assert second["run_id"] != first["run_id"]
    assert second["dead_letters"]["records"] == 1
    assert scene.numbers(scene.dead) == Counter(BAD) + Counter([3])


def test_text_is_the_reason(scene: Scene) -> None:
    """Null is no reason."""
    scene.rejecting(reject_when="if(offset = 1, concat('grün: ', string(value)), null)")

    letters = scene.kafka.consume(scene.dead)
    assert sorted((r.headers[3][1] or b"").decode() for r in letters) == ["grün: 2", "grün: bad3"]


def test_a_condition_that_is_null_rejects_nothing(scene: Scene) -> None:
    result = scene.rejecting(reject_when="null")

    assert (result["records_written"], result["dead_letters"]["records"]) == (COUNT, 0)


def test_filters_come_first(scene: Scene) -> None:
    """What is not selected is not rejected, and counts nowhere."""
    result = scene.rejecting(where="offset < 2", keys=["k0", "k1", "k2", "k9"])

    assert (result["records_read"], result["records_written"], result["dead_letters"]["records"]) == (COUNT, 2, 1)
    assert (scene.numbers(scene.target), scene.numbers(scene.dead)) == (Counter([1, 2]), Counter([0]))


def test_dead_letters_are_whole_although_headers_are_left_out(scene: Scene) -> None:
    scene.rejecting(include_headers=False)

    assert scene.numbers(scene.dead) == Counter(BAD)
    assert {len(r.headers) for r in scene.kafka.consume(scene.target)} == {1}


def test_an_outlet_announces_no_dead_letters(scene: Scene) -> None:
    """Who is scheduled by the target must not read them."""
    asset, alias = Asset("copied"), AssetAlias("each")
    scene.rejecting(outlets=[asset, alias])

    assert {r["topic"] for r in scene.events[asset].extra["target_ranges"]} == {scene.target}
    events = scene.events[alias].asset_alias_events
    assert [event.dest_asset_key.uri.rpartition("/")[2] for event in events] == [scene.target]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [None, DOUBLE])
def test_an_audit_finds_every_record_in_one_of_the_two(
    scene: Scene, kind: type, columns: dict[str, str] | None
) -> None:
    copied = scene.rejecting(kind, columns=columns, headers={"tenant": ["acme", "other"]})
    audited = AuditReplayOperator(task_id="audit", of=copied).execute(task_context())  # type: ignore[arg-type]

    assert (audited["once"], audited["missing"], audited["different"]) == (COUNT, 0, 0)
    assert audited["state"] == "complete"


def test_an_audit_knows_a_lost_dead_letter(scene: Scene) -> None:
    copied = scene.rejecting()
    scene.kafka.delete_records(scene.dead, {0: 1})
    audited = AuditReplayOperator(task_id="audit", of=copied).execute(task_context())  # type: ignore[arg-type]

    assert (audited["once"], audited["unknown"]) == (COUNT - 1, 1)


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
    scene.rejecting()
    second = scene.run(
        topics=[scene.dead], target_topic=other, dead_letter_topic=again, reject_when="'again'", clears=True
    )

    for letter in scene.kafka.consume(again):
        names = [name for name, _ in letter.headers]
        assert (names.count(PROVENANCE_HEADER), names.count(REASON_HEADER)) == (1, 1)
        assert dict(letter.headers)[REASON_HEADER] == b"again"
        origin = Provenance.parse(dict(letter.headers)[PROVENANCE_HEADER] or b"")
        assert (origin.run_id, origin.topic) == (second["run_id"], scene.dead)
    audited = AuditReplayOperator(task_id="audit", of=second).execute(task_context())  # type: ignore[arg-type]
    assert (audited["once"], audited["different"]) == (len(BAD), 0)


def test_an_approved_plan_has_filters_and_dead_letters(scene: Scene) -> None:
    given: dict[str, Any] = {"keys": [b"k3", b"k4", "k6"], "headers": {"tenant": "other"}}
    plan = scene.rejecting(ReplayOffsetRangesOperator, plan_only=True, **given)
    scene.store = TaskStateStore()
    result = scene.run(ReplayOffsetRangesOperator, plan=plan, offset_ranges=None, target_topic=None)

    assert f"- Rejected, to {scene.dead}: `{REJECT}`" in plan["markdown"]
    assert 'Only records with one of 3 keys: "k3", "k4", "k6"' in plan["text"]
    assert 'Only records with a header: tenant: "other"' in plan["text"]
    assert any("reject_when may still be refused" in warning for warning in plan["warnings"])
    assert (result["records_written"], result["dead_letters"]["records"]) == (1, 1)
    assert (scene.numbers(scene.target), scene.numbers(scene.dead)) == (Counter([4]), Counter([6]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("columns", [None, {"value": "value"}])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({"keys": ["k2", b"k3", {"hex": "6b37"}, "none"]}, [2, 3, 7], id="keys"),
        pytest.param({"keys": "k2, k3"}, [2, 3], id="keys-of-a-form"),
        pytest.param({"keys": [None]}, [5], id="no-key"),
        pytest.param({"headers": {"tenant": "acme"}}, [1, 3, 5, 7, 9, 11], id="header"),
        pytest.param({"headers": '{"tenant": ["acme", "x"], "n": ["1", "2"]}'}, [1], id="headers-of-a-form"),
        pytest.param({"headers": {"n": ["7", None]}, "keys": ["k8", "k7"]}, [7, 8], id="null-value-and-keys"),
        pytest.param({"headers": {"tenant": "ACME"}}, [], id="exact"),
        pytest.param({"headers": {"none": None}}, [], id="no-such-header"),
    ],
)
def test_only_wanted_records_are_copied(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    public: bool,
    columns: dict[str, str] | None,
    filters: dict[str, Any],
    expected: list[int],
) -> None:
    """By the writer, by SQL beside the records, and by SQL alone."""
    if public:
        monkeypatch.setattr(kafka_source, "read_tasks", lambda *_: None)

    result = scene.run(kind, columns=columns, **filters)

    assert scene.numbers(scene.target) == Counter(expected)
    assert (result["records_read"], result["records_written"]) == (COUNT, len(expected))


def test_an_audit_of_wanted_records_names_the_others_filtered(scene: Scene) -> None:
    copied = scene.run(keys=["k1", "k2"], headers={"tenant": "acme"})
    audited = AuditReplayOperator(task_id="audit", of=copied).execute(task_context())  # type: ignore[arg-type]

    assert (audited["once"], audited["filtered"], audited["missing"]) == (1, COUNT - 1, 0)


def test_a_stream_belongs_to_its_filters(scene: Scene) -> None:
    kind = KafkaToKafkaAvailableNowOperator
    scene.rejecting(kind, clears=True)
    for other, says in (({"keys": ["k1"]}, "filters is"), ({"reject_when": "false"}, "dead_letters is")):
        scene.store = TaskStateStore()
        with pytest.raises(AirflowFailException, match=rf"^CheckpointError: .*{says}"):
            scene.rejecting(kind, **other)


@pytest.mark.parametrize(
    ("parameters", "kind", "says"),
    [
        pytest.param({"dead_letter_topic": "{dead}"}, OptionError, "belong together", id="no-condition"),
        pytest.param({"reject_when": "true"}, OptionError, "belong together", id="no-topic"),
        pytest.param({"dead_letter_topic": "{target}", "reject_when": "true"}, TargetError, "another", id="target"),
        pytest.param({"dead_letter_topic": "a b", "reject_when": "true"}, TargetError, "name of a topic", id="name"),
        pytest.param({"dead_letter_topic": "missing", "reject_when": "true"}, TargetError, "not exist", id="missing"),
        pytest.param(
            {"dead_letter_topic": "{source}", "reject_when": "true", "allow_same_topic": True},
            TargetError, "must not be a topic that is read", id="source",
        ),
        pytest.param(
            {
                "target_topic": None, "target_topic_expr": "'{target}'", "dead_letter_topic": "{source}",
                "reject_when": "true", "allow_same_topic": True,
            },
            TargetError, "must not be a topic that is read", id="source-with-expression",
        ),
        pytest.param({"keys": []}, InvalidInputError, "list of 1 to 10,000", id="no-keys"),
        pytest.param({"keys": "[1]"}, InvalidInputError, "Each value in keys", id="number"),
        pytest.param({"headers": "tenant"}, InvalidInputError, "headers must be JSON", id="headers"),
    ],
)  # fmt: skip
def test_bad_input(scene: Scene, parameters: dict[str, Any], kind: type, says: str) -> None:
    given = {
        name: value.format(source=scene.source, target=scene.target, dead=scene.dead)
        if isinstance(value, str)
        else value
        for name, value in parameters.items()
    }
    with pytest.raises(AirflowFailException, match=says) as raised:
        scene.run(**given)

    assert str(raised.value).startswith(kind.__name__)
    assert (scene.spark.requests, scene.store.values) == ([], {})


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        pytest.param({"reject_when": "no_such(value)"}, "ExpressionError: .*reject_when must call", id="unknown"),
        pytest.param({"reject_when": "offset"}, "ExpressionError: .*reject_when must be of type", id="type"),
        pytest.param(
            {"target_topic": None, "target_topic_expr": "'{dead}'"},
            "must not lead to the dead-letter topic", id="expr-to-dead-letters",
        ),
        pytest.param(
            {"target_topic": None, "target_topic_expr": "'{target}'", "dead_letter_topic": "missing"},
            "topics that do not exist", id="expr-and-missing",
        ),
    ],
)  # fmt: skip
def test_what_only_the_job_can_check_is_refused_before_a_record_is_written(
    scene: Scene, parameters: dict[str, Any], says: str
) -> None:
    given = {
        name: value.format(source=scene.source, target=scene.target, dead=scene.dead) if value else value
        for name, value in parameters.items()
    }
    with pytest.raises(AirflowFailException, match=says):
        scene.rejecting(**given)

    assert (scene.kafka.consume(scene.target), scene.kafka.consume(scene.dead)) == ([], [])
