from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.bounds import Bound, parse_start
from airflow_provider_kafka_spark.core.broker_state import ClusterState, PartitionState, Selection, TopicState
from airflow_provider_kafka_spark.core.errors import (
    BoundError,
    CheckpointError,
    DataLossError,
    PlanError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.resolve import ReadRules
from airflow_provider_kafka_spark.core.streams.checkpoint import Batch, Binding, Checkpoint, StreamManifest
from airflow_provider_kafka_spark.core.streams.stream_plan import Reset, StreamPlan, resolve_stream

_NOW = 1_795_168_800_000
_STRICT = ReadRules()
_PERMISSIVE = ReadRules(fail_on_data_loss=False)
_BINDING = Binding("cluster", '[["o"], null, null]', "cluster", "copy")
_ID, _NEW_ID = "0123456789abcdef", "fedcba9876543210"
_SELECTION = Selection(topics=["o"])

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
    generation = StreamManifest(_BINDING, _ID, dict.fromkeys(finished, 0), ids)
    return Checkpoint(
        2,
        replace(generation, **manifest),
        Batch(4, finished, 1),
        None if batch is None else Batch(5, {**finished, **batch}, 2),
    )


def _resolve(
    checkpoint: Checkpoint | None,
    cluster: ClusterState,
    rules: ReadRules = _STRICT,
    *,
    binding: Binding = _BINDING,
    selection: Selection = _SELECTION,
    starting: object = None,
    reset: Reset | None = None,
) -> StreamPlan:
    bound: Bound | None = None if starting is None else parse_start(starting, "starting_offsets")
    return resolve_stream(checkpoint, binding, selection, bound, reset, cluster, rules, _NEW_ID)


def _missing(stream_plan: StreamPlan) -> list[str]:
    return [m.offset_range.format() for m in stream_plan.resolved.missing]


@pytest.mark.parametrize(
    ("starting", "log", "first_at", "expected"),
    [
        pytest.param("earliest", (3, 10, 10), None, "o:0:3:10", id="earliest"),
        pytest.param("latest", (3, 10, 10), None, "o:0:10:10", id="latest"),
        pytest.param("latest", (3, 8, 10), None, "o:0:8:8", id="latest-is-the-last-stable-offset"),
        pytest.param({"o": {"0": 5}}, (3, 10, 10), None, "o:0:5:10", id="offset"),
        pytest.param({"o": {"0": -1}}, (3, 10, 10), None, "o:0:10:10", id="sparks-latest"),
        pytest.param({"o": {"0": -2}}, (3, 10, 10), None, "o:0:3:10", id="sparks-earliest"),
        pytest.param(_NOW, (0, 10, 10), 7, "o:0:7:10", id="moment"),
    ],
)
def test_the_first_run_starts_at_the_starting_offsets(
    starting: object, log: Log, first_at: int | None, expected: str
) -> None:
    """Generation 0 begins there, and remembers it, and the ids of the topics."""
    found = {(TopicPartition("o", 0), ms): first_at for ms in (0, _NOW)}

    stream_plan = _resolve(None, _cluster(first_at=found, o=[log]), starting=starting)

    start = int(expected.split(":")[2])
    assert stream_plan.resolved.ranges.format() == [expected]
    assert (stream_plan.generation, stream_plan.is_new) == (0, True)
    assert stream_plan.manifest == StreamManifest(_BINDING, _NEW_ID, _offsets(o0=start), {"o": "id-1"})


def test_the_first_run_needs_starting_offsets() -> None:
    """Spark would start at the end, and skip what is there."""
    with pytest.raises(BoundError) as raised:
        _resolve(None, _cluster(o=[(0, 10, 10)]))

    assert "starting_offsets must say where to start: 'earliest', 'latest'" in str(raised.value)


def test_a_moment_in_the_future_is_no_start() -> None:
    """It would be the same as 'latest', in silence."""
    found = {(TopicPartition("o", 0), ms): None for ms in (0, _NOW + 1)}
    cluster = _cluster(first_at=found, o=[(0, 10, 10)])

    with pytest.raises(BoundError, match="starting_offsets must not lie in the future"):
        _resolve(None, cluster, starting=_NOW + 1)
    with pytest.raises(BoundError, match="reset_checkpoint_to must not lie in the future"):
        _resolve(_checkpoint(_offsets(o0=5)), cluster, reset=Reset(str(_NOW + 1), "run-1"))


def test_a_first_run_at_the_end_has_work() -> None:
    """Where the stream stands must be written down, or the next run would start at another end."""
    assert _resolve(None, _cluster(o=[(0, 10, 10)]), starting="latest").has_work


def test_what_a_first_run_wishes_for_must_be_there() -> None:
    """A start that has aged out, or beyond the end, is an error, as of a batch."""
    with pytest.raises(DataLossError, match="aged out"):
        _resolve(None, _cluster(o=[(7, 10, 10)]), starting={"o": {"0": 5}})
    with pytest.raises(PlanError, match="must not lie beyond the log; got 11"):
        _resolve(None, _cluster(o=[(7, 10, 10)]), starting={"o": {"0": 11}})


def test_goes_on_where_the_checkpoint_stands() -> None:
    """From the last commit to the end, whatever starting_offsets says; the stream keeps its id and generation."""
    stream_plan = _resolve(_checkpoint(_offsets(o0=5, o1=7)), _cluster(o=[(0, 10, 10), (0, 7, 7)]), starting="earliest")

    assert stream_plan.resolved.ranges.format() == ["o:0:5:10", "o:1:7:7"]
    assert (stream_plan.generation, stream_plan.is_new, stream_plan.manifest.stream_id) == (2, False, _ID)
    assert stream_plan.has_work


def test_at_the_end_there_is_nothing_to_do() -> None:
    """Spark need not be started."""
    assert not _resolve(_checkpoint(_offsets(o0=10)), _cluster(o=[(0, 10, 10)])).has_work


def test_a_loss_that_is_permitted_is_left_behind() -> None:
    """Also if nothing is left to read: the checkpoint must move on, or each run would report the same gap again."""
    checkpoint, cluster = _checkpoint(_offsets(o0=5)), _cluster(o=[(10, 10, 10)])

    assert _resolve(checkpoint, cluster, _PERMISSIVE).has_work


def test_an_open_transaction_ends_the_run_before_it() -> None:
    """And a warning says so."""
    stream_plan = _resolve(_checkpoint(_offsets(o0=5)), _cluster(o=[(0, 8, 10)]))

    assert stream_plan.resolved.ranges.format() == ["o:0:5:8"]
    assert "an open transaction hides the last 2 offsets" in stream_plan.resolved.warnings[0]


def test_a_stream_that_read_uncommitted_records_cannot_go_back() -> None:
    """Spark would call what the transaction hides lost; here the transaction is named, and what to do."""
    checkpoint, cluster = _checkpoint(_offsets(o0=9)), _cluster(o=[(0, 8, 10)])

    for rules in (_STRICT, _PERMISSIVE):
        with pytest.raises(PlanError, match=r"an open transaction hides everything from 8 on .*read_uncommitted"):
            _resolve(checkpoint, cluster, rules)
    uncommitted = _resolve(checkpoint, cluster, ReadRules(read_committed=False))
    assert uncommitted.resolved.ranges.format() == ["o:0:9:10"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"source_cluster_id": "x"}, "source_cluster_id is 'x' and was 'cluster'", id="source"),
        pytest.param({"selection": "x"}, "selection is 'x' and was '[[\"o\"], null, null]'", id="topics"),
        pytest.param({"target_cluster_id": "x"}, "target_cluster_id is 'x' and was 'cluster'", id="target"),
        pytest.param({"target_topic": "x"}, "target_topic is 'x' and was 'copy'", id="target-topic"),
        pytest.param({"target_topic_expr": "x"}, "target_topic_expr is 'x' and was None", id="topic-expression"),
        pytest.param({"where": "x"}, "where is 'x' and was None", id="where"),
        pytest.param({"columns": "x"}, "columns is 'x' and was '{}'", id="columns"),
        pytest.param({"preserve_partition": True}, "preserve_partition is True and was False", id="partitions"),
    ],
)
def test_the_checkpoint_of_another_job_is_refused(change: dict[str, Any], says: str) -> None:
    """The difference is named, and how the same job with a new definition goes on where it stands."""
    with pytest.raises(CheckpointError) as raised:
        _resolve(_checkpoint(_offsets(o0=5)), _cluster(o=[(0, 10, 10)]), binding=replace(_BINDING, **change))

    assert f"The checkpoint belongs to another job: {says}" in str(raised.value)
    assert "reset_checkpoint_to={'o': {'0': 5}}" in str(raised.value)


