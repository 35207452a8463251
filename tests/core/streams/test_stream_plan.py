from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.copies.identity import BatchForm, Binding
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    BrokerUnavailableError,
    CheckpointError,
    DataLossError,
    PlanError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.records.trace import Trace
from airflow_provider_kafka_spark.core.streams.checkpoint import Batch, Checkpoint, StreamManifest
from airflow_provider_kafka_spark.core.streams.stream_plan import Reset, StreamPlan, resolve_stream
from airflow_provider_kafka_spark.core.topics.bounds import Bound
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.topics.starts import parse_any_start
from tests.core.refusals import refuses

_NOW = 1_795_168_800_000
_STRICT = ReadRules()
_PERMISSIVE = ReadRules(fail_on_data_loss=False)
_BINDING = Binding("cluster", '[["o"], null, null]', "cluster")
_FORM = BatchForm(Trace.HEADERS, True, True, "read_committed", "exactly_once")
_ID, _NEW_ID = "0123456789abcdef", "fedcba9876543210"
_SELECTION, _BOTH_TOPICS = Selection(topics=["o"]), Selection(topics=["o", "p"])
#: What is known of moments in partition 0 of topic ``o``: none has a record, but for the present one.
_FIRST_AT = {(TopicPartition("o", 0), ms): offset for ms, offset in [(0, 7), (_NOW, 7), (_NOW + 1, None)]}

#: The log of a partition: log start, last stable offset, high watermark.
Log = tuple[int, int, int]


def _offsets(**ends: int) -> dict[TopicPartition, int]:
    """``_offsets(o0=5)`` is offset 5 of partition 0 of topic ``o``."""
    return {TopicPartition(name[:-1], int(name[-1])): end for name, end in ends.items()}


def _cluster(ids: dict[str, str | None] | None = None, first_at: Any = None, **topics: list[Log]) -> ClusterState:
    """Topics with a partition for each log; a topic's id is ``id-1`` unless it is given."""
    return ClusterState(
        "cluster",
        "kafka_default",
        _NOW,
        {
            name: TopicState(
                name, {name: "id-1", **(ids or {})}[name], {i: PartitionState(*log) for i, log in enumerate(logs)}
            )
            for name, logs in topics.items()
        },
        first_at or {},
    )


def _checkpoint(
    finished: dict[TopicPartition, int],
    batch: dict[TopicPartition, int] | None = None,
    topic_ids: dict[str, str] | None = None,
    **manifest: Any,
) -> Checkpoint:
    """Generation 2, whose batch 4 is committed; ``batch`` are the ends of batch 5, which is not."""
    ids = {p.topic: "id-1" for p in finished} if topic_ids is None else topic_ids
    generation = StreamManifest(_BINDING, _FORM, _ID, dict.fromkeys(finished, 0), ids)
    return Checkpoint(
        2,
        replace(generation, **manifest),
        Batch(4, finished),
        None if batch is None else Batch(5, {**finished, **batch}),
    )


def _resolve(
    checkpoint: Checkpoint | None,
    cluster: ClusterState,
    rules: ReadRules = _STRICT,
    *,
    binding: Binding = _BINDING,
    form: BatchForm = _FORM,
    selection: Selection = _SELECTION,
    starting: object = None,
    reset: Reset | None = None,
) -> StreamPlan:
    bound = None if starting is None else parse_any_start(starting)
    assert bound is None or isinstance(bound, Bound)
    return resolve_stream(checkpoint, binding, form, selection, bound, reset, cluster, rules, _NEW_ID)


_TEN_RECORDS = _cluster(o=[(0, 10, 10)])


def _missing(stream_plan: StreamPlan) -> list[str]:
    return [m.offset_range.format() for m in stream_plan.resolved.missing]


