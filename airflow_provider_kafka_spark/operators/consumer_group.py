"""The operator that moves a consumer group to a copy of its topics."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_kafka_spark.clients.consumer_group import INACTIVE_STATES, ConsumerGroup
from airflow_provider_kafka_spark.clients.group_translation import translate
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.core.checks import text_or_none
from airflow_provider_kafka_spark.core.copies.declaration import (
    GROUP_MOVE,
    names,
    read_in_dag,
    read_rendered,
    renderers,
)
from airflow_provider_kafka_spark.core.errors import GroupOffsetsError, TargetError, TargetRecreatedError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.offsets.segments import SegmentIndex
from airflow_provider_kafka_spark.core.records.topic_map import mapped
from airflow_provider_kafka_spark.core.runs.mapped_copies import MappedCopy, copies_in
from airflow_provider_kafka_spark.core.shown_text import first_ten, shortened
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.group_move import (
    GroupMove,
    check_found,
    source_positions,
    warnings_of_sources,
    warnings_of_targets,
)
from airflow_provider_kafka_spark.core.topics.group_offsets import GroupTranslation
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.past_result import given_result
from airflow_provider_kafka_spark.operators.task_try import connected

if TYPE_CHECKING:
    from airflow.sdk import Context


class TranslateGroupOffsetsOperator(BaseOperator):
    """Commit the offsets of a consumer group on copied topics as the offsets of the same records on their targets.

    No record that the group has not consumed on the source lies before an offset that is committed on the target. The
    records must have the header of ``provenance="headers"``, or the results of copies with ``provenance="segments"``
    are given. The target is read backwards, until each record that the group has not consumed was found; all of it
    where one is missing.

    .. warning::
        Stop the consumers and the producers of the source first, and let the copy finish. What is consumed or produced
        after that is not taken into account.

    :param group_id: the consumer group on the source. (templated)
    :param target_group_id: the group that gets the offsets, which must have no members; ``group_id`` when None.
        (templated)
    :param source_conn_id: Kafka connection of the source topics. (templated)
    :param target_conn_id: Kafka connection of the copies; the source's when None. (templated)
    :param topics: source topics; when None, those for which the group has committed, as far as ``topic_map`` has them.
        (templated)
    :param target_topic: the copy of all topics. (templated)
    :param topic_map: the copy of each topic, by its name. Without it and ``target_topic`` copies have the same names on
        another cluster. (templated)
    :param of: results of copies with ``provenance="segments"``, which say where their records are. In their targets no
        header counts, since such copies pass on those of the source:
        ``copy.output``, a list of results or of the ``extra`` of asset events, the same as JSON text, or
        ``"dag_id.task_id"`` for the newest result of that task. (templated)
    :param fail_on_data_loss: fail if a record that the source has and the group has not consumed is not in the target;
        otherwise the result counts them. (templated)
    :param move_back: also move the target's group where its own offset is ahead of the translated one; otherwise it
        stays there. (templated)
    :param plan_only: return the offsets, commit nothing. (templated)
    :param kafka_timeout: seconds for each request to a broker. (templated)
    """

    template_fields: Sequence[str] = names(GROUP_MOVE)
    template_fields_renderers = renderers(GROUP_MOVE)
    ui_color = "#f5e3d0"

    def __init__(
        self,
        *,
        group_id: str,
        target_group_id: str | None = None,
        source_conn_id: str = "kafka_default",
        target_conn_id: str | None = None,
        topics: list[str] | None = None,
        target_topic: str | None = None,
        topic_map: dict[str, str] | None = None,
        of: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None = None,
        fail_on_data_loss: bool = True,
        move_back: bool = False,
        plan_only: bool = False,
        kafka_timeout: float = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group_id = group_id
        self.target_group_id = target_group_id
        self.source_conn_id = source_conn_id
        self.target_conn_id = target_conn_id
        self.topics = topics
        self.target_topic = target_topic
        self.topic_map = topic_map
        self.of = of
        self.fail_on_data_loss = fail_on_data_loss
        self.move_back = move_back
        self.plan_only = plan_only
        self.kafka_timeout = kafka_timeout
        read_in_dag(GROUP_MOVE, self)

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Translate, check, commit, and read back what was committed.

        :return: old and new offsets, as the documentation gives them.
        :raises AirflowFailException: for non-retriable errors.
        :raises KafkaSparkError: for retriable errors.
        """
        self._read_rendered()
        copies = self._copies(context)
        clusters = connected(self.source_conn_id, self.target_conn_id, self.kafka_timeout, waits_for_start=False)
        with clusters as (source, target):
            move = self._translated(source, target, copies)
            move = move.checked(may_lose=self.plan_only or not self.fail_on_data_loss)
            self._show(move)
            if not self.plan_only:
                self._commit(target, move)
        return move.result(plan_only=self.plan_only)

    def _read_rendered(self) -> None:
        """:raises InvalidInputError: if a parameter is malformed."""
        read_rendered(GROUP_MOVE, self)
        if self.target_topic is not None and self.topic_map is not None:
            raise TargetError("Give at most one of target_topic='orders_v2' and topic_map={'orders': 'orders_v2'}.")

    def _copies(self, context: Context) -> tuple[MappedCopy, ...]:
        """:raises InvalidInputError: if the given results have none."""
        of = given_result(context["ti"], text_or_none(self.of))
        return () if of is None else copies_in(of, "of")

    def _translated(self, source: KafkaHook, target: KafkaHook, copies: Iterable[MappedCopy]) -> GroupMove:
        """Read everything; nothing is committed."""
        group = ConsumerGroup(source, self.group_id)
        target_group = ConsumerGroup(target, self.target_group_id or self.group_id)
        target_group.check_commits()
        warnings = self._warnings_of_members(group, target_group)
        # Before the ends of the partitions: a group that is active moves on.
        committed = self._committed(source, group)
        names = sorted({p.topic for p in committed})
        cluster = _readable(source, names)
        targets = self._targets(names, cluster, target)
        of_target = _readable(target, set(targets.values()))
        sources = source_positions(cluster, names, committed)
        found = [copy.still_there(cluster, of_target) for copy in copies]
        segments = SegmentIndex(segment for of_copy, _ in found for segment in of_copy)
        warnings += dict.fromkeys(warning for _, of_copy in found for warning in of_copy)
        warnings += warnings_of_sources(sources, self.group_id)
        translations = []
        for name in sorted(set(targets.values())):
            of_topic = [s for s in sources if targets[s.partition.topic] == name]
            translation = GroupTranslation(name, of_target.topic(name).partitions, of_topic)
            translate(translation, source, target, segments)
            check_found(translation, of_topic)
            translations.append(translation)
        positions = [position for translation in translations for position in translation.positions()]
        old = target_group.committed([p.partition for p in positions])
        if not self.move_back:
            positions = [p.at_least(old.get(p.partition), of_target.partition(p.partition)) for p in positions]
        return GroupMove(
            group_id=self.group_id,
            target_group_id=target_group.group_id,
            targets=targets,
            sources=tuple(sources),
            positions=tuple(positions),
            old=old,
            translations=tuple(translations),
            target_ids={name: topic.topic_id for name, topic in of_target.topics.items()},
            warnings=(*warnings, *warnings_of_targets(positions, old, of_target, target_group.group_id)),
        )

    def _warnings_of_members(self, group: ConsumerGroup, target_group: ConsumerGroup) -> list[str]:
        """:raises ConsumerGroupActiveError: if the target's group is active, and offsets are to be committed."""
        state, target_state = group.state, target_group.state
        warnings = []
        if target_state not in INACTIVE_STATES:
            if not self.plan_only:
                target_group.raise_if_active()
            warnings.append(
                f"The group {target_group.group_id!r} is {target_state}: the commit will be refused until its "
                "consumers are stopped"
            )
        if state not in INACTIVE_STATES:
            warnings.append(
                f"The group {self.group_id!r} is {state} on the source: what it consumes from now on is seen again"
            )
        return warnings

    def _committed(self, source: KafkaHook, group: ConsumerGroup) -> dict[TopicPartition, int]:
        """The group's offsets of the source topics.

        :raises GroupOffsetsError: if the group has committed nothing for one of them.
        """
        metadata = source.metadata().topics
        wanted = [name for name in metadata if not name.startswith("__")] if self.topics is None else self.topics
        if self.topics is not None:
            Selection(self.topics).topic_names(source.topic_names(self.topics, "READ"))
        elif self.topic_map is not None:
            source.topic_names(self.topic_map, "READ")
            wanted = [name for name in self.topic_map if name in metadata]
        elif self.target_conn_id in (None, self.source_conn_id):
            # Here the group may have been moved to the copy before.
            wanted = [name for name in wanted if name != self.target_topic]
        places = [TopicPartition(n, p) for n in wanted if n in metadata for p in metadata[n].partitions]
        committed = group.committed(places)
        lacking = sorted(set(self.topics or ()) - {p.topic for p in committed})
        if not committed or lacking:
            state = group.state
            exists = "it does not exist, or its offsets have expired" if state == "DEAD" else f"it is {state}"
            raise GroupOffsetsError(
                f"The group {self.group_id!r} must have committed offsets for "
                f"{shortened(map(repr, lacking)) or 'the topics to translate'} (connection {source.conn_id!r}); it has "
                f"none: {exists}. Correct group_id, topics or topic_map."
            )
        return committed

    def _targets(self, names: Sequence[str], cluster: ClusterState, target: KafkaHook) -> dict[str, str]:
        """The copy of each topic.

        :raises TargetError: if one is not named, or is the source itself.
        """
        if self.topic_map is not None:
            targets = mapped(names, self.topic_map)
        else:
            targets = {name: self.target_topic or name for name in names}
        sources = set(names) & set(targets.values())
        if sources and target.metadata().cluster_id == cluster.cluster_id:
            raise TargetError(
                f"A copy must be another topic than its source; {shortened(map(repr, sorted(sources)))} would be both, "
                f"on the cluster of connection {target.conn_id!r}. Pass topic_map={{'orders': 'orders_v2'}}, "
                "target_topic, or target_conn_id of another cluster."
            )
        missing = sorted(set(targets.values()) - target.topic_names(targets.values(), "READ"))
        if missing:
            raise TargetError(
                f"The target topic {shortened(map(repr, missing))} does not exist on the cluster of connection "
                f"{target.conn_id!r}. Copy the source first, or correct topic_map or target_topic."
            )
        return targets

    def _show(self, move: GroupMove) -> None:
        self.log.info(
            "Offsets of group %r on the target, for %r on the source:\n%s",
            move.target_group_id,
            move.group_id,
            "\n".join(first_ten(move.lines)),
        )
        for warning in first_ten(move.warnings, "more warnings in the result"):
            self.log.warning("%s", warning)

    def _commit(self, target: KafkaHook, move: GroupMove) -> None:
        """:raises TargetRecreatedError: if a target is another topic now than the one that was read."""
        now = target.state(move.target_ids).topics
        for name, topic_id in move.target_ids.items():
            if name not in now or now[name].topic_id != topic_id:
                raise TargetRecreatedError(
                    f"The target topic {name!r} was deleted or recreated while it was read. Nothing was committed."
                )
        ConsumerGroup(target, move.target_group_id).move({p.partition: p.offset for p in move.positions})
        self.log.info("Committed: %s", json.dumps(move.result(plan_only=False)["partitions"]))


def _readable(cluster: KafkaHook, topics: Collection[str]) -> ClusterState:
    """The state of topics that the login may read."""
    state = cluster.state(topics, operation="READ")
    check_topics(cluster, topics, "READ")
    return state
