"""Which driver may write for a run, and how far its pieces are: the driver's side of the run protocol.

C1 to C6 are the steps 1 to 6 of "How a driver claims a run" on the page ``docs/explanation/run-protocol.md``. The
decisions are those of ``core.runs.run_protocol``; here they are carried out at the target's brokers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from uuid import uuid4

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError
from airflow_provider_kafka_spark.core.offsets.pieces import Piece
from airflow_provider_kafka_spark.core.runs.carried_progress import ProvedDelivery, SlotProgress, carried
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS, owner_group
from airflow_provider_kafka_spark.core.runs.run_protocol import (
    Claimant,
    Decision,
    Mark,
    MarkState,
    carries_proof,
    claiming,
    decide,
    delivery_key,
    fences,
    forgets,
    is_same_delivery,
    leaves_mark,
    may_be_cut,
    may_have_delivered,
    repeats,
    with_slots,
)
from airflow_provider_kafka_spark.core.runs.run_sources import are_other_sources, sources_of
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.core.wire.writer_messages import Owner, Slot
from airflow_provider_kafka_spark.jobs.cut_targets import Acknowledged, TargetLogs
from airflow_provider_kafka_spark.jobs.kafka_admin import (
    CommittedOffset,
    KafkaAdmin,
    TargetTopic,
    client_config,
    kafka_admin,
)
from airflow_provider_kafka_spark.jobs.owner_producer import OwnerProducer
from airflow_provider_kafka_spark.jobs.run_store import TIMEOUT_OPTION, RunStore
from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication


class RunOwnership:
    """A run that this driver claims. Use :func:`run_ownership`.

    :ivar run_id: in the provenance header: that of the run's mark where the worker has lost its own.
    :ivar key: the delivery key of the whole plan.
    :ivar groups: that hold the progress.
    :ivar has_mark: whether the login may commit the run's mark, which at least once does not insist on.
    :ivar logs: of the targets, since the run was claimed.
    :ivar leaves_mark: whether the mark stays that of another plan of the run.
    :ivar cut: which targets lack what an earlier try delivered there.
    :ivar may_be_cut: whether the targets have had another leader since the mark.
    :ivar is_unlooked: whether they have, and nothing tells what is to be looked for.
    :ivar is_of_other_source: whether the run that was to be taken over has read other topics of the same names.
    :ivar is_of_other_form: whether the run that is taken over has delivered by other parameters, or to other targets.
    """

    def __init__(self, request: CopyJob, admin: KafkaAdmin, producer: OwnerProducer | None) -> None:
        self.admin = admin
        self.run_id = request.run_id
        self.key = ""
        self.groups: tuple[str, ...] = ()
        self.has_mark = True
        self.leaves_mark = False
        self.cut: tuple[str, ...] = ()
        self.may_be_cut = self.is_unlooked = False
        self.is_of_other_source = self.is_of_other_form = False
        self._request = request
        self._token = uuid4().hex
        self._store = RunStore(request, admin, producer)
        self._is_plain = producer is None
        #: As it was before the claim.
        self._earlier: Mark | None = None
        #: The same, unless it is of other records.
        self._adopted: Mark | None = None
        self._committed: dict[str, CommittedOffset] = {}
        self._targets: Mapping[str, TargetTopic] = {}
        self.logs = TargetLogs(admin, ())
        self._has_run = False
        self._reads_back = False
        self._claimant: Claimant | None = None

    @property
    def owner(self) -> Owner | None:
        """How a Spark task knows that the run is still this driver's; None where no mark could be written."""
        if not self.has_mark:
            return None
        return Owner(self._store.group, self._store.topics[0], self._request.submission.number, self._token)

    def committed_offsets(self, pieces: Sequence[Piece]) -> int:
        """How many offsets of the pieces earlier tries have committed, where :meth:`claim` said that this counts."""
        return _offsets_before(self._committed, pieces)

    @property
    def id_prefix(self) -> str | None:
        """What the transactional ids of Spark tasks begin with; None for at least once."""
        return None if self._is_plain else self._store.task_prefix

    def claim(
        self,
        request: CopyJob,
        pieces: Sequence[Piece],
        targets: Mapping[str, TargetTopic],
        *,
        reads_back: bool,
        may_lack: Collection[str] = (),
    ) -> Decision:
        """Take over the run from earlier drivers, whose tasks write nothing from then on (C2 to C5).

        :param request: of the copy, or of a batch of a stream.
        :param pieces: of the whole plan, sorted.
        :param targets: every topic that is written to, by name.
        :param reads_back: the targets tell what they have.
        :param may_lack: targets from which records may be absent.
        :return: what earlier deliveries mean.
        :raises RunTakenOverError: if a later submission has the run.
        """
        self._request, self.run_id = request, request.run_id
        self._targets, self._reads_back = targets, reads_back
        # Before the progress is read: a leader that comes later is another one for the next driver.
        self.logs = TargetLogs(self.admin, targets)
        if self._is_plain:
            return self._claim_plainly(pieces, may_lack)
        mark = self._read_mark()
        claimant = self._new_claimant(pieces)
        # It raises where another driver has the run, before anything is done.
        decide(mark, claimant)
        self.may_be_cut = mark is not None and may_be_cut(mark, claimant)
        self.cut = self._cut_before(mark, claimant, pieces, may_lack)
        claimant = self._claimant = replace(claimant, is_cut=bool(self.cut))
        decision = decide(mark, claimant)
        self.leaves_mark = leaves_mark(mark, claimant, decision)
        self.is_unlooked = self.may_be_cut and decision is Decision.DELIVERED and not request.earlier.key
        self.is_of_other_form = self._reads_back and _adopts_another(self._request, mark, claimant)
        if fences(mark, claimant):
            self._store.write_mark(claiming(mark, claimant, decision))
            self._store.fence(pieces)
        if (request.is_of_stream and not request.history.is_retry) or _is_new_run(self._request, self._adopted):
            # Nobody has written anything of this batch, or of this run.
            return Decision.BEGIN
        return decision if mark is None else self._take_up(decision, mark, claimant, pieces)

    def _take_up(self, decision: Decision, mark: Mark, claimant: Claimant, pieces: Sequence[Piece]) -> Decision:
        """Read the committed progress, where it counts.

        :return: the decision, or what it becomes where the progress is not known.
        """
        if decision is Decision.CONTINUE:
            self._committed = self._store.progress_by_piece(mark, pieces)
            decision = with_slots(decision, [p.name for p in pieces], {n: c.offset for n, c in self._committed.items()})
        if decision is Decision.CARRY_OVER:
            stands = _carried(self._request, self._store, mark, claimant, pieces)
            if stands is None:
                # The mark has another key so far, which the worker must not finish in place of this one.
                self._store.write_mark(claimant.mark(MarkState.OPENING, repeats=True))
                return Decision.READ_BACK
            transform = self._request.transform
            self._committed = {
                piece.name: CommittedOffset(s.position, s.format(transform.target_of(piece.topic), piece.partition))
                for piece, s in zip(pieces, stands, strict=True)
            }
        return decision

    def _cut_before(
        self, mark: Mark | None, claimant: Claimant, pieces: Sequence[Piece], may_lack: Collection[str]
    ) -> tuple[str, ...]:
        """The partitions of targets that have not what the worker's proof tells of, or what the slots do under leaders
        of before.
        """
        request = self._request
        acknowledged = _proved(request, claimant, reads_back=self._reads_back)
        if mark is not None and self.may_be_cut and (mark.run_id, mark.state) == (self.run_id, MarkState.OPEN.value):
            # What is being committed ends before it is looked at.
            self._store.fence(pieces)
            slots = self._store.progress_of(mark)
            acknowledged = acknowledged.and_also(Acknowledged.of_slots(request, pieces, slots))
        return self.logs.lacking(request, self.run_id, acknowledged, may_lack)

    def distrust(self) -> None:
        """What is committed does not count for the next driver."""
        if self._claimant is not None and not self._is_plain:
            self._store.write_mark(self._claimant.mark(MarkState.OPENING, repeats=not self._reads_back))

    def open(self, decision: Decision, pieces: Sequence[Piece]) -> dict[str, Slot]:
        """Commit the progress of all pieces, and with the last of it that the run is open (C6). Spark tasks start after
        this.

        :param decision: of :meth:`claim`. With ``CONTINUE`` each piece goes on from its committed progress, with
            ``CARRY_OVER`` from that of another plan, and otherwise from its beginning.
        :param pieces: that are going to be written, sorted.
        :return: where each piece commits its progress, by its name.
        """
        before = self._earlier
        if self._is_plain:
            self._open_plainly(decision)
            return {}
        # Without headers nothing was found in the target, and the pieces are those of the whole plan.
        is_part = decision is Decision.READ_BACK and self._request.transform.provenance.in_headers
        claimant = self._new_claimant(pieces, is_part=is_part)
        width = self._targets[self._store.topics[0]].partitions
        if decision is Decision.CONTINUE and before is not None:
            width = before.width
        slots = self._store.slots(claimant.key, width)
        self.groups = tuple(slots.groups(len(pieces)))
        progress: dict[str, dict[tuple[str, int], CommittedOffset]] = {group: {} for group in self.groups}
        places = {piece.name: slots.of(i) for i, piece in enumerate(pieces)}
        for piece in pieces:
            slot, committed = places[piece.name], CommittedOffset(piece.from_offset, f"{piece.name}\n\0")
            if decision in (Decision.CONTINUE, Decision.CARRY_OVER):
                committed = self._committed.get(piece.name, committed)
            progress[slot.group][slot.topic, slot.partition] = committed
        mark = claimant.mark(MarkState.OPEN, len(self.groups), width, len(pieces), repeats=self.repeats(decision))
        self._store.write_mark(mark, progress)
        self._has_run = True
        if before is not None and before.key != mark.key:
            self._store.remove_progress(before)
        return places

    def _open_plainly(self, decision: Decision) -> None:
        """Note what the mark does not say yet: that all is written again, and under which leaders that was decided."""
        before, claimant = self._earlier, self._claimant
        if not self.has_mark or claimant is None:
            return
        forgotten, again = forgets(before, claimant), self.repeats(decision)
        if self.may_be_cut or (again and not forgotten):
            decide(self._read_mark(), claimant)
            self._earlier = before
            self._store.write_mark(claimant.mark(MarkState.OPENING, repeats=again or forgotten))

    def repeats(self, decision: Decision, *, only_counts: bool = False) -> bool:
        """Whether records may be in the target more than once, by this driver or by one before whose progress counts.

        :param only_counts: with ``READ_BACK``: the worker has proved all of the plan, and nothing is written.
        """
        claimant = self._claimant
        return claimant is not None and repeats(self._earlier, claimant, decision, only_counts=only_counts)

    @property
    def follows_another(self) -> bool:
        """Whether the worker or the mark knows of an earlier driver of this run."""
        return self._request.history.is_retry or (self._earlier is not None and self._earlier.run_id == self.run_id)

    def _claim_plainly(self, pieces: Sequence[Piece], may_lack: Collection[str]) -> Decision:
        """As :meth:`claim` without transactions: tasks of an earlier driver stop at their next look at the mark."""
        from py4j.protocol import Py4JJavaError

        claimant = self._claimant = self._new_claimant(pieces)
        try:
            mark = self._read_mark()
            # The mark may have another run id.
            claimant = self._claimant = self._new_claimant(pieces)
            decide(mark, claimant)
            self.may_be_cut = mark is not None and may_be_cut(mark, claimant)
            self.is_of_other_form = self._reads_back and _adopts_another(self._request, mark, claimant)
            self._store.write_mark(claiming(mark, claimant, Decision.READ_BACK))
        except Py4JJavaError as error:
            if "AuthorizationException" not in str(error.java_exception):
                raise
            self.has_mark = False
        # An earlier try may have had transactions, which this login or these brokers need not have.
        with suppress(Py4JJavaError, BrokerUnavailableError):
            self._store.fence(())
        acknowledged = _proved(self._request, claimant, reads_back=self._reads_back)
        self.cut = self.logs.lacking(self._request, self.run_id, acknowledged, may_lack)
        may_have = self._request.history.is_retry and not _is_new_run(self._request, self._adopted)
        # There is no progress to go on from.
        return Decision.READ_BACK if may_have else Decision.BEGIN

    def _new_claimant(self, pieces: Sequence[Piece], *, is_part: bool = False) -> Claimant:
        request = self._request
        # A stream's progress is that of all its batches, unless it is only for what another driver has left of one.
        lasts = request.is_of_stream and not is_part
        parts = {**request.delivery_parts, "run_id": self.run_id, "delivery": request.delivery}
        target_ids = {name: topic.id for name, topic in self._targets.items()}
        permits_loss = not request.how.fail_on_data_loss
        key = delivery_key(parts, target_ids, None if lasts else pieces, permits_loss=permits_loss)
        if not is_part:
            self.key = key
        # A driver that has the run already is not late.
        began_ms = None if self._has_run else request.submission.at_ms
        claimant = _claimant(request, self._token, self.run_id, key, began_ms, self._earlier)
        return replace(claimant, reads_back=self._reads_back, leaders=self.logs.leaders)

    def _read_mark(self) -> Mark | None:
        mark = self._earlier = self._adopted = self._store.read_mark(self._request, self._targets)
        if mark is not None and self._request.history.adopts_run:
            self.is_of_other_source = are_other_sources(mark.sources, _sources(self._request))
            self._adopted = None if self.is_of_other_source else mark
            self.run_id = self.run_id if self._adopted is None else mark.run_id
        return mark


