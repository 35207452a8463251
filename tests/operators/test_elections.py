"""Drawn histories. Real unclean elections: the only replica in sync dies, one that lacks records leads, and others
take their offsets. And clears with three plans in turn, some of which are stopped in the middle.

What only this proves: that brokers answer of it what ``test_lost_records`` takes them to, where the log is
cut in a file; that copies hold while it happens; and that no order of plans and failures loses or doubles a record
without a word.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobReportMissingError, KafkaSparkError
from airflow_provider_kafka_spark.jobs import batch
from airflow_provider_kafka_spark.testing.kafka_broker import Record
from airflow_provider_kafka_spark.testing.kafka_cluster import KafkaCluster
from tests.airflow_fakes import TaskStateStore
from tests.draws import SEED, draws
from tests.in_process_jobs import InProcessSpark
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, Stream
from tests.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.fault]

THIRD = 3
#: Records before the second broker dies, and until the first one does.
KEPT, LOST = 60, 100
OLD, NEW = (Counter({f"{text}{i}".encode(): 1 for i in range(n)}) for text, n in (("old", LOST), ("new", 90)))
FOREIGN = Counter({b"foreign": 200})


class Brokers:
    """Three brokers: one leads, one lacks what is written while it is dead, and the third keeps what must not be lost.

    :ivar leader: of the topics that may be cut.
    :ivar behind: it has the only other replica of them.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.leader, self.behind = 1, 2

    def new_topic(self, name: str, *, may_be_cut: bool) -> str:
        config = {"unclean.leader.election.enable": str(may_be_cut).lower(), "min.insync.replicas": "1"}
        self.cluster.create_topic(name, config=config)
        self.cluster.reassign(name, 0, [self.leader, self.behind] if may_be_cut else [THIRD])
        self.cluster.move_leader(name, 0, self.leader if may_be_cut else THIRD)
        return name

    def fill(self, topic: str, text: str, start: int, end: int) -> None:
        self.cluster.produce(topic, [Record(b"k", f"{text}{i}".encode()) for i in range(start, end)])

    def leave_behind(self) -> None:
        self.cluster.kill(self.behind)

    def elect(self, topics: Iterable[str]) -> None:
        """The one that is left behind leads, and the other comes back."""
        self.cluster.kill(self.leader)
        self.cluster.start_node(self.behind)
        others = [topic for topic in topics if self.leader in self.cluster.replicas(topic, 0)]
        until(lambda: all(self.cluster.leader(t, 0) == self.behind for t in others), "the other one leads", 120)
        self.cluster.start_node(self.leader)
        self.leader, self.behind = self.behind, self.leader


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with KafkaCluster() as cluster:
        yield Brokers(cluster)


@pytest.fixture
def new(
    brokers: Brokers, connection: Callable[..., None], in_process_spark: InProcessSpark, tmp_path: Path
) -> Callable[..., CopyTask]:
    connection("kafka_default", extra={"bootstrap.servers": brokers.cluster.bootstrap_servers})
    connection("spark_default", conn_type="spark", host="local[2]")

    def make(name: str, side: str, **parameters: Any) -> CopyTask:
        source = brokers.new_topic(f"{name}-s", may_be_cut=side == "source")
        target = brokers.new_topic(f"{name}-t", may_be_cut=side == "target")
        brokers.fill(source, "old", 0, KEPT)
        given = {"target_topic": target, "preserve_partition": True, **parameters}
        return CopyTask(brokers.cluster, in_process_spark, tmp_path / name, [source], given)

    return make


def run(task: CopyTask, kind: type, **parameters: Any) -> dict[str, Any]:
    if kind is Stream:
        task.store = TaskStateStore()
    return task.run(kind, **parameters)


def test_copies_over_an_unclean_election(brokers: Brokers, new: Callable[..., CopyTask]) -> None:
    """Sources or targets of all kinds of copies lose the records of one election between two tries."""
    cases: list[tuple[str, CopyTask, type]] = []
    for side, kind, provenance in product(("source", "target"), (Batch, Stream), ("headers", "segments")):
        cases.append((side, new(f"{side}-{kind.__name__}-{provenance}", side, provenance=provenance), kind))
        if kind is Stream:
            cases[-1][1].run(kind)
    brokers.leave_behind()
    for side, task, kind in cases:
        brokers.fill(task.source, "old", KEPT, LOST)
        if kind is Batch:
            task.lose_report()
        else:
            run(task, kind)
            if side == "target":
                # Killed between the last records and the commit of the batch.
                (task.checkpoint / "generation-0" / "commits" / "1").unlink()
        assert task.values() == OLD
    brokers.elect(topic for _, task, _ in cases for topic in (task.source, task.target))
    for side, task, _ in cases:
        if side == "source":
            brokers.fill(task.source, "new", 0, len(NEW))
        else:
            brokers.cluster.produce(task.target, [Record(b"k", b"foreign")] * FOREIGN.total())

    for side, task, kind in cases:
        if side == "source":
            with pytest.raises(AirflowFailException, match=rf"DataLossError: .*cut at {KEPT} by an unclean leader"):
                run(task, kind)
            run(task, kind, fail_on_data_loss=False)
            # A batch copies all again, under a new run id; a stream what it had not read.
            again = Counter({b"old%d" % i: 1 for i in range(KEPT)}) if kind is Batch else Counter[bytes]()
            assert task.values() == OLD + NEW + again, task.source
        else:
            assert OLD - task.values() != Counter()
            run(task, kind)
            assert task.values() == OLD + FOREIGN, task.source


