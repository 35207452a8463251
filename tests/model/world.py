"""The world that the run protocol acts in: what Airflow, the workers, drivers, Spark tasks and brokers hold.

One step changes it, all at once. Whoever can step may also wait: an actor that never steps again has crashed, and one
that steps late was suspended. So each crash and each suspension is among the interleavings. A step that fails is left
out, because an actor that fails changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.offsets.pieces import Piece, cut
from airflow_provider_kafka_spark.core.runs import run_protocol
from airflow_provider_kafka_spark.core.runs.run_protocol import Claimant, Decision, Mark

#: The offsets that a plan gives to each of its pieces.
Plan = tuple[tuple[int, ...], ...]
ONE_PIECE: Plan = ((0, 1),)
TWO_PIECES: Plan = ((0, 1), (2, 3))
THE_SAME_IN_ONE: Plan = ((0, 1, 2, 3),)

OLDER_MARK = "an older mark comes back"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"


@dataclass(frozen=True, slots=True)
class Try:
    """One try of the Airflow task: what it is asked for.

    :param kind: "first", "retry" or "clear".
    :param copies_again: a clear after a success asks for another copy, under another run id.
    :param changes_run: the transformation is another one, so that earlier deliveries do not count.
    :param may_mark: whether an at-least-once job may write the mark.
    :param permits_loss: its tasks pass over what the source has lost.
    """

    plan: Plan = ONE_PIECE
    kind: str = "retry"
    delivery: str = EXACTLY_ONCE
    copies_again: bool = False
    changes_run: bool = False
    may_mark: bool = True
    permits_loss: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol. The tests of old rules replace single ones."""

    decide: Callable[[Mark | None, Claimant], Decision] = run_protocol.decide
    with_slots: Callable[[Decision, Collection[str], Mapping[str, int]], Decision] = run_protocol.with_slots
    fences: Callable[[Mark | None, Claimant], bool] = run_protocol.fences
    claiming: Callable[[Mark | None, Claimant, Decision], Mark] = run_protocol.claiming
    judged: Callable[..., Mark] = run_protocol.judged
    repeats: Callable[..., bool] = run_protocol.repeats
    leaves_mark: Callable[..., bool] = run_protocol.leaves_mark
    next_number: Callable[[int, int], int] = run_protocol.next_number
    latest: Callable[[Iterable[Mark]], Mark | None] = run_protocol.latest
    may_have_delivered: Callable[[bool, int, int], bool] = run_protocol.may_have_delivered
    piece_name: Callable[[str], str] = str
    #: The transactional id of a task: the name of its first piece, whichever attempt of it this is.
    task_id: Callable[[str, int], str] = lambda name, _: name
    #: The slot that a transaction commits, of those of the task's pieces.
    slot_of: Callable[[Sequence[str], int], str] = lambda names, piece: names[piece]
    #: Whether a task loads the slot of each of its pieces, or of the first only.
    loads_each_slot: bool = True
    #: Whether the worker reads the mark, and what is beside the checkpoint, before it chooses a number.
    knows_numbers: bool = True
    #: Whether a mark is only written by the producer that was the last to open the owner's transactional id.
    compares_epochs: bool = True
    #: Whether a claim ends the tasks of all plans, or only those with the names of its own pieces.
    fences_all: bool = True
    marks_before_fencing: bool = True
    #: Whether a mark is committed at each place that has one, or only for the first of the driver's own topics.
    marks_every_place: bool = True
    #: Whether a task looks for the mark again when it has fenced and loaded.
    looks_again: bool = True
    requires_slot: bool = True
    compares_ids: bool = True
    checks_ids_at_end: bool = True
    #: Whether records have the provenance header, by which they are found in the target.
    reads_back: bool = True
    #: Whether the progress of another plan, and what the worker has proved, count for the pieces of this one.
    carries: bool = False
    #: Whether an earlier driver has ended before a try that delivers at least once, or follows one.
    ends_before_at_least_once: bool = True
    #: Whether a driver that delivers at least once notes in its mark that it writes everything again.
    notes_repeats: bool = True
    #: Whether the driver finishes the run, and not the worker.
    driver_finishes: bool = False
    #: Whether the key says that a loss is permitted.
    keys_permit_loss: bool = True
    #: Whether a target's leaders are compared.
    compares_leaders: bool = True
    #: Whether what was resumed counts in a verdict, or all that the target has is compared with what the source holds.
    counts_resumed: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """What may happen.

    :param tries: of the Airflow task, one after the other; a driver of an earlier one may live on.
    :param faults: each happens once, at any moment, or never.
    :param attempts: how many attempts Spark may start of each task, in each driver; the earlier ones may live on.
    :param bundles: one Spark task copies all pieces of a driver, one after the other; otherwise each has its own.
    :param drivers: how many drivers the cluster manager may start for one submission.
    :param workers_live_on: whether the process of an earlier try may live on too.
    :param drivers_live_on: whether the drivers of an earlier try may live on, and their tasks.
    :param awaits_verdict: whether a try follows only when the one before has judged its report.
    :param clocks: what the clock of a worker may show when it submits; empty for clocks that agree.
    :param is_stream: each try is one of another DAG run, which finishes the same batch. It has no state store, and the
        number of the latest submission is beside the checkpoint.
    :param rules: of the protocol.
    """

    tries: tuple[Try, ...]
    faults: tuple[str, ...] = ()
    attempts: int = 1
    bundles: bool = False
    drivers: int = 1
    workers_live_on: bool = False
    drivers_live_on: bool = True
    awaits_verdict: bool = False
    clocks: tuple[int, ...] = ()
    is_stream: bool = False
    rules: Rules = field(default_factory=Rules)