def _claimant(
    request: CopyJob, token: str, run_id: str, key: str, began_ms: int | None, before: Mark | None
) -> Claimant:
    """What a driver is, for the decisions of the run protocol.

    :param began_ms: when its submission was about to start; None if that does not count.
    :param before: the mark before it.
    """
    now_ms = int(time.time() * 1000)
    submission, earlier = request.submission, request.earlier
    return Claimant(
        submission.number,
        token,
        run_id,
        key,
        may_have_delivered(request.history.is_retry, now_ms if began_ms is None else began_ms, now_ms),
        submission.untrusted_until,
        request.transform.provenance.in_segments and not request.is_of_stream,
        earlier.submission,
        earlier.key,
        earlier.may_have_duplicates,
        sources=_sources(request, before, run_id),
    )


def _proved(request: CopyJob, claimant: Claimant, *, reads_back: bool) -> Acknowledged:
    """What the worker's proof tells of, where the target does not say what it has."""
    if reads_back or not is_same_delivery(request.earlier.key, claimant.key):
        return Acknowledged()
    return Acknowledged.of(request.earlier.target_ranges, request.earlier.segments)


def _adopts_another(request: CopyJob, mark: Mark | None, claimant: Claimant) -> bool:
    """Whether a run is taken over that has delivered by other parameters: its headers have the same ``run_id``."""
    return mark is not None and request.history.adopts_run and not is_same_delivery(mark.key, claimant.key)