@pytest.mark.parametrize("number", draws(4, one_of=10))
def test_an_election_while_a_copy_runs(
    brokers: Brokers, new: Callable[..., CopyTask], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """At some step of a try, of one kind. Tries follow until one is green: then all is there that the source has, and
    what is there twice was said to be, or is of another run.
    """
    rng = random.Random(f"{SEED}-{number}")
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", rng.choice((5, 30, 10_000)))
    side, kind = rng.choice(("source", "target")), rng.choice((Batch, Replay, Stream))
    given = rng.choice(({}, {"provenance": "segments"}, {"include_headers": False}, {"delivery": "at_least_once"}))
    # When the earlier deliveries are known; when Spark's tasks are to begin; when they have ended.
    step = rng.choice(("find_remaining", "_write", "_raise_if_incomplete"))
    told = f"{SEED}-{number}: {side} {kind.__name__} {given} {step}"
    task = new(f"drawn-{number}", side, **given)
    before = task.values() if kind is not Stream or rng.random() < 0.5 else run(task, kind) and task.values()
    brokers.leave_behind()
    brokers.fill(task.source, "old", KEPT, LOST)
    real, looks = getattr(batch, step), []

    def elect_first(*arguments: Any, **named: Any) -> Any:
        looks.append(step)
        if len(looks) == 1:
            brokers.elect([task.source, task.target])
            if side == "source":
                brokers.fill(task.source, "new", 0, len(NEW))
            else:
                brokers.cluster.produce(task.target, [Record(b"k", b"foreign")] * FOREIGN.total())
        return real(*arguments, **named)

    monkeypatch.setattr(batch, step, elect_first)
    ranges = {"offset_ranges": [f"{task.source}:0:0:{LOST}"]} if kind is Replay else {}
    results, permits = list[dict[str, Any]](), False
    for _ in range(5):
        try:
            results.append(run(task, kind, fail_on_data_loss=not permits, **ranges))
            break
        except (KafkaSparkError, AirflowFailException) as error:
            told += f"; {str(error)[:160]}"
            permits = permits or "fail_on_data_loss" in str(error)
    assert results, told
    if kind is Stream:
        # What has come since its plan.
        results.append(run(task, kind, fail_on_data_loss=not permits))

    there = task.values()
    held = (r for r in brokers.cluster.consume(task.source) if kind is not Replay or (r.offset or 0) < LOST)
    # A batch has planned what was there before the election.
    expected = Counter(r.value for r in held) - (NEW if kind is not Stream and not permits else Counter())
    assert expected - there == Counter(), told
    is_said = permits or any(r.get("evidence", {}).get("may_have_duplicates") for r in results)
    twice = {v for v, n in there.items() if n > 1} - FOREIGN.keys() - before.keys()
    assert is_said or not twice, told


RECORDS, STEPS = 30, 6
#: What stops a try: nothing, a record that the target refuses, or the death of its worker after the job.
ENDS = ("green", "green", "refused", "lost")


def _records(rng: random.Random) -> list[Record]:
    large = rng.sample(range(RECORDS), 4)
    sizes = [5_000 if i in large else 1 for i in range(RECORDS)]
    return [Record(value=b"%d %s" % (i, rng.randbytes(size)), partition=i % 2) for i, size in enumerate(sizes)]


def _plan(rng: random.Random, source: str) -> list[str]:
    """One or two ranges of each partition."""
    found = []
    for partition in range(2):
        cuts = sorted(rng.sample(range(RECORDS // 2 + 1), rng.choice((2, 4))))
        found += [f"{source}:{partition}:{a}:{b}" for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    return found


def _planned(kafka: Any, source: str, plan: list[str]) -> set[bytes]:
    spans = [tuple(map(int, text.split(":")[1:])) for text in plan]
    records = kafka.consume(source)
    return {r.value for r in records if any(r.partition == p and a <= r.offset < b for p, a, b in spans)}


def _try(task: CopyTask, plan: list[str], end: str) -> dict[str, Any] | None:
    task.kafka.alter_topic(task.target, {"max.message.bytes": "1000" if end == "refused" else "1000000"})
    task.clears += task.tries > 0
    try:
        if end == "lost":
            task.lose_report(Replay, offset_ranges=plan)
            return None
        return task.succeed(Replay, offset_ranges=plan)
    except (AirflowFailException, JobReportMissingError):
        assert end == "refused"
        return None


@pytest.mark.parametrize("provenance", ["headers", "segments"])
@pytest.mark.parametrize("number", draws(10, one_of=3))
def test_three_plans_in_turn(new_task: NewTask, monkeypatch: pytest.MonkeyPatch, provenance: str, number: int) -> None:
    monkeypatch.setattr("airflow_provider_kafka_spark.jobs.write.COMMIT_RECORDS", 3)
    rng = random.Random(f"{SEED}-{number}")
    task = new_task(CopyTask, 2, 2, _records(rng), provenance=provenance, preserve_partition=True)
    plans = [_plan(rng, task.source) for _ in range(3)]
    promised, is_said, told = set[bytes](), False, list[str]()
    for step in range(STEPS):
        plan, end = rng.choice(plans), "green" if step == STEPS - 1 else rng.choice(ENDS)
        result = _try(task, plan, end)
        told.append(f"{end} {' '.join(plan)}")
        if result is None:
            continue
        promised |= _planned(task.kafka, task.source, plan)
        is_said = is_said or result["evidence"]["may_have_duplicates"]
        there = task.values()
        assert promised - there.keys() == set(), told
        assert is_said or Counter(v for v, n in there.items() if n > 1) == Counter(), told