class Result(NamedTuple):
    """What a green task promises. The target's incarnation and leaders are those of the driver's last look at it.

    Where ``permits_loss``, what the source has lost may be missing.
    Where ``may_have_duplicates``, it only promises that nothing is missing. So does a result when a later submission
    has noted in the mark, or in its result, that it may have written the same again.
    """

    run_id: str
    offsets: tuple[int, ...]
    incarnation: int
    may_have_duplicates: bool = False
    number: int = 0
    permits_loss: bool = False
    leaders: int = 0


class Stored(NamedTuple):
    """The task state store."""

    number: int
    run_id: str
    untrusted_until: int = 0
    result: Result | None = None
    is_green: bool = False
    #: The delivery key of the latest result.
    proved_key: str = ""
    #: What was delivered before the task was cleared, and the number of the latest submission that it is of.
    proved: tuple[int, ...] = ()
    proved_until: int = 0
    proved_repeats: bool = False


class Worker(NamedTuple):
    """The process of one try."""

    step: str
    number: int = 0
    run_id: str = ""
    seen: Mark | None = None
    is_good: bool = True
    leaves_mark: bool = False


class Driver(NamedTuple):
    """One driver; its token is its name."""

    token: str
    of_try: int
    claimant: Claimant
    step: str = "C1"
    incarnation: int = 0
    epoch: int = 0
    decision: Decision | None = None
    seen: Mark | None = None
    key: str = ""
    pieces: Plan = ()
    slots: tuple[int, ...] = ()
    duplicates: int = 0
    repeats: bool = False
    leaves_mark: bool = False
    attempts: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    has_lost: bool = False
    proved_key: str = ""
    proved: tuple[int, ...] = ()
    is_late: bool = False
    ended_at: int = 0
    ended_with: int = 0
    #: The highest number that was anywhere when this one's was chosen.
    highest_before: int = 0

    @property
    def is_claiming(self) -> bool:
        """Whether it can still be fenced by another that claims. One that only counts commits nothing more."""
        counts = self.step == "C5" and self.decision is Decision.DELIVERED
        return bool(self.epoch) and self.step[0] == "C" and not counts


class Task(NamedTuple):
    """One attempt of a Spark task, at one of its pieces."""

    driver: int
    piece: int
    attempt: int
    step: str = "T2"
    epoch: int = 0
    position: int = 0
    #: Of the open transaction's records.
    incarnation: int = 0