@pytest.mark.parametrize(
    ("starting", "log", "expected"),
    [
        pytest.param("earliest", (3, 10, 10), "o:0:3:10", id="earliest"),
        pytest.param("latest", (3, 10, 10), "o:0:10:10", id="latest"),
        pytest.param({"o": {"0": 5}}, (3, 10, 10), "o:0:5:10", id="offset"),
        pytest.param(_NOW, (0, 10, 10), "o:0:7:10", id="moment"),
    ],
)
def test_the_first_run_starts_at_the_starting_offsets(starting: object, log: Log, expected: str) -> None:
    """Also at the end there is work: unless that is written down, the next run would start at another end."""
    stream_plan = _resolve(None, _cluster(first_at=_FIRST_AT, o=[log]), starting=starting)

    start = int(expected.split(":")[2])
    assert stream_plan.resolved.ranges.format() == [expected]
    assert (stream_plan.generation, stream_plan.is_new, stream_plan.has_work) == (0, True, True)
    assert stream_plan.manifest == StreamManifest(_BINDING, _FORM, _NEW_ID, _offsets(o0=start), {"o": "id-1"})


@pytest.mark.parametrize(
    ("starting", "error", "says"),
    [
        # Spark would start at the end, and skip what is there.
        pytest.param(None, BoundError, "starting_offsets must say where to start: 'earliest', 'latest'", id="missing"),
        # It would be the same as 'latest', in silence.
        pytest.param(_NOW + 1, BoundError, "starting_offsets must not lie in the future", id="future"),
        pytest.param({"o": {"0": 5}}, DataLossError, "aged out", id="aged-out"),
        pytest.param({"o": {"0": 11}}, PlanError, "must not lie beyond the log; got 11", id="beyond"),
    ],
)
def test_what_a_first_run_starts_at_must_be_there(starting: object, error: type[Exception], says: str) -> None:
    with refuses(error, says):
        _resolve(None, _cluster(first_at=_FIRST_AT, o=[(7, 10, 10)]), starting=starting)


@pytest.mark.parametrize(
    ("log", "rules", "expected", "has_work", "says"),
    [
        pytest.param((0, 10, 10), _STRICT, "o:0:5:10", True, [], id="to-the-end"),
        pytest.param((0, 5, 5), _STRICT, "o:0:5:5", False, [], id="at-the-end-spark-need-not-start"),
        # Or each run would report the same gap again.
        pytest.param((10, 10, 10), _PERMISSIVE, "o:0:10:10", True, [], id="over-a-loss-although-nothing-is-left"),
        pytest.param(
            (0, 8, 10), _STRICT, "o:0:5:8", True, ["hides the last 2 offsets"], id="up-to-an-open-transaction"
        ),
    ],
)
def test_goes_on_where_the_checkpoint_stands(
    log: Log, rules: ReadRules, expected: str, has_work: bool, says: list[str]
) -> None:
    stream_plan = _resolve(_checkpoint(_offsets(o0=5)), _cluster(o=[log]), rules, starting="earliest")

    assert (stream_plan.resolved.ranges.format(), stream_plan.has_work) == ([expected], has_work)
    assert (stream_plan.generation, stream_plan.is_new, stream_plan.manifest.stream_id) == (2, False, _ID)
    assert len(stream_plan.resolved.warnings) == len(says)
    assert all(text in warning for text, warning in zip(says, stream_plan.resolved.warnings, strict=True))


@pytest.mark.parametrize(
    ("finished", "batch", "hidden_from"), [(9, None, 8), (5, 8, 7)], ids=["read-uncommitted", "batch-that-was-begun"]
)
def test_a_stream_cannot_go_back_before_an_open_transaction(finished: int, batch: int | None, hidden_from: int) -> None:
    """Spark would call what the transaction hides lost; here the transaction is named, and what to do."""
    checkpoint = _checkpoint(_offsets(o0=finished), None if batch is None else _offsets(o0=batch))
    cluster = _cluster(o=[(0, hidden_from, 10)])

    for rules in (_STRICT, _PERMISSIVE):
        with refuses(PlanError, f"an open transaction hides everything from {hidden_from} on ", "read_uncommitted"):
            _resolve(checkpoint, cluster, rules)
    uncommitted = _resolve(checkpoint, cluster, ReadRules(read_committed=False))
    assert uncommitted.resolved.ranges.format() == [f"o:0:{finished}:10"]