def test_sparks_own_checkpoint_is_refused() -> None:
    """Its job is unknown; the error has its offsets, to start from."""
    with pytest.raises(CheckpointError) as raised:
        _resolve(Checkpoint(0, None, Batch(3, _offsets(o0=5), 1)), _cluster(o=[(0, 10, 10)]), starting="earliest")

    assert "holds one of another Spark stream" in str(raised.value)
    assert "starting_offsets={'o': {'0': 5}}" in str(raised.value)


def test_a_reset_begins_a_generation() -> None:
    """Another folder, another id in the provenance header, and the DAG run that requested it."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), batch=_offsets(o0=8)),
        _cluster(o=[(0, 10, 10)]),
        reset=Reset('{"o": {"0": 2}}', "run-1"),
    )

    assert stream_plan.resolved.ranges.format() == ["o:0:2:10"]
    assert (stream_plan.generation, stream_plan.is_new) == (3, True)
    assert stream_plan.manifest == StreamManifest(
        _BINDING, _NEW_ID, _offsets(o0=2), {"o": "id-1"}, reset_to='{"o": {"0": 2}}', reset_by="run-1"
    )
    assert stream_plan.uncommitted_batch is None


def test_a_reset_is_for_a_new_definition_too() -> None:
    """It is how the checkpoint of a job that was changed is used further."""
    binding = replace(_BINDING, where="key is not null")

    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5)),
        _cluster(o=[(0, 10, 10)]),
        binding=binding,
        reset=Reset("earliest", "run-1"),
    )

    assert stream_plan.manifest.binding == binding


def test_a_first_run_may_be_a_reset() -> None:
    """It says where to start, and starting_offsets is not looked at."""
    stream_plan = _resolve(None, _cluster(o=[(0, 10, 10)]), starting="latest", reset=Reset("earliest", "run-1"))

    assert stream_plan.resolved.ranges.format() == ["o:0:0:10"]
    assert (stream_plan.generation, stream_plan.manifest.reset_by) == (0, "run-1")


_RESET_DONE = {"reset_to": "earliest", "reset_by": "run-1"}


def test_a_reset_is_done_once_for_each_dag_run() -> None:
    """A retry of the run that reset goes on where it stands."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), **_RESET_DONE), _cluster(o=[(0, 10, 10)]), reset=Reset("earliest", "run-1")
    )

    assert stream_plan.resolved.ranges.format() == ["o:0:5:10"]
    assert not stream_plan.is_new


