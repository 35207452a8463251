"""The decisions of the run protocol: which driver may write for a run, and which earlier deliveries count. No I/O.

The protocol is on the page ``docs/explanation/run-protocol.md``. A consumer group without members holds one
:class:`Mark` for each run, and one slot of committed progress for each piece of the plan. A model in the tests calls
these functions in all interleavings of several drivers.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from airflow_provider_kafka_spark.core.errors import ProtocolError, RunTakenOverError
from airflow_provider_kafka_spark.core.offsets.pieces import Piece
from airflow_provider_kafka_spark.core.wire.codec import decode_text, encode

_MARK_VERSION = 4
#: Half a delivery key: what is delivered, and how it is cut into pieces.
_HALF = 8
#: The end of a key under which Spark tasks may pass over records that the source has lost.
_PERMITS_LOSS = "-loss"
#: A driver that claims later than this may have been overtaken by a submission whose mark has expired since.
LATE_CLAIM_MS = 3_600_000


class MarkState(str, enum.Enum):
    """How far a run is, for the driver that comes next."""

    #: The progress of the key does not hold everything that earlier tries delivered.
    OPENING = "opening"
    #: Each piece of the key has a slot. One that is missing is unknown: it never means "nothing".
    OPEN = "open"
    #: The worker has proved that everything of the key was delivered.
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Mark:
    """Which submission has a run, and what its committed progress stands for.

    :param number: of the submission; it only grows.
    :param token: random; of the driver.
    :param run_id: in the provenance header of what the run writes.
    :param key: the delivery key, see :func:`delivery_key`.
    :param state: of the run under this key.
    :param groups: how many groups hold the slots of the key.
    :param width: how many slots each of them has: that of piece ``i`` is number ``i % width`` of group ``i // width``.
    :param pieces: how many slots there are; 0 if that is not known.
    :param repeats: what was delivered before was not known, so that it may have been written again, or may be by the
        next plan.
    :param leaders: which leaders the targets had when the run was claimed, see :func:`leaders_of`; empty if unknown.
    :param sources: which topics its plans have read, see ``core.runs.run_sources``; empty if that is not known.
    """

    number: int
    token: str
    run_id: str
    key: str
    state: str
    groups: int = 0
    width: int = 1
    pieces: int = 0
    repeats: bool = False
    leaders: str = ""
    sources: str = ""

    def to_json(self) -> str:
        """The metadata of the committed offset; brokers take 4,096 bytes by default."""
        return json.dumps(encode(self, _MARK_VERSION), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Mark:
        """:raises ProtocolError: if it is no mark of this version."""
        remedy = "Let the run end with the version of airflow-provider-kafka-spark that it began with."
        # A zero character ends the text, and confluent-kafka may have written some bytes beyond it.
        with suppress(ValueError):
            text = text[: json.JSONDecoder().raw_decode(text)[1]]
        mark = decode_text(cls, text, version=_MARK_VERSION, name="The mark of the run", remedy=remedy)
        if mark.state not in [state.value for state in MarkState]:
            raise ProtocolError(f"The state of the mark must be one of {[s.value for s in MarkState]}. {remedy}")
        return mark


@dataclass(frozen=True, slots=True)
class Claimant:
    """A driver that wants to write for a run.

    :param number: of its submission, given by the worker.
    :param token: random; of this driver.
    :param run_id: for the provenance header.
    :param key: its delivery key.
    :param may_have_delivered: whether, as far as the worker knows, an earlier submission may have written records of
        this ``run_id``.
    :param untrusted_until: progress that was committed under this number or a lower one does not count: that submission
        wrote without progress (at least once), or its report did not prove delivery.
    :param carries: no header says what the target has, so that progress of another plan of the same delivery counts.
    :param proved_until: number of the latest submission of which the worker knows all that it delivered; 0 for none.
    :param proved_key: the delivery key of that submission.
    :param proved_repeats: what it has proved may be in the target more than once.
    :param reads_back: the target tells what it has, by its headers.
    :param leaders: of the targets.
    :param sources: of its plan, and of those before it of the run.
    :param is_cut: the targets have not what progress or proof tell of.
    """

    number: int
    token: str
    run_id: str
    key: str
    may_have_delivered: bool
    untrusted_until: int = 0
    carries: bool = False
    proved_until: int = 0
    proved_key: str = ""
    proved_repeats: bool = False
    reads_back: bool = False
    leaders: str = ""
    sources: str = ""
    is_cut: bool = False

    def mark(
        self, state: MarkState, groups: int = 0, width: int = 1, pieces: int = 0, *, repeats: bool = False
    ) -> Mark:
        of_run = self.number, self.token, self.run_id, self.key
        return Mark(*of_run, state.value, groups, width, pieces, repeats, self.leaders, self.sources)


class Decision(enum.Enum):
    """What earlier deliveries mean for a driver that claims a run."""

    #: Nothing was delivered: every piece begins at its first offset.
    BEGIN = enum.auto()
    #: The committed progress has everything that was delivered.
    CONTINUE = enum.auto()
    #: The progress of another plan, or the worker, has everything that was delivered; the pieces take it over.
    CARRY_OVER = enum.auto()
    #: Everything was delivered and proved: this driver only counts.
    DELIVERED = enum.auto()
    #: Something may have been delivered that the progress does not tell: the target is read back.
    READ_BACK = enum.auto()


def delivery_key(
    parts: Mapping[str, object],
    target_ids: Mapping[str, str],
    pieces: Sequence[Piece] | None,
    *,
    permits_loss: bool = False,
) -> str:
    """The key of what a driver delivers: 16 hexadecimal digits, and ``-loss`` where its tasks may pass over what the
    source has lost. Progress of another key does not count, see :func:`counts_for`.

    :param parts: all that decides which records are written and how, by name, as plain JSON: the ``run_id``, the
        delivery, both clusters, the transformation and so on. Ids of source topics are in the names of the pieces.
    :param target_ids: id of each target topic; one that is recreated has another.
    :param pieces: of the plan; None for a stream, whose batches share their progress.

    >>> delivery_key({"run_id": "run"}, {"copy": "id"}, None, permits_loss=True)
    '1035c6a474234e98-loss'
    """
    described = None if pieces is None else [piece.describe() for piece in pieces]
    key = _digest([dict(parts), dict(target_ids)]) + _digest(described)
    return f"{key}{_PERMITS_LOSS}" if permits_loss else key


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HALF]


def counts_for(key: str, claimed: str) -> bool:
    """Whether what was delivered under a key counts for a driver with another one: the keys are the same, or only the
    driver permits a loss. What was delivered where a loss was permitted may lack what a strict driver must not lack.

    >>> counts_for("1035c6a474234e98", "1035c6a474234e98-loss"), counts_for("1035c6a474234e98-loss", "1035c6a474234e98")
    (True, False)
    """
    return key in (claimed, claimed.removesuffix(_PERMITS_LOSS))


def is_same_delivery(key: str, claimed: str) -> bool:
    """As :func:`counts_for`, whatever the pieces are."""
    permits, claims = key.endswith(_PERMITS_LOSS), claimed.endswith(_PERMITS_LOSS)
    return key[:_HALF] == claimed[:_HALF] and (claims or not permits)


def leaders_of(epochs: Mapping[tuple[str, int], int | None]) -> str:
    """A digest of the leaders' epochs, by topic and partition; empty if one is not known.

    >>> leaders_of({("copy", 0): 3}), leaders_of({("copy", 0): None})
    ('3d3eb23b', '')
    """
    if not epochs or None in epochs.values():
        return ""
    return _digest(sorted([*place, epoch] for place, epoch in epochs.items()))


def may_be_cut(mark: Mark, claimant: Claimant) -> bool:
    """Whether a target has had another leader since the mark, so that its log may lack what was acknowledged: a leader
    that was not in sync cuts it (``unclean.leader.election.enable``). A driver then looks at the targets.
    """
    return bool(mark.leaders and claimant.leaders) and mark.leaders != claimant.leaders


def latest(marks: Iterable[Mark]) -> Mark | None:
    """The mark that counts, where several offsets of the group have one: that of the highest number.

    Of several with this number, it is the one that promises less: a worker sets the state only where its job wrote.
    """
    return max(marks, key=lambda mark: (mark.number, mark.state == MarkState.OPENING.value), default=None)


def next_number(known: int, now_ms: int) -> int:
    """The number of a new submission. The worker stores it before it submits.

    It is larger than each number that is known, so that clocks of workers need not agree. Numbers are held by

    - the task's state: that of the task instance's latest submission;
    - a file beside a stream's checkpoint, since each DAG run has another task's state: that of the latest driver that
      used the checkpoint. A driver that has the checkpoint's lock looks there first: if a higher number is there, it
      does nothing, otherwise it writes its own, and claims the run after that;
    - the mark at the target's brokers: that of the latest driver that claimed the run. The worker of a copy reads it,
      where it knows the targets.

    The absence of one of them says nothing. If all are absent, the clock alone decides: it keeps an earlier driver that
    nobody knows of from having the higher number. A number that is too low after all costs a try and no record, since
    its driver is refused.

    :param known: the highest number that the worker knows, 0 for none.
    :param now_ms: the worker's clock, in ms since 1970.
    """
    return max(known + 1, now_ms)


def may_have_delivered(known: bool, submitted_at_ms: int, now_ms: int) -> bool:
    """Whether a driver that has read the mark must assume that records of its run were delivered.

    "No mark" says that nothing was delivered only as long as no mark can have expired since the submission, as it could
    while a driver was suspended for days. Brokers keep committed offsets for a week by default.

    :param known: whether the worker knows of an earlier submission.
    :param submitted_at_ms: when the worker made the request, in ms since 1970.
    :param now_ms: after the mark was read.

    >>> may_have_delivered(False, 0, LATE_CLAIM_MS), may_have_delivered(False, 0, LATE_CLAIM_MS + 1)
    (False, True)
    """
    return known or now_ms - submitted_at_ms > LATE_CLAIM_MS


def decide(mark: Mark | None, claimant: Claimant) -> Decision:
    """What a driver does that has just fenced all other claimers.

    :param mark: as it is after that.
    :raises RunTakenOverError: if a later submission has had the run, or another driver of the same submission.
    """
    if mark is not None and mark.token != claimant.token and mark.number >= claimant.number:
        raise RunTakenOverError(
            f"Only the latest submission may write for run {claimant.run_id}; this is submission {claimant.number}, "
            f"and submission {mark.number} has had the run since. This one no longer writes."
        )
    if mark is not None and mark.run_id == claimant.run_id and counts_for(mark.key, claimant.key):
        is_trusted = _is_trusted(mark, claimant)
        if is_trusted and mark.state == MarkState.OPEN.value:
            return Decision.CONTINUE
        # Records may have been deleted from the target since the run was finished: the target says it, if it can.
        if is_trusted and mark.state == MarkState.FINISHED.value and not claimant.reads_back:
            return Decision.DELIVERED
        # Nothing was written since the worker has proved this very plan.
        return Decision.DELIVERED if carries_proof(mark, claimant) else Decision.READ_BACK
    if mark is not None and counts_for(claimant.proved_key, claimant.key) and _is_open_plan(mark, claimant):
        # All of this plan is proved. The other one goes on later.
        return Decision.DELIVERED
    if mark is not None and _is_carried(mark, claimant):
        return Decision.CARRY_OVER
    if claimant.may_have_delivered or (mark is not None and mark.run_id == claimant.run_id):
        return Decision.READ_BACK
    return Decision.BEGIN


def _is_trusted(mark: Mark, claimant: Claimant) -> bool:
    """Whether the state of the mark counts. The latest proof may be of a driver that has left the mark to another plan,
    whose progress it has found trusted.
    """
    if claimant.is_cut:
        return False
    is_left = claimant.carries and mark.key != claimant.proved_key and mark.number == claimant.proved_until
    return mark.number > claimant.untrusted_until or (is_left and mark.number == claimant.untrusted_until)


def _is_same_run(mark: Mark, claimant: Claimant) -> bool:
    """Whether the mark is of the same delivery, perhaps of another plan, and what is known of that counts."""
    return claimant.carries and mark.run_id == claimant.run_id and is_same_delivery(mark.key, claimant.key)


def _is_open_plan(mark: Mark, claimant: Claimant) -> bool:
    is_open = mark.state == MarkState.OPEN.value and mark.pieces > 0
    return is_open and _is_same_run(mark, claimant) and _is_trusted(mark, claimant)


def _is_carried(mark: Mark, claimant: Claimant) -> bool:
    return _is_open_plan(mark, claimant) or (_is_same_run(mark, claimant) and carries_proof(mark, claimant))


def carries_proof(mark: Mark, claimant: Claimant) -> bool:
    """Whether the worker's proof has all that was delivered, so that no slots are needed: it is of the plan that has
    the run, and no later submission has written without a trace.
    """
    is_proved = claimant.carries and mark.key == claimant.proved_key and mark.state != MarkState.OPENING.value
    return is_proved and not claimant.is_cut and 0 < claimant.proved_until >= claimant.untrusted_until


def with_slots(decision: Decision, pieces: Collection[str], slots: Mapping[str, int]) -> Decision:
    """The decision when the committed progress has been read.

    :param pieces: names of the pieces.
    :param slots: committed position by name of the piece.
    """
    if decision is Decision.CONTINUE and not slots.keys() >= set(pieces):
        return Decision.READ_BACK
    return decision


def fences(mark: Mark | None, claimant: Claimant) -> bool:
    """Whether tasks of an earlier driver may still be alive, which must be fenced before progress is read."""
    return claimant.may_have_delivered or (mark is not None and mark.token != claimant.token)


def claiming(mark: Mark | None, claimant: Claimant, decision: Decision) -> Mark:
    """The mark that a driver commits before it fences earlier tasks.

    It must not promise more than is so, should this driver die next: what was open under the same key stays so. So does
    what is carried over, under its old key, until the new slots are committed.
    """
    if mark is not None and decision in (Decision.CONTINUE, Decision.CARRY_OVER, Decision.DELIVERED):
        # An earlier worker may be about to remove the slots.
        is_proved = decision is not Decision.CONTINUE and carries_proof(mark, claimant)
        state = MarkState.FINISHED.value if is_proved else mark.state
        return replace(mark, number=claimant.number, token=claimant.token, state=state)
    opening = claimant.mark(MarkState.OPENING, repeats=forgets(mark, claimant))
    # Until everything is known of the targets as they are now.
    return opening if mark is None or not mark.leaders else replace(opening, leaders=mark.leaders)


def forgets(mark: Mark | None, claimant: Claimant) -> bool:
    """Whether something was delivered twice, or may be by the next plan, because this driver leaves it out of account:
    what the mark has of another plan than the proved one.
    """
    if claimant.reads_back:
        return False
    if mark is None or mark.run_id != claimant.run_id:
        return claimant.proved_repeats
    is_of_proof = mark.key == claimant.proved_key and mark.state != MarkState.OPENING.value
    return claimant.proved_repeats or mark.repeats or (claimant.carries and not is_of_proof)


def repeats(mark: Mark | None, claimant: Claimant, decision: Decision, *, only_counts: bool = False) -> bool:
    """Whether records may be in the target more than once when this driver has ended.

    :param mark: as it was before the claim.
    :param only_counts: nothing is written, as the worker has proved all of the plan.
    """
    if decision is Decision.READ_BACK:
        return forgets(mark, claimant) if only_counts else not claimant.reads_back
    return decision is not Decision.BEGIN and mark is not None and mark.repeats


def leaves_mark(mark: Mark | None, claimant: Claimant, decision: Decision) -> bool:
    """Whether the mark stays that of another plan, so that the worker must not finish it in place of this one."""
    return decision is Decision.DELIVERED and mark is not None and mark.key != claimant.key


def judged(mark: Mark | None, number: int, run_id: str, *, proved: bool, leaves: bool = False) -> Mark:
    """The mark that the worker commits when it has judged a report.

    :param number: of the worker's own submission.
    :param run_id: of it; if state store and mark were lost, a submission of another run may have the same number.
    :param proved: whether everything was delivered, and nothing twice.
    :param leaves: the driver has left the mark to another plan, see :func:`leaves_mark`.
    :raises RunTakenOverError: if a later submission has the run, or the mark is gone.
    """
    if mark is None or (mark.number, mark.run_id) != (number, run_id):
        has_it = "no submission" if mark is None else f"submission {mark.number} of run {mark.run_id}"
        raise RunTakenOverError(
            f"Only the submission that has the run may finish it; this is submission {number} of run {run_id}, and "
            f"{has_it} has it. A retry looks at what was delivered."
        )
    if proved and leaves:
        return mark
    return replace(mark, state=(MarkState.FINISHED if proved else MarkState.OPENING).value)