def _is_new_run(request: CopyJob, adopted: Mark | None) -> bool:
    """Whether there is no run to adopt, and nobody can have written under the new ``run_id``."""
    if adopted is not None or not request.history.adopts_run or request.history.has_begun:
        return False
    return not may_have_delivered(False, request.submission.at_ms, int(time.time() * 1000))


def _offsets_before(committed: Mapping[str, CommittedOffset], pieces: Sequence[Piece]) -> int:
    """How many offsets of pieces lie before what is committed of them."""
    return sum(
        max(0, min(committed[piece.name].offset, part.until_offset) - part.from_offset)
        for piece in pieces
        if piece.name in committed
        for part in piece.parts
    )


def _sources(request: CopyJob, before: Mark | None = None, run_id: str = "") -> str:
    """Which topics a copy reads, and those of its run before it. A stream's checkpoint says it of a stream."""
    if request.is_of_stream:
        return ""
    ids = {r.topic: request.source_ids.get(r.topic, "") for r in request.ranges}
    cluster = request.delivery_parts.get("the source cluster", "")
    return sources_of(ids, cluster, before.sources if before is not None and before.run_id == run_id else "")


def _carried(
    request: CopyJob, store: RunStore, mark: Mark, claimant: Claimant, pieces: Sequence[Piece]
) -> tuple[SlotProgress, ...] | None:
    """Where the pieces stand by what was delivered under another plan; None if that is not known."""
    proved, slots = ProvedDelivery(), list[SlotProgress]()
    if is_same_delivery(request.earlier.key, claimant.key):
        # Otherwise it is of another target, or of other records.
        proved = ProvedDelivery(request.earlier.ranges, request.earlier.segments)
    if not carries_proof(mark, claimant):
        found = store.progress_of(mark)
        if len(found) < mark.pieces:
            return None
        slots = [SlotProgress.parse(offset.offset, offset.metadata) for offset in found]
    return carried(pieces, slots, proved)


@contextmanager
def run_ownership(spark: SparkApplication, request: CopyJob) -> Iterator[RunOwnership]:
    """What a claim of a run needs. With exactly once, a driver that opens it later fences this one (C1)."""
    with ExitStack() as opened:
        admin = opened.enter_context(kafka_admin(spark, request.sink_options))
        producer = None
        if request.delivery == EXACTLY_ONCE:
            admin.check_lists_transactions()
            options = {name: value for name, value in request.sink_options.items() if name.startswith("kafka.")}
            options.setdefault(TIMEOUT_OPTION, str(TRANSACTION_TIMEOUT_MS))
            config = client_config(admin.jvm, options)
            producer = OwnerProducer(admin.jvm, config, owner_group(request.instance))
            opened.callback(producer.close)
        yield RunOwnership(request, admin, producer)