class World(NamedTuple):
    """All of it. The mark and the slots are offsets that are committed for a partition of the target."""

    store: Stored | None = None
    workers: tuple[Worker, ...] = ()
    drivers: tuple[Driver, ...] = ()
    tasks: frozenset[Task] = frozenset()
    greens: tuple[Result, ...] = ()
    faults: tuple[str, ...] = ()
    incarnation: int = 0
    #: How often the target has got another leader.
    leaders: int = 0
    #: Offsets that have aged out at the source.
    aged_out: frozenset[int] = frozenset()
    #: Offsets that compaction has taken at the source.
    compacted: frozenset[int] = frozenset()
    #: Records that compaction has taken from the target.
    compacted_records: tuple[tuple[str, int], ...] = ()
    #: Offsets that the target has, by run.
    records: tuple[tuple[str, int], ...] = ()
    mark: Mark | None = None
    #: The mark of the submission before, where it was committed for another topic, which may outlive this one's.
    older_mark: Mark | None = None
    #: Beside a stream's checkpoint.
    number_beside: int = 0
    #: A driver was refused because of a number that its worker could have known.
    is_refused: bool = False
    #: A report was judged bad of which nothing is missing.
    is_misjudged: bool = False
    slots: frozenset[tuple[str, str, int]] = frozenset()
    owner_epoch: int = 0
    epochs: frozenset[tuple[str, int]] = frozenset()

    def with_owner_opened(self, rules: Rules) -> World:
        """Somebody opens the owner's transactional id: a driver within its claim is fenced, so it does nothing more."""
        fenced = (driver._replace(step="dead") if driver.is_claiming else driver for driver in self.drivers)
        drivers = tuple(fenced) if rules.compares_epochs else self.drivers
        return self._replace(owner_epoch=self.owner_epoch + 1, drivers=drivers)

    def with_worker(self, index: int, **changes: object) -> World:
        return self._replace(workers=_changed(self.workers, index, changes))

    def with_driver(self, index: int, **changes: object) -> World:
        return self._replace(drivers=_changed(self.drivers, index, changes))

    def with_task(self, task: Task, following: Task | None) -> World:
        return self._replace(tasks=self.tasks - {task} | ({following} if following is not None else set()))

    def with_mark(self, mark: Mark, rules: Rules) -> World:
        is_older = self.mark is not None and self.mark.token != mark.token
        older_mark = self.mark if is_older and not rules.marks_every_place else self.older_mark
        return self._replace(mark=mark, older_mark=older_mark)

    def with_slots(self, key: str, positions: Mapping[str, int]) -> World:
        kept = {slot for slot in self.slots if slot[0] != key or slot[1] not in positions}
        return self._replace(slots=frozenset(kept | {(key, name, at) for name, at in positions.items()}))

    def slots_of(self, key: str) -> dict[str, int]:
        return {name: position for of_key, name, position in self.slots if of_key == key}

    def epoch_of(self, transactional_id: str) -> int:
        return dict(self.epochs).get(transactional_id, 0)

    def with_epochs(self, transactional_ids: Iterable[str]) -> World:
        """Each of these producers is fenced."""
        epochs = dict(self.epochs)
        for transactional_id in transactional_ids:
            epochs[transactional_id] = epochs.get(transactional_id, 0) + 1
        return self._replace(epochs=frozenset(epochs.items()))

    def with_record(self, run_id: str, offset: int) -> World:
        return self._replace(records=tuple(sorted((*self.records, (run_id, offset)))))


def _changed(actors: tuple[NamedTuple, ...], index: int, changes: Mapping[str, object]) -> tuple[NamedTuple, ...]:
    return (*actors[:index], actors[index]._replace(**changes), *actors[index + 1 :])


@cache
def pieces_of(plan: Plan) -> tuple[Piece, ...]:
    """The package's own pieces: a range for each run of offsets that follow each other."""
    tasks = []
    for offsets in plan:
        starts = [at for at in offsets if at - 1 not in offsets]
        ends = [at + 1 for at in offsets if at + 1 not in offsets]
        tasks.append([OffsetRange("orders", 0, *bounds) for bounds in zip(starts, ends, strict=True)])
    return cut({r: 0 for spans in tasks for r in spans}, tasks, {})


def permits_loss(scenario: Scenario, asked: Try) -> bool:
    """Whether its key says that a loss is permitted."""
    return asked.permits_loss and scenario.rules.keys_permit_loss


@cache
def key_of(run_id: str, delivery: str, incarnation: int, plan: Plan, *, permits_loss: bool) -> str:
    parts = {"run_id": run_id, "delivery": delivery}
    ids = {"copy": str(incarnation)}
    return run_protocol.delivery_key(parts, ids, pieces_of(plan), permits_loss=permits_loss)


@cache
def names_of(plan: Plan, piece_name: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(piece_name(piece.name) for piece in pieces_of(plan))


def offsets_of(plan: Plan) -> tuple[int, ...]:
    return tuple(sorted(offset for piece in plan for offset in piece))


def broken_promise(world: World) -> str | None:
    """Whether a green task promises what is not so, or a submission fails because of an earlier one.

    A target that is recreated, or cut, after the driver's last look at it is no fault of the copy.
    """
    if world.is_refused:
        return "a submission is refused because of one that was there before it"
    if world.is_misjudged:
        return "the report of a complete delivery is judged bad"
    for result in world.greens:
        if (result.incarnation, result.leaders) != (world.incarnation, world.leaders):
            continue
        for offset in result.offsets:
            copies = (world.records + world.compacted_records).count((result.run_id, offset))
            may_lack = world.compacted | world.aged_out if result.permits_loss else world.compacted
            if not copies and offset in may_lack:
                continue
            if copies != 1 and not (copies and _may_have_duplicates(world, result)):
                return f"the task is green, and the target has {copies} copies of offset {offset} of {result.run_id}"
    return None


def _may_have_duplicates(world: World, result: Result) -> bool:
    """Whether the result says so, or whatever has said so since."""
    later = [green for green in world.greens if green.number > result.number]
    is_noted = world.mark is not None and world.mark.repeats and world.mark.number > result.number
    return is_noted or any(green.may_have_duplicates for green in (result, *later))
