"""Create the targets of a copy that do not exist, when its plan is known and before it is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.clients.topic_configs import topic_settings
from airflow_provider_kafka_spark.clients.topic_creation import create_topics, validated
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, make_plan
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    KafkaSparkError,
    OptionError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.new_topics import (
    FAIL_IF_REFUSED,
    NewTopic,
    new_topics,
    with_new_topics,
)
from airflow_provider_kafka_spark.core.topics.resolve import ResolvedRanges

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.operators.task_try import TaskTry


@dataclass(frozen=True, slots=True)
class NewTargets:
    """What to do about targets that do not exist.

    :param enabled: create them; otherwise a missing target is an error of the plan.
    :param partitions: of each; by default that of its largest source.
    :param on_refused_config: what to do with a setting of the source that the target's brokers refuse.
    """

    enabled: bool = False
    partitions: int | None = None
    on_refused_config: str = FAIL_IF_REFUSED

    def check(self, target_topic_expr: str | None) -> None:
        """:raises OptionError: if the parameters contradict one another."""
        if self.enabled and target_topic_expr is not None:
            raise OptionError(
                "create_target_topics=True needs names that are known before the job; with target_topic_expr only "
                "Spark knows them. Pass target_topic or topic_map, or create the topics first."
            )
        if not self.enabled and self.partitions is not None:
            raise OptionError(
                f"new_topic_partitions={self.partitions} is of topics that create_target_topics=True creates; that is "
                "False. Pass both, or neither."
            )

    def planned(
        self, task_try: TaskTry, routes: Mapping[str, Sequence[str]], source: ClusterState, target: ClusterState
    ) -> list[NewTopic]:
        """The targets to create; nothing is created yet.

        :param routes: for each target, the source topics whose records go there.
        :raises TargetError: naming what the target's brokers refuse.
        :raises BrokerAuthorizationError: naming a missing permission.
        """
        missing = {name: sources for name, sources in routes.items() if name not in target.topics}
        if not self.enabled or not missing:
            return []
        settings = topic_settings(task_try.source, {name for sources in missing.values() for name in sources})
        wanted = new_topics(missing, source, settings, self.partitions, task_try.parameters.transform.dead_letter_topic)
        return validated(task_try.sink, wanted, self.on_refused_config)


def plan_for_target(
    task_try: TaskTry,
    resolved: ResolvedRanges,
    source: ClusterState,
    target: ClusterState,
    check: Callable[[ReplayPlan, ClusterState], ResolvedRanges | None],
) -> tuple[ReplayPlan, ClusterState]:
    """The plan, and the target's cluster with the topics that were created for it.

    :param source: that the ranges were resolved against.
    :param check: of the plan, and of the target without what is to be created: raises an error where it must not be
        carried out, or returns what is to be planned instead. Nothing is created before.
    :raises KafkaSparkError: if the target cannot take the records.
    """
    worker, of_target = task_try.worker, task_try.target
    new = worker.new_targets.planned(task_try, of_target.routes(r.topic for r in resolved.ranges), source, target)

    def plan_with(resolved: ResolvedRanges, state: ClusterState) -> ReplayPlan:
        layout = worker.max_records_per_partition, task_try.how.preserve_order
        return make_plan(resolved, source, state, of_target, *layout)

    # All that can fail comes before the creation.
    planned_target = with_new_topics(target, new)
    plan = plan_with(resolved, planned_target)
    instead = check(plan, target)
    if instead is not None:
        resolved, plan = instead, plan_with(instead, planned_target)
    if new:
        target = created(task_try, new, target, plan)
        plan = plan_with(resolved, target)
    return replace(plan, warnings=(*_descriptions(new, plan_only=worker.plan_only), *plan.warnings)), target


def created(task_try: TaskTry, topics: Sequence[NewTopic], target: ClusterState, plan: ReplayPlan) -> ClusterState:
    """The target's cluster with the topics; a plan only knows what they will be.

    :param plan: of the copy.
    :raises KafkaSparkError: if the login may not write to the target, or it will not keep the records' timestamps: then
        nothing is created.
    :raises BrokerUnavailableError: if the new topics cannot be written to within the time-out.
    """
    if not topics:
        return target
    planned = with_new_topics(target, topics)
    if task_try.worker.plan_only:
        return planned
    task_try.check_target(planned, reads_back=False)
    task_try.check_timestamps(planned, plan)
    create_topics(task_try.sink, topics)
    return _visible(task_try, topics)


def _visible(task_try: TaskTry, topics: Sequence[NewTopic]) -> ClusterState:
    """The target's cluster when whichever broker answers knows all of the new topics."""
    deadline, names = time.monotonic() + task_try.sink.timeout, [topic.name for topic in topics]
    while True:
        error: KafkaSparkError | None = None
        try:
            target = task_try.target_state()
        except (UnknownTopicError, BrokerUnavailableError) as found:
            error = found
        else:
            if all(name in target.topics and target.topics[name].partitions for name in names):
                return target
        if time.monotonic() >= deadline:
            raise error or BrokerUnavailableError(
                f"The new target topics {', '.join(names[:5])} must be known to all brokers within "
                f"{task_try.sink.timeout:.0f} s; they are not (connection {task_try.sink.conn_id!r}). A retry finds "
                "them created."
            )
        time.sleep(0.2)


def _descriptions(topics: Sequence[NewTopic], *, plan_only: bool) -> tuple[str, ...]:
    """The topics as the plan and the result name them."""
    return tuple(first_ten([topic.describe("will be" if plan_only else "was") for topic in topics], "more new topics"))
