"""One try of a copy, as its steps share it, and the checks of its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.clients.edge_timestamps import edge_timestamps
from airflow_provider_kafka_spark.clients.empty_offsets import empty_beginnings
from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.clients.transaction_check import check_transactions
from airflow_provider_kafka_spark.core.copies.batch_path import describe
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters, parse_pause
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.errors import KafkaSparkError, OptionError, PlanTooLargeError
from airflow_provider_kafka_spark.core.ledger.entry import GroupLag
from airflow_provider_kafka_spark.core.ledger.log_look import holes_after, lags_of
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.records.kept_timestamps import check_times, check_timestamp_type, checks_times
from airflow_provider_kafka_spark.core.runs.run_identity import TRANSACTION_TIMEOUT_MS, instance_id
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.protocol import How, Pace, Transform
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.new_targets import NewTargets
from airflow_provider_kafka_spark.state.deployment import deployment_name

if TYPE_CHECKING:
    from airflow.sdk import Context

#: How many stretches beside a plan are looked at, of each partition, where each takes one request, and of all.
_MOST_HOLES, _MOST_OF_ALL = 100, 10_000


@contextmanager
def connected(
    source_conn_id: str, target_conn_id: str | None, timeout: float, *, waits_for_start: bool = True
) -> Iterator[tuple[KafkaHook, KafkaHook]]:
    """The clusters of source and target; the same hook twice if both have one connection.

    :param target_conn_id: the source's if None.
    :param timeout: seconds for each request to a broker.
    :param waits_for_start: as of :class:`~airflow_provider_kafka_spark.hooks.kafka.KafkaHook`.
    """

    def hook(conn_id: str) -> KafkaHook:
        return KafkaHook(conn_id, timeout, waits_for_start=waits_for_start)

    with hook(source_conn_id) as source:
        if target_conn_id is None or target_conn_id == source_conn_id:
            yield source, source
        else:
            with hook(target_conn_id) as sink:
                yield source, sink


def login_options(source: KafkaHook, sink: KafkaHook) -> tuple[Mapping[str, str], ...]:
    """The logins of a job, whose secrets no message of it may show. **Secret.**"""
    return source.config.spark_options(), sink.config.spark_options()


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What only the worker needs of its operator: parameters of these names, as each try has them.

    :param task_id: of the operator.
    :param new_targets: what to do about targets that do not exist.
    :param follows_trigger: it goes on with a job that was submitted before the task was deferred.
    """

    task_id: str = ""
    allow_same_topic: bool = False
    max_records_per_partition: int | None = None
    max_planned_records: int | None = None
    max_offsets_per_trigger: int | None = None
    allow_duplicates: bool = False
    plan_only: bool = False
    new_targets: NewTargets = field(default_factory=NewTargets)
    follows_trigger: bool = False


def worker_options_of(operator: Any) -> WorkerOptions:
    """Those of an operator."""
    own = {"new_targets": operator._new_targets, "follows_trigger": operator._follows_trigger}
    return WorkerOptions(**{**_given(operator, WorkerOptions), **own})


def how_of(operator: Any) -> How:
    """How an operator copies."""
    pause = parse_pause(operator.pause_while_lag, operator.max_pause)
    pace = Pace(operator.max_records_per_second, operator.max_bytes_per_second, pause)
    return How(pace=None if pace == Pace() else pace, **_given(operator, How))


def _given(operator: object, kind: type) -> dict[str, Any]:
    """The parameters by which fields of a type are named."""
    return {f.name: getattr(operator, f.name) for f in fields(kind) if hasattr(operator, f.name)}