def test_the_checkpoint_of_another_job_is_refused() -> None:
    """The error says how the job goes on with its new definition, or from the offsets of Spark's own job."""
    ours, sparks = _checkpoint(_offsets(o0=5)), Checkpoint(0, None, Batch(3, _offsets(o0=5)))
    with refuses(
        CheckpointError,
        "The checkpoint belongs to another job: where is 'x' and was None",
        "reset_checkpoint_to={'o': {'0': 5}}",
    ):
        _resolve(ours, _TEN_RECORDS, binding=replace(_BINDING, transform={"where": "x"}))
    with refuses(CheckpointError, "holds one of another Spark stream", "starting_offsets={'o': {'0': 5}}"):
        _resolve(sparks, _TEN_RECORDS, starting="earliest")


def test_a_reset_begins_a_generation() -> None:
    """Another folder, another id in the provenance header; the definition may be another one too."""
    binding = replace(_BINDING, transform={"where": "key is not null"})

    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), batch=_offsets(o0=8)),
        _TEN_RECORDS,
        binding=binding,
        reset=Reset('{"o": {"0": 2}}', "run-1"),
    )

    assert stream_plan.resolved.ranges.format() == ["o:0:2:10"]
    assert (stream_plan.generation, stream_plan.is_new) == (3, True)
    assert stream_plan.manifest == StreamManifest(
        binding, _FORM, _NEW_ID, _offsets(o0=2), {"o": "id-1"}, reset_to='{"o": {"0": 2}}', reset_by="run-1"
    )
    assert stream_plan.uncommitted_batch is None


@pytest.mark.parametrize("name", [f.name for f in fields(BatchForm)])
def test_an_uncommitted_batch_keeps_its_form(name: str) -> None:
    begun = replace(_FORM, provenance=Trace.NOTHING)
    changed = replace(begun, **{name: not begun.include_headers if name == "include_headers" else "other"})
    with refuses(CheckpointError, "batch 5", f"{name} must stay", "for one run", "reset_checkpoint_to={'o': {'0': 5}}"):
        _resolve(_checkpoint(_offsets(o0=5), _offsets(o0=8), form=begun), _TEN_RECORDS, form=changed)

    assert _resolve(_checkpoint(_offsets(o0=5), form=begun), _TEN_RECORDS, form=changed).manifest.form == changed


@pytest.mark.parametrize(
    ("done", "reset", "expected"),
    [
        pytest.param("earliest", Reset("earliest", "run-1"), (2, "o:0:5:10"), id="a-retry-goes-on"),
        pytest.param(
            "2026-11-20T10:00:00+00:00", Reset("1795168800000", "run-1"), (2, "o:0:5:10"), id="in-another-spelling"
        ),
        pytest.param("earliest", Reset('{"o": {"0": 2}}', "run-1"), (3, "o:0:2:10"), id="another-reset"),
    ],
)
def test_a_reset_is_done_once_for_each_dag_run(done: str, reset: Reset, expected: tuple[int, str]) -> None:
    checkpoint = _checkpoint(_offsets(o0=5), reset_to=done, reset_by="run-1")

    stream_plan = _resolve(checkpoint, _TEN_RECORDS, reset=reset)

    assert (stream_plan.generation, *stream_plan.resolved.ranges.format()) == expected
    assert stream_plan.is_new == (expected[0] == 3)


def test_a_reset_that_is_left_in_the_dag_or_lies_in_the_future_is_refused() -> None:
    """Each run would copy everything again."""
    cluster = _cluster(first_at=_FIRST_AT, o=[(0, 10, 10)])
    with refuses(BoundError, "reset_checkpoint_to='earliest' was done already, by the DAG run 'run-1'", "Take it out"):
        _resolve(_checkpoint(_offsets(o0=5), **_RESET_DONE), cluster, reset=Reset("earliest", "run-2"))
    with refuses(BoundError, "reset_checkpoint_to must not lie in the future"):
        _resolve(_checkpoint(_offsets(o0=5)), cluster, reset=Reset(str(_NOW + 1), "run-1"))


_P = [(0, 4, 4)]