def test_another_spelling_of_a_reset_is_the_same_reset() -> None:
    """A retry whose template spells the same offsets or moment otherwise does not copy everything again."""
    done = {"reset_to": "2026-11-20T10:00:00+00:00", "reset_by": "run-1"}
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), **done), _cluster(o=[(0, 10, 10)]), reset=Reset("1795168800000", "run-1")
    )

    assert not stream_plan.is_new


def test_a_reset_that_is_left_in_the_dag_is_refused() -> None:
    """Each run would copy everything again."""
    with pytest.raises(BoundError) as raised:
        _resolve(
            _checkpoint(_offsets(o0=5), **_RESET_DONE), _cluster(o=[(0, 10, 10)]), reset=Reset("earliest", "run-2")
        )

    assert "reset_checkpoint_to='earliest' was done already, by the DAG run 'run-1'" in str(raised.value)
    assert "Take it out" in str(raised.value)


@pytest.mark.parametrize("by", ["run-1", "run-2"])
def test_another_reset_begins_another_generation(by: str) -> None:
    """A reset that was not done yet is done, by any run."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), **_RESET_DONE), _cluster(o=[(0, 10, 10)]), reset=Reset('{"o": {"0": 2}}', by)
    )

    assert (stream_plan.generation, stream_plan.resolved.ranges.format()) == (3, ["o:0:2:10"])


_LOST = [
    pytest.param(_cluster(p=[(0, 4, 4)]), "o[0] 5 to 5: the topic was deleted; the stream had read it", id="deleted"),
    pytest.param(
        _cluster({"o": "id-2"}, o=[(0, 10, 10)], p=[(0, 4, 4)]),
        "was deleted and recreated (id id-1, now id-2)",
        id="created-again",
    ),
    pytest.param(
        _cluster({"o": "id-2"}, o=[(0, 3, 3)], p=[(0, 4, 4)]),
        "was deleted and recreated (id id-1, now id-2)",
        id="created-again-and-shorter",
    ),
    pytest.param(
        _cluster(o=[(0, 3, 3)], p=[(0, 4, 4)]),
        "the log ends at 3, and the stream had read it up to 5: it was cut short",
        id="cut-short",
    ),
    pytest.param(
        _cluster({"o": None}, o=[(0, 3, 3)], p=[(0, 4, 4)]),
        "or the topic was recreated",
        id="shorter-without-an-id",
    ),
    pytest.param(_cluster(o=[(8, 10, 10)], p=[(0, 4, 4)]), "o[0] 5 to 8: aged out", id="aged-out"),
]
_BOTH_TOPICS = Selection(topics=["o", "p"])


@pytest.mark.parametrize(("cluster", "says"), _LOST)
def test_what_is_gone_is_an_error(cluster: ClusterState, says: str) -> None:
    """What was lost is named, and the option that permits it."""
    with pytest.raises(DataLossError) as raised:
        _resolve(_checkpoint(_offsets(o0=5, p0=1)), cluster, selection=_BOTH_TOPICS)

    assert says in str(raised.value)
    assert "fail_on_data_loss=False" in str(raised.value)


@pytest.mark.parametrize(
    ("cluster", "ranges", "missing", "begins_anew"),
    [
        pytest.param(_LOST[0].values[0], ["p:0:1:4"], "o:0:5:5", True, id="deleted"),
        pytest.param(_LOST[1].values[0], ["o:0:0:10", "p:0:1:4"], "o:0:5:5", True, id="created-again-from-its-start"),
        pytest.param(_LOST[2].values[0], ["o:0:0:3", "p:0:1:4"], "o:0:5:5", True, id="created-again-and-shorter"),
        pytest.param(_LOST[3].values[0], ["o:0:3:3", "p:0:1:4"], "o:0:5:5", True, id="cut-short-from-its-end"),
        pytest.param(_LOST[4].values[0], ["o:0:0:3", "p:0:1:4"], "o:0:5:5", True, id="shorter-without-an-id"),
        pytest.param(_LOST[5].values[0], ["o:0:8:10", "p:0:1:4"], "o:0:5:8", False, id="aged-out"),
    ],
)
def test_what_is_gone_may_be_permitted(
    cluster: ClusterState, ranges: list[str], missing: str, begins_anew: bool
) -> None:
    """The gap is reported and the rest is read; where Spark would continue after an offset of the old topic, a new
    generation begins without it.
    """
    stream_plan = _resolve(_checkpoint(_offsets(o0=5, p0=1)), cluster, _PERMISSIVE, selection=_BOTH_TOPICS)

    assert stream_plan.resolved.ranges.format() == ranges
    assert _missing(stream_plan) == [missing]
    assert stream_plan.is_new == begins_anew
    assert (stream_plan.generation, stream_plan.manifest.stream_id) == ((3, _NEW_ID) if begins_anew else (2, _ID))
    if begins_anew:
        assert stream_plan.manifest.starting == {r.topic_partition: r.from_offset for r in stream_plan.resolved.ranges}


def test_a_generation_after_a_loss_remembers_the_reset() -> None:
    """Or the retry of the run that reset would reset again."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), **_RESET_DONE),
        _cluster({"o": "id-2"}, o=[(0, 10, 10)]),
        _PERMISSIVE,
        reset=Reset("earliest", "run-1"),
    )

    assert (stream_plan.manifest.reset_to, stream_plan.manifest.reset_by) == ("earliest", "run-1")
    assert stream_plan.manifest.topic_ids == {"o": "id-2"}


