"""What the target's brokers keep of a run: its mark, and the progress of its pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from airflow_provider_kafka_spark.core.offsets.pieces import Piece
from airflow_provider_kafka_spark.core.runs.run_identity import (
    TRANSACTION_TIMEOUT_MS,
    owner_group,
    progress_group,
    run_prefix,
)
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark, latest
from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.core.wire.writer_messages import Slot
from airflow_provider_kafka_spark.jobs.kafka_admin import CommittedOffset, KafkaAdmin, Offsets, TargetTopic
from airflow_provider_kafka_spark.jobs.owner_producer import OwnerProducer, java_offsets

TIMEOUT_OPTION = "kafka.transaction.timeout.ms"
#: So many groups are committed in one transaction, which has to be shorter than its time-out.
_GROUPS_OF_TRANSACTION = 100


@dataclass(frozen=True, slots=True)
class Slots:
    """Where the pieces of a key commit their progress: piece ``i`` as partition ``i % width`` of group ``i // width``.

    :param instance: by which the run is found.
    :param key: the delivery key.
    :param topic: of the target's cluster; its partitions only have to exist.
    """

    instance: str
    key: str
    topic: str
    width: int

    def of(self, i: int) -> Slot:
        return Slot(progress_group(self.instance, self.key, i // self.width), self.topic, i % self.width)

    def groups(self, pieces: int) -> list[str]:
        return [progress_group(self.instance, self.key, i) for i in range(ceil(pieces / self.width))]


class RunStore:
    """The mark of a run, and its slots.

    :param producer: None for at least once, which has no progress.
    :ivar group: that has the mark.
    :ivar topics: for whose first partition the mark is committed: a target, and those that have an earlier one.
    """

    def __init__(self, request: CopyJob, admin: KafkaAdmin, producer: OwnerProducer | None) -> None:
        self.group = owner_group(request.instance)
        self.topics: list[str] = []
        self.task_prefix = f"{run_prefix(request.instance)}task-"
        self._instance = request.instance
        self._timeout_ms = int(request.sink_options.get(TIMEOUT_OPTION, TRANSACTION_TIMEOUT_MS))
        self._admin = admin
        self._producer = producer

    def read_mark(self, request: CopyJob, targets: Mapping[str, TargetTopic]) -> Mark | None:
        """The run's mark; an earlier try may have had other targets, and left it there.

        It is then written there too: otherwise it would count again, if the topic of the newer one is deleted. A run
        that is not of this task instance, as far as the worker knows, keeps its mark at other targets.
        """
        target = min(targets)
        places = {(target, 0), *self._admin.committed(self.group)}
        committed = self._admin.stable_offsets({self.group: places})[self.group]
        marks = {topic: Mark.from_json(offset.metadata) for (topic, _), offset in committed.items()}
        known = (request.run_id, *request.history.former_run_ids)
        marks = {
            topic: mark
            for topic, mark in marks.items()
            if request.history.adopts_run or topic in targets or mark.run_id in known
        }
        earlier = self._admin.describe({topic for topic in marks if topic != target})
        self.topics = [target, *sorted(earlier)]
        return latest(marks.values())

    def write_mark(self, mark: Mark, progress: Mapping[str, Offsets] | None = None) -> None:
        """Commit the mark.

        :param progress: by group; it is committed before, and the last of it together with the mark.
        :raises RunTakenOverError: if another driver has claimed the run since.
        """
        # confluent-kafka reads metadata up to a zero character, also beyond their end.
        own = {(topic, 0): CommittedOffset(0, mark.to_json() + "\0") for topic in self.topics}
        if self._producer is None:
            self._admin.commit(self.group, java_offsets(self._admin.jvm, own))
            return
        left = list((progress or {}).items())
        while len(left) > _GROUPS_OF_TRANSACTION:
            self._producer.commit(dict(left[:_GROUPS_OF_TRANSACTION]))
            del left[:_GROUPS_OF_TRANSACTION]
        self._producer.commit({self.group: own, **dict(left)})

    def remove_progress(self, mark: Mark) -> None:
        """Remove the progress of another plan; what is left expires by itself."""
        with suppress(Exception):
            self._admin.remove_groups(self.slots(mark.key, 1).groups(mark.groups))

    def slots(self, key: str, width: int) -> Slots:
        """The slots of a delivery key."""
        return Slots(self._instance, key, self.topics[0], width)

    def progress_of(self, mark: Mark) -> list[CommittedOffset]:
        """What is in the slots of the mark's plan, in the order of its pieces; those that are gone are left out."""
        of_mark = self.slots(mark.key, mark.width)
        slots = [of_mark.of(i) for i in range(mark.pieces)]
        places: dict[str, list[tuple[str, int]]] = {slot.group: [] for slot in slots}
        for slot in slots:
            places[slot.group].append((slot.topic, slot.partition))
        committed = self._admin.stable_offsets(places)
        found = [committed[slot.group].get((slot.topic, slot.partition)) for slot in slots]
        return [offset for offset in found if offset is not None]

    def progress_by_piece(self, mark: Mark, pieces: Sequence[Piece]) -> dict[str, CommittedOffset]:
        """The committed progress of pieces, as far as it is there, by name."""
        # A batch of a stream need not have all partitions of the one before.
        found = {offset.metadata.partition("\n")[0]: offset for offset in self.progress_of(mark)}
        return {piece.name: found[piece.name] for piece in pieces if piece.name in found}

    def fence(self, pieces: Sequence[Piece]) -> None:
        """End every earlier task of the run, whatever its plan."""
        ids = {f"{self.task_prefix}{piece.name}" for piece in pieces}
        ids.update(self._admin.transactional_ids(self.task_prefix))
        if ids:
            self._admin.fence(sorted(ids), self._timeout_ms)
