"""Which driver may write for a run, and whether its earlier tries left their progress.

A consumer group without members holds one mark, as the metadata of a committed offset: the driver that has the run, or
that the run is finished. A driver commits its mark before it starts, and each Spark task compares it. If a driver of an
earlier try still lives, its tasks find another mark and write nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from airflow_provider_kafka_spark.core.errors import DeliveryError
from airflow_provider_kafka_spark.core.handoff.writer_messages import Owner, Slot
from airflow_provider_kafka_spark.core.pieces import Piece
from airflow_provider_kafka_spark.core.protocol import JobRequest
from airflow_provider_kafka_spark.core.run_identity import TRANSACTION_TIMEOUT_MS, progress_key, run_prefix
from airflow_provider_kafka_spark.jobs.kafka_admin import KafkaAdmin

_FINISHED = "finished"
#: Whether everything that earlier tries delivered is in the committed progress.
_COMPLETE, _INCOMPLETE = "complete", "incomplete"
#: How long to wait for the end of another writer's transaction.
_OPEN_SECONDS = 120.0
_TIMEOUT = "kafka.transaction.timeout.ms"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of this driver to write for a run.

    :param prefix: of the run's transactional ids and groups.
    :param key: of the committed progress; another plan or target has another one. A stream counts as one plan.
    :param mark: this driver's own.
    :param progress_is_complete: whether the committed progress of this plan has everything that earlier tries
        delivered, so that the target need not be read back. Not so after another plan, or if the progress has expired.
    :param is_finished: an earlier try delivered everything.
    :param targets: every topic that is written to.
    :param timeout_ms: of a transaction.
    """

    prefix: str
    key: str
    mark: str
    progress_is_complete: bool
    is_finished: bool
    targets: Sequence[str]
    timeout_ms: str

    @property
    def group(self) -> str:
        return f"{self.prefix}owner"

    @property
    def owner(self) -> Owner:
        return Owner(self.group, 1, self.mark)

    @property
    def id_prefix(self) -> str:
        return f"{self.prefix}task-"

    def slots(self, admin: KafkaAdmin, pieces: Sequence[Piece]) -> dict[str, Slot]:
        """The slot of each piece by its name; a new one stands at the piece's first offset."""
        slots = {piece.name: Slot(f"{self.id_prefix}{piece.name}-{self.key}", self.targets[0], 0) for piece in pieces}
        for piece in pieces:
            if admin.mark(slots[piece.name].group) is None:
                admin.set_mark(slots[piece.name].group, self.targets[0], f"{piece.name}\n", piece.from_offset)
        return slots

    def fence(self, admin: KafkaAdmin, tasks: Sequence[str]) -> None:
        """End what earlier tries may still be writing.

        :param tasks: names of all tasks.
        """
        admin.fence([f"{self.prefix}task-{name}" for name in tasks])

    def finish(self, admin: KafkaAdmin) -> None:
        """Mark the run as finished: a driver of an earlier try that wakes up later writes nothing."""
        if not self.is_finished:
            admin.set_mark(self.group, self.targets[0], _mark_text(f"{self.key} {_FINISHED}"))


def claim_run(admin: KafkaAdmin, request: JobRequest, targets: Sequence[str]) -> Claim:
    """Take over the run from earlier tries.

    :param targets: every topic that is written to.
    """
    options: Mapping[str, str] = request.sink_options
    plan = "stream" if request.progress_lasts else request.plan_digest
    prefix, key = run_prefix(request.run_id), progress_key(plan, admin.topic_ids(targets))
    before = json.loads(admin.mark(f"{prefix}owner") or "{}").get("token", "")
    complete, is_finished = f"{key} {_COMPLETE} ", before == f"{key} {_FINISHED}"
    progress_is_complete = is_finished or before.startswith(complete)
    # Once another plan may have delivered records, each try of this one has to read the target back.
    kind = complete if progress_is_complete or not request.is_retry else f"{key} {_INCOMPLETE} "
    claim = Claim(
        prefix,
        key,
        f"{kind}{uuid4().hex}",
        progress_is_complete=progress_is_complete,
        is_finished=is_finished,
        targets=targets,
        timeout_ms=options.get(_TIMEOUT, str(TRANSACTION_TIMEOUT_MS)),
    )
    if not claim.is_finished:
        admin.set_mark(claim.group, targets[0], _mark_text(claim.mark))
    return claim


def _mark_text(token: str) -> str:
    return json.dumps({"number": 1, "token": token})


def wait_for_open_transactions(admin: KafkaAdmin, targets: Sequence[str]) -> None:
    """Return when readers of committed records see everything that is in the targets by now.

    :raises DeliveryError: if a transaction of another writer stays open.
    """
    ends, deadline = admin.end_offsets(targets), time.monotonic() + _OPEN_SECONDS
    while True:
        seen = admin.end_offsets(targets, committed=True)
        hidden = [f"{topic}[{number}]" for (topic, number), end in ends.items() if seen.get((topic, number), end) < end]
        if not hidden:
            return
        if time.monotonic() > deadline:
            raise DeliveryError(
                "What an earlier try delivered must be seen before anything is written; a transaction of another "
                f"writer has been open for {_OPEN_SECONDS:.0f} s in {', '.join(hidden[:5])}. Nothing was written. A "
                "retry looks again; the writer has to commit, or its transaction to time out "
                "(transaction.timeout.ms)."
            )
        time.sleep(0.2)