def test_a_topic_that_is_absent_is_left_out_with_a_warning() -> None:
    """Where loss is permitted, in every run; otherwise it is an error that names it."""
    checkpoint, cluster = _checkpoint(_offsets(p0=1)), _cluster(p=[(0, 4, 4)])

    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE, selection=_BOTH_TOPICS)
    assert stream_plan.resolved.ranges.format() == ["p:0:1:4"]
    assert stream_plan.resolved.warnings == ("The topic 'o' does not exist and is left out.",)

    with pytest.raises(UnknownTopicError, match="'o' does not exist"):
        _resolve(checkpoint, cluster, _STRICT, selection=_BOTH_TOPICS)


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param(Selection(topics=["o"]), id="topics"),
        pytest.param(Selection(pattern="o.*"), id="pattern"),
        pytest.param(Selection(assign={"o": [0]}), id="assign"),
    ],
)
def test_a_stream_without_any_topic_left_is_an_error(selection: Selection) -> None:
    """Whatever is permitted, an empty copy is not green."""
    with pytest.raises(UnknownTopicError):
        _resolve(_checkpoint(_offsets(o0=5)), _cluster(p=[(0, 4, 4)]), _PERMISSIVE, selection=selection)


def test_a_deleted_topic_is_left_out_of_an_assignment() -> None:
    """As of a list of topics."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5, p1=1)),
        _cluster(p=[(0, 4, 4), (0, 4, 4)]),
        _PERMISSIVE,
        selection=Selection(assign={"o": [0], "p": [1]}),
    )

    assert stream_plan.resolved.ranges.format() == ["p:1:1:4"]


def test_an_assignment_reads_no_other_partition() -> None:
    """Partitions that are not assigned are neither read nor reported as added."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o1=5)), _cluster(o=[(0, 9, 9)] * 3), selection=Selection(assign={"o": [1]})
    )

    assert stream_plan.resolved.ranges.format() == ["o:1:5:9"]
    assert stream_plan.added == ()