@dataclass(frozen=True)
class TaskTry:
    """One try of a task, as its steps share it.

    :param parameters: what is copied and to where, which all tries share.
    :param source: of the cluster to read from.
    :param sink: of the cluster to write to; the same hook if both have one connection.
    :param how: how it is copied.
    :param worker: what only the worker needs.
    :param log: of the operator.
    """

    context: Context
    parameters: CopyParameters
    spark: SparkJobHook
    source: KafkaHook
    sink: KafkaHook
    how: How
    worker: WorkerOptions
    log: Any = field(repr=False)

    @property
    def rules(self) -> ReadRules:
        return ReadRules(self.parameters.read_committed, self.how.fail_on_data_loss)

    @property
    def target(self) -> Target:
        """Where records go."""
        return Target.of(self.parameters.transform, allow_same_topic=self.worker.allow_same_topic)

    @property
    def client_id(self) -> str:
        """By which brokers know the job's clients."""
        return f"airflow-kafka-spark-{self.context['ti'].dag_id}.{self.worker.task_id}"

    @property
    def title(self) -> str:
        """What Spark's page shows of the task."""
        ti = self.context["ti"]
        index = "" if ti.map_index is None or ti.map_index < 0 else f", map index {ti.map_index}"
        return f"DAG {ti.dag_id}, task {self.worker.task_id}, DAG run {ti.run_id}{index}"

    def instance(self, item: str) -> str:
        """What this task's runs are found by at the brokers of the target.

        :param item: of a mapped task, see ``core.runs.run_identity``; else empty.
        """
        ti, task_id = self.context["ti"], self.worker.task_id
        called_id = "" if task_id == ti.task_id else task_id
        return instance_id(deployment_name(), ti.dag_id, ti.run_id, ti.task_id, item, called_id)

    def log_pace(self, plan: ReplayPlan) -> None:
        if self.how.pace is not None:
            self.log.info("%s", self.how.pace.describe(plan.planned_records))

    def log_path(self, transform: Transform, target: ClusterState, plan: ReplayPlan) -> str:
        """Log and return how records are read: by batches, or one by one, and why.

        :param target: from :meth:`target_state`.
        """
        topics = target.topics
        configs = {name: topics[name].config if name in topics else {} for name in plan.target_topics}
        options, how = self.parameters.sink_options, self.how
        path = describe(how.reader, transform, options, configs, fail_on_data_loss=how.fail_on_data_loss)
        self.log.info("%s", path)
        return path

    def check_size(self, plan: ReplayPlan) -> None:
        """:raises PlanTooLargeError: if it has more records than ``max_planned_records``."""
        most = self.worker.max_planned_records
        if most is not None and plan.planned_records > most:
            raise PlanTooLargeError(
                f"A plan must have at most max_planned_records={most:,} records; this one has up to "
                f"{plan.planned_records:,} in {len(plan.ranges):,} ranges. Correct what is read, or raise the limit."
            )

    def target_state(self) -> ClusterState:
        """The target's cluster, for all that is planned."""
        return self.sink.state(self.parameters.known_targets, operation="WRITE")

    def empty_after(self, plan: ReplayPlan, source: ClusterState) -> OffsetRanges:
        """Offsets without a record between the planned ranges and after them: between ranges that were announced one by
        one are markers of transactions, which nobody announces.

        :param source: at planning time.
        """
        if plan.is_empty:
            return OffsetRanges()
        rules = self.rules
        ends = {p: rules.end_of(source.partition(p)) for p in plan.ranges.topic_partitions}
        holes = holes_after(plan.ranges, ends, max(1, min(_MOST_HOLES, _MOST_OF_ALL // len(ends))))
        try:
            return empty_beginnings(
                self.source, holes, ends, read_committed=rules.read_committed, within=self.source.timeout
            )
        except KafkaSparkError as error:
            self.log.warning("The ledger does not say which offsets beside the plan have no record: %s", error)
            return OffsetRanges()

    def check_target(self, target: ClusterState, *, reads_back: bool) -> None:
        """Check that the login may write to the target; the topics of ``target_topic_expr`` are known only to the job.

        :param target: from :meth:`target_state`; the topic need not exist yet if only a plan is made.
        :param reads_back: the job first reads earlier deliveries there.
        :raises BrokerAuthorizationError: naming the missing permission.
        """
        parameters = self.parameters
        # Progress is committed as an offset of the target.
        reads = parameters.is_exactly_once or (reads_back and parameters.transform.provenance.in_headers)
        check_topics(self.sink, parameters.known_targets, "WRITE", *(["READ"] if reads else []))
        if parameters.is_exactly_once:
            timeout = parameters.sink_options.get("kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            # Brokers may create a topic that a producer asks for.
            there = next((name for name, topic in target.topics.items() if topic.topic_id is not None), None)
            check_transactions(self.sink, int(timeout), there)

    def check_pace(self, target: ClusterState) -> tuple[GroupLag, ...]:
        """Check that the group of ``pause_while_lag`` consumes the target.

        :param target: from :meth:`target_state`.
        :return: how far behind it is, as far as the target's topics are known.
        :raises OptionError: if it does not.
        """
        pace = self.how.pace
        if pace is None or pace.pause is None:
            return ()
        dead, group = self.parameters.transform.dead_letter_topic, ConsumerGroup(self.sink, pace.pause.group_id)
        names = [name for name in self.parameters.known_targets if name != dead]
        there = [
            TopicPartition(name, p) for name in names if name in target.topics for p in target.topic(name).partitions
        ]
        committed = group.committed(there)
        if not (committed if names else group.exists()):
            raise OptionError(
                f"pause_while_lag must name a consumer group that has committed offsets of "
                f"{', '.join(names[:5]) or 'the target'} (connection {self.sink.conn_id!r}); {group.group_id!r} has "
                "not. Correct the name, or start its consumers first."
            )
        return lags_of(group.group_id, committed, target, of_target=True)

    def lag_of_source(self, group_id: str | None, source: ClusterState) -> tuple[GroupLag, ...]:
        """How far behind the group of ``commit_group_id`` is.

        :param source: at planning time.
        """
        if group_id is None:
            return ()
        committed = ConsumerGroup(self.source, group_id).committed([p for p, _ in source.all_partitions()])
        return lags_of(group_id, committed, source, of_target=False)

    def check_timestamps(self, target: ClusterState, plan: ReplayPlan) -> None:
        """Check that each target keeps its records' timestamps; the job checks the topics of ``target_topic_expr``.

        :param target: from :meth:`target_state`.
        :raises TargetError: naming the target's setting.
        """
        if not self.parameters.transform.preserve_timestamps:
            return
        routes = plan.target.routes(r.topic for r in plan.ranges)
        configs = {name: target.topic(name).config for name in routes}
        for name, config in configs.items():
            check_timestamp_type(name, config)
        limited = {name: sources for name, sources in routes.items() if checks_times(configs[name])}
        topics = {topic for sources in limited.values() for topic in sources}
        if not topics:
            return
        edges = edge_timestamps(self.source, OffsetRanges(r for r in plan.ranges if r.topic in topics))
        for name, sources in limited.items():
            if known := [edges[topic] for topic in sources if topic in edges]:
                oldest, newest = min(low for low, _ in known), max(high for _, high in known)
                check_times(name, configs[name], oldest, newest, target.now_ms)