@pytest.mark.parametrize(
    ("cluster", "says", "ranges", "missing", "begins_anew"),
    [
        pytest.param(
            _cluster(p=_P), "o[0] 5 to 5: the topic was deleted; the stream had read it", ["p:0:1:4"], "o:0:5:5", True,
            id="deleted",
        ),
        pytest.param(
            _cluster({"o": "id-2"}, o=[(0, 10, 10)], p=_P), "was deleted and recreated (id id-1, now id-2)",
            ["o:0:0:10", "p:0:1:4"], "o:0:5:5", True, id="created-again",
        ),
        pytest.param(
            _cluster(o=[(0, 3, 3)], p=_P), "the log ends at 3: it was cut short",
            ["o:0:3:3", "p:0:1:4"], "o:0:5:5", True, id="cut-short",
        ),
        pytest.param(
            _cluster({"o": None}, o=[(0, 3, 3)], p=_P), "or the topic was recreated", ["o:0:0:3", "p:0:1:4"], "o:0:5:5",
            True, id="shorter-without-an-id",
        ),
        pytest.param(
            _cluster(o=[(8, 10, 10)], p=_P), "o[0] 5 to 8: aged out", ["o:0:8:10", "p:0:1:4"], "o:0:5:8", False,
            id="aged-out",
        ),
    ],
)  # fmt: skip
def test_what_is_gone_is_an_error_unless_the_loss_is_permitted(
    cluster: ClusterState, says: str, ranges: list[str], missing: str, begins_anew: bool
) -> None:
    """Where Spark would continue after an offset of the old topic, a new generation begins without it."""
    checkpoint = _checkpoint(_offsets(o0=5, p0=1))
    with refuses(DataLossError, says, "fail_on_data_loss=False"):
        _resolve(checkpoint, cluster, selection=_BOTH_TOPICS)

    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE, selection=_BOTH_TOPICS)
    assert (stream_plan.resolved.ranges.format(), _missing(stream_plan)) == (ranges, [missing])
    assert stream_plan.is_new == begins_anew
    assert (stream_plan.generation, stream_plan.manifest.stream_id) == ((3, _NEW_ID) if begins_anew else (2, _ID))
    if begins_anew:
        assert stream_plan.manifest.starting == {r.topic_partition: r.from_offset for r in stream_plan.resolved.ranges}


@pytest.mark.parametrize("rules", [_STRICT, _PERMISSIVE])
@pytest.mark.parametrize("batch", [None, {TopicPartition("o", 1): 3}], ids=["read", "in-an-uncommitted-batch"])
def test_a_partition_of_the_same_topic_was_not_deleted(
    batch: dict[TopicPartition, int] | None, rules: ReadRules
) -> None:
    """Taken for deleted, it would be read again from its beginning when the brokers describe it again."""
    read = _offsets(o0=5) if batch else _offsets(o0=5, o1=3)

    with refuses(BrokerUnavailableError, "o[1] is not among the 1", "has the id of before"):
        _resolve(_checkpoint(read, batch), _TEN_RECORDS, rules)
    if not batch:
        with refuses(DataLossError, "o[1] 3 to 3: the partition was deleted"):
            _resolve(_checkpoint(read), _cluster({"o": "id-2"}, o=[(0, 10, 10)]))


_RESET_DONE = {"reset_to": "earliest", "reset_by": "run-1"}


def test_a_topic_that_is_absent_is_left_out_with_a_warning() -> None:
    checkpoint, cluster = _checkpoint(_offsets(p0=1)), _cluster(p=[(0, 4, 4)])

    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE, selection=_BOTH_TOPICS)
    assert stream_plan.resolved.ranges.format() == ["p:0:1:4"]
    assert stream_plan.resolved.warnings == ("The topic 'o' does not exist and is left out.",)

    with pytest.raises(UnknownTopicError, match="'o' does not exist"):
        _resolve(checkpoint, cluster, _STRICT, selection=_BOTH_TOPICS)