def test_without_ids_a_longer_log_is_taken_for_the_same_topic() -> None:
    """Without ids from the broker the change cannot be detected."""
    cluster = _cluster({"o": None}, o=[(0, 10, 10)])

    assert _resolve(_checkpoint(_offsets(o0=5)), cluster).resolved.ranges.format() == ["o:0:5:10"]


def test_an_id_that_the_broker_returns_later_is_stored() -> None:
    """From then on a topic that is recreated is noticed."""
    stream_plan = _resolve(_checkpoint(_offsets(o0=5), topic_ids={}), _cluster(o=[(0, 10, 10)]))

    assert stream_plan.manifest.topic_ids == {"o": "id-1"}


def test_partitions_that_were_added_are_read_from_their_beginning() -> None:
    """And named; a topic that a pattern matches later is such a one."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5)),
        _cluster(o=[(0, 10, 10), (0, 3, 3)], o_new=[(0, 2, 2)]),
        selection=Selection(pattern="o.*"),
    )

    assert stream_plan.resolved.ranges.format() == ["o:0:5:10", "o:1:0:3", "o_new:0:0:2"]
    assert list(map(str, stream_plan.added)) == ["o[1]", "o_new[0]"]
    assert not stream_plan.is_new


def test_the_beginning_of_an_added_partition_may_have_aged_out() -> None:
    """It was never read, so it is a loss like any other."""
    checkpoint, cluster = _checkpoint(_offsets(o0=5)), _cluster(o=[(0, 10, 10), (2, 3, 3)])

    with pytest.raises(DataLossError, match=r"o\[1\] 0 to 2: aged out before it was read"):
        _resolve(checkpoint, cluster)
    stream_plan = _resolve(checkpoint, cluster, _PERMISSIVE)
    assert stream_plan.resolved.ranges.format() == ["o:0:5:10", "o:1:2:3"]
    assert _missing(stream_plan) == ["o:1:0:2"]


@pytest.mark.parametrize(
    ("batch", "logs", "uncommitted"),
    [
        pytest.param(_offsets(o0=8), [(0, 10, 10)], ["o:0:5:8"], id="one-partition"),
        pytest.param(_offsets(o0=8, o1=2), [(0, 10, 10), (0, 3, 3)], ["o:0:5:8", "o:1:0:2"], id="and-one-new-in-it"),
        pytest.param(_offsets(o0=10), [(0, 10, 10)], ["o:0:5:10"], id="to-the-end-of-the-log"),
    ],
)
def test_a_batch_that_was_begun_is_named_with_its_offsets(
    batch: dict[TopicPartition, int], logs: list[Log], uncommitted: list[str]
) -> None:
    """It is finished first, exactly; the run as a whole still goes from the last commit to the end."""
    stream_plan = _resolve(_checkpoint(_offsets(o0=5), batch), _cluster(o=logs))

    assert stream_plan.uncommitted.format() == uncommitted
    assert stream_plan.uncommitted_batch == 5
    assert stream_plan.resolved.ranges.format()[0] == "o:0:5:10"


@pytest.mark.parametrize(
    ("log_start", "uncommitted"),
    [
        pytest.param(5, "o:0:5:8", id="all-there"),
        pytest.param(6, "o:0:6:8", id="partly-aged-out"),
        pytest.param(9, "o:0:8:8", id="wholly-aged-out"),
    ],
)
def test_of_a_batch_that_was_begun_what_is_left_is_finished(log_start: int, uncommitted: str) -> None:
    """Where the loss is permitted, which names the gap."""
    cluster = _cluster(o=[(log_start, 10, 10)])

    stream_plan = _resolve(_checkpoint(_offsets(o0=5), _offsets(o0=8)), cluster, _PERMISSIVE)

    assert stream_plan.uncommitted.format() == [uncommitted]
    assert _missing(stream_plan) == ([] if log_start == 5 else [f"o:0:5:{log_start}"])


def test_a_batch_that_was_begun_and_a_topic_created_again() -> None:
    """What is left of the batch is finished in the old generation, and the new one starts after it."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5, p0=1), _offsets(o0=8, p0=3)),
        _cluster({"o": "id-2"}, o=[(0, 10, 10)], p=[(0, 4, 4)]),
        _PERMISSIVE,
        selection=_BOTH_TOPICS,
    )

    assert (stream_plan.uncommitted.format(), stream_plan.uncommitted_batch) == (["p:0:1:3"], 5)
    assert stream_plan.resolved.ranges.format() == ["o:0:0:10", "p:0:1:4"]
    assert stream_plan.manifest.starting == _offsets(o0=0, p0=3)


def test_a_batch_of_which_nothing_is_left_is_not_finished() -> None:
    """All its topics were recreated: there is nothing to copy, and its generation is not used further."""
    stream_plan = _resolve(
        _checkpoint(_offsets(o0=5), _offsets(o0=8)), _cluster({"o": "id-2"}, o=[(0, 10, 10)]), _PERMISSIVE
    )

    assert (stream_plan.uncommitted.format(), stream_plan.uncommitted_batch, stream_plan.is_new) == ([], None, True)


def test_a_batch_that_an_open_transaction_hides_waits() -> None:
    """It read further than can be read now: an error, rather than half a batch."""
    with pytest.raises(PlanError, match="an open transaction hides everything from 7 on"):
        _resolve(_checkpoint(_offsets(o0=5), _offsets(o0=8)), _cluster(o=[(0, 7, 10)]))