@pytest.mark.parametrize(
    ("assign", "cluster", "expected"),
    [
        pytest.param({"o": [1]}, _cluster(o=[(0, 9, 9)] * 3), "o:1:5:9", id="no-other-partition"),
        pytest.param({"o": [1], "p": [1]}, _cluster(p=[(0, 4, 4)] * 2), "p:1:1:4", id="without-a-deleted-topic"),
    ],
)
def test_an_assignment_reads_what_is_there_of_it(
    assign: dict[str, list[int]], cluster: ClusterState, expected: str
) -> None:
    checkpoint = _checkpoint({p: end for p, end in _offsets(o1=5, p1=1).items() if p.topic in assign})

    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE, selection=Selection(assign=assign))

    assert (stream_plan.resolved.ranges.format(), stream_plan.added) == ([expected], ())


def test_ids_that_the_broker_does_not_return() -> None:
    """A longer log is taken for the same topic; an id that is returned later is stored."""
    without = _cluster({"o": None}, o=[(0, 10, 10)])

    assert _resolve(_checkpoint(_offsets(o0=5)), without).resolved.ranges.format() == ["o:0:5:10"]
    assert _resolve(_checkpoint(_offsets(o0=5), topic_ids={}), _TEN_RECORDS).manifest.topic_ids == {"o": "id-1"}


def test_the_beginning_of_an_added_partition_may_have_aged_out() -> None:
    """It was never read, so it is a loss like any other."""
    checkpoint, cluster = _checkpoint(_offsets(o0=5)), _cluster(o=[(0, 10, 10), (2, 3, 3)])

    with pytest.raises(DataLossError, match=r"o\[1\] 0 to 2: aged out before it was read"):
        _resolve(checkpoint, cluster)
    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE)
    assert stream_plan.resolved.ranges.format() == ["o:0:5:10", "o:1:2:3"]
    assert (_missing(stream_plan), list(map(str, stream_plan.added))) == (["o:1:0:2"], ["o[1]"])
    assert not stream_plan.is_new


@pytest.mark.parametrize(
    ("log_start", "uncommitted", "missing"),
    [(6, "o:0:6:8", "o:0:5:6"), (9, "o:0:8:8", "o:0:5:9")],
    ids=["partly-aged-out", "wholly-aged-out"],
)
def test_a_batch_that_was_begun_is_named_with_its_offsets(log_start: int, uncommitted: str, missing: str) -> None:
    """What is left of it is finished first, exactly; the run as a whole still goes from the last commit to the end."""
    checkpoint = _checkpoint(_offsets(o0=5), _offsets(o0=8))

    stream_plan = _resolve(checkpoint, _cluster(o=[(log_start, 10, 10)]), _PERMISSIVE)

    assert (stream_plan.uncommitted.format(), stream_plan.uncommitted_batch) == ([uncommitted], 5)
    assert _missing(stream_plan) == [missing]
    assert stream_plan.resolved.ranges.format() == [f"o:0:{log_start}:10"]


@pytest.mark.parametrize(
    ("finished", "batch", "uncommitted", "starting"),
    [
        pytest.param({"o0": 5, "p0": 1}, {"o0": 8, "p0": 3}, (["p:0:1:3"], 5), {"o0": 0, "p0": 3}, id="one-is-left"),
        pytest.param({"o0": 5}, {"o0": 8}, ([], None), {"o0": 0}, id="nothing-is-left"),
    ],
)
def test_a_batch_that_was_begun_and_a_topic_created_again(
    finished: dict[str, int], batch: dict[str, int], uncommitted: tuple[list[str], int | None], starting: dict[str, int]
) -> None:
    """What is left of the batch is finished in the old generation, and the new one starts after it."""
    cluster = _cluster({"o": "id-2"}, o=[(0, 10, 10)], p=[(0, 4, 4)])
    selection = Selection(topics=[name[0] for name in finished])

    stream_plan = _resolve(
        _checkpoint(_offsets(**finished), _offsets(**batch)), cluster, _PERMISSIVE, selection=selection
    )

    assert (stream_plan.uncommitted.format(), stream_plan.uncommitted_batch) == uncommitted
    assert (stream_plan.is_new, stream_plan.manifest.starting) == (True, _offsets(**starting))
    assert stream_plan.resolved.ranges.format() == ["o:0:0:10", "p:0:1:4"][: len(finished)]
