"""The common base of the Kafka-to-Kafka operators: plan, submit, and succeed only if the collected report proves
delivery.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases import operator as airflow_operator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_kafka_spark.core.checks import (
    EXACTLY_ONCE,
    MISSING_ONLY,
    parse_reader,
    text_or_none,
)
from airflow_provider_kafka_spark.core.copies.batch_path import check_reader, check_segments, describe
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters, parse_pause
from airflow_provider_kafka_spark.core.copies.declaration import (
    COMMON,
    TEXT,
    Decides,
    Declared,
    names,
    read,
    read_in_dag,
    renderers,
)
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan, Target
from airflow_provider_kafka_spark.core.copies.planned_copy import EarlierDelivery, PlannedCopy
from airflow_provider_kafka_spark.core.copies.verification import totals
from airflow_provider_kafka_spark.core.errors import ExpressionError, InvalidInputError, PlanTooLargeError
from airflow_provider_kafka_spark.core.offsets.compact_result import short_result
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.records.dead_letters import check_dead_letters
from airflow_provider_kafka_spark.core.records.expressions import (
    check_size,
    unknown_column,
    unknown_columns,
    unknown_function,
    unknown_functions,
)
from airflow_provider_kafka_spark.core.records.spark_functions import NEWEST_SPARK
from airflow_provider_kafka_spark.core.runs.run_identity import instance_id
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.spark.options import check_client_classes
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.topics.new_topics import FAIL
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, Pace, Transform
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error as no_retry_on_permanent_error
from airflow_provider_kafka_spark.failure import undated_run_explained
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.metrics import count_copy, count_retry
from airflow_provider_kafka_spark.operators.asset_events import (
    LEDGER_OUTLETS,
    announce,
    outlets_with_ledger,
    record_without_records,
)
from airflow_provider_kafka_spark.operators.attempt import Attempt, connected
from airflow_provider_kafka_spark.operators.deferral import DeferrableOperator
from airflow_provider_kafka_spark.operators.ledger import TaskLedger
from airflow_provider_kafka_spark.operators.mapped_item import mapped_item
from airflow_provider_kafka_spark.operators.new_targets import NewTargets
from airflow_provider_kafka_spark.operators.proof import check_counts
from airflow_provider_kafka_spark.operators.token_policy import DelegationTokenPolicy
from airflow_provider_kafka_spark.state.deployment import deployment_name
from airflow_provider_kafka_spark.state.request_store import RequestStore
from airflow_provider_kafka_spark.state.run_state import check_item, remember_success
from airflow_provider_kafka_spark.state.task_state import TaskState
from airflow_provider_kafka_spark.toolchain.settings import client_classes_allowed

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial


class KafkaToKafkaOperator(DeferrableOperator):
    """Copy records from Kafka to Kafka through Spark. Use one of the subclasses, which define the records to read.

    If the task succeeds, every planned record that exists was read, and every record that passed ``where`` was written
    to the target and acknowledged by all in-sync replicas, as counted by the job itself. The exact offsets are fixed
    before Spark starts, and a retry of the task reuses them.

    With ``delivery="exactly_once"`` records are written in transactions, and a retry resumes from the progress that was
    committed with them. With ``"at_least_once"`` a retry reads the target back by the provenance header; with
    ``provenance=None`` it would write everything again.

    :param source_conn_id: Kafka connection to read from. (templated)
    :param target_conn_id: Kafka connection to write to; the source's when None. (templated)
    :param target_topic: one topic for all records. (templated)
    :param topic_map: a target for each source topic, ``{"orders": "orders_v2"}``. (templated)
    :param target_topic_expr: an SQL expression per row, such as ``"concat(topic, '_replay')"``; exactly one of the
        three. (templated)
    :param create_target_topics: create a target that does not exist, with the partitions and the settings of its source
        topics. An existing one is never changed. (templated)
    :param new_topic_partitions: partitions of such a target; by default those of its largest source. (templated)
    :param on_refused_config: ``fail`` if the target's brokers refuse a setting of the source, or ``leave_out``.
        (templated)
    :param allow_same_topic: permit writing into a topic that is being read. (templated)
    :param where: an SQL predicate over ``key, value, topic, partition, offset, timestamp, timestampType, headers``.
        (templated)
    :param keys: copy only records with one of these keys: text, bytes, ``{"hex": "00ff"}``, or None for records without
        a key. (templated)
    :param headers: copy only records that have each of these headers with one of its values, ``{"tenant": ["acme"]}``.
        (templated)
    :param reject_when: an SQL expression: a record for which it is true, or gives text, goes to ``dead_letter_topic``
        as it was, with the reason in a header. (templated)
    :param dead_letter_topic: for rejected records, in the same transactions as the others. (templated)
    :param columns: SQL expressions for ``key``, ``value``, ``headers``, ``partition``; other columns are unchanged.
        (templated)
    :param schema_id_map: rewrite schema ids of Confluent's wire format in values, ``{3: 17}``, or in keys and values,
        ``{"keys": {5: 9}, "values": {3: 17}}``; an id that it does not have fails the task. (templated)
    :param preserve_partition: write to the partition number that the record came from; otherwise the Java producer's
        hash of the key decides. (templated)
    :param preserve_timestamps: keep each record's timestamp; the plan fails if the target would replace it, refuse it,
        or delete such a record at once. (templated)
    :param include_headers: keep the source's headers. (templated)
    :param provenance: ``"headers"`` adds a header ``x-kafka-spark-source`` to each record:
        ``run_id|topic|partition|offset|timestamp in ms``. ``"segments"`` changes no record: the result maps offsets of
        the source to offsets of the target. None does neither. (templated)
    :param reader: ``"source"``: Spark's Kafka source, record by record. ``"batches"``: record batches, passed on where
        nothing changes and otherwise rewritten as bytes, which is faster; SQL needs ``"source"``. None is ``"source"``
        with provenance headers, and ``"batches"`` without. (templated)
    :param delivery: ``exactly_once``: consumers that read committed see each record once, even after kills; needs
        transactions on the target's brokers. ``at_least_once`` if brokers or permissions do not allow them: a retry
        writes only what is missing, and duplicates are searched for when Spark has run a task again. (templated)
    :param allow_duplicates: report records that the target has more than once, instead of failing. (templated)
    :param isolation_level: ``read_committed`` leaves aborted records out, and reads nothing beyond the last stable
        offset; ``read_uncommitted`` does neither. (templated)
    :param fail_on_data_loss: aged-out offsets and recreated topics are an error; otherwise the gap is in the result.
        (templated)
    :param source_options: further options of Spark's Kafka source. (templated)
    :param sink_options: further options of the Kafka producer, with the prefix ``kafka.``. (templated)
    :param plan_only: resolve, check, return the plan, submit nothing, emit no asset event. (templated)
    :param max_records_per_second: of the whole job, however many Spark tasks run; None for no limit. (templated)
    :param max_bytes_per_second: the same, by the bytes of keys and values; of record batches that are passed on, by
        their size in the log. (templated)
    :param pause_while_lag: ``{"group_id": "billing", "max_lag": 100_000}``: while this consumer group of the target's
        cluster is further behind, nothing is sent; the copy goes on below 80 % of it. (templated)
    :param max_pause: timedelta, or seconds: a longer pause fails the task, and a retry continues. (templated)
    :param max_planned_records: fail if the plan has more records; None for no limit. (templated)
    :param on_empty: ``succeed``, or ``skip``: a run that has nothing to read is a skipped task, and so are those after
        it. (templated)
    :param on_rerun: what a clear after a success does, and a backfill that reprocesses: ``missing_only`` writes what
        the target lacks of what this task instance delivered before, and of what another DAG run has copied since this
        one was due; ``copy_again`` writes everything again; ``fail``.
        A stream always continues from its checkpoint. (templated)
    :param use_delegation_token: the worker creates a delegation token for this run with the connection's login, and
        Spark logs in with the token only: it never gets the login. The token is renewed while the job runs and expired
        after it. True for all clusters, ``"source"`` or ``"target"`` for one. ``"spark"``: on YARN and Kubernetes with
        Kerberos, Spark itself obtains and renews a token for each cluster whose connection logs in by Kerberos; these
        tokens end by themselves. (templated)
    :param min_token_lifetime: timedelta, or seconds: fail before submission if such a token cannot live so long.
        (templated)
    :param kafka_timeout: seconds for each request to a broker. (templated)
    :param progress_seconds: seconds between two lines of progress in the log. (templated)
    :param outlets: Airflow's outlets; the ledger's asset ``COPIES`` is added to them, and, when the task has written,
        the asset of each target topic that Airflow knows. With an empty list there are no asset events.

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.spark_job.DeferrableOperator`.
    """

    #: Those of this class, and of subclasses all.
    _declared: ClassVar[Sequence[Declared]] = COMMON
    template_fields: Sequence[str] = (*names(COMMON), *DeferrableOperator.template_fields)
    template_fields_renderers = renderers(COMMON)
    ui_color = "#f5e3d0"
    #: A stream has other options than a batch.
    _is_stream: ClassVar[bool] = False

    def __init__(
        self,
        *,
        source_conn_id: str = "kafka_default",
        target_conn_id: str | None = None,
        target_topic: str | None = None,
        topic_map: dict[str, str] | None = None,
        target_topic_expr: str | None = None,
        create_target_topics: bool = False,
        new_topic_partitions: int | None = None,
        on_refused_config: str = FAIL,
        allow_same_topic: bool = False,
        where: str | None = None,
        keys: list[Any] | None = None,
        headers: dict[str, Any] | None = None,
        reject_when: str | None = None,
        dead_letter_topic: str | None = None,
        columns: dict[str, str] | None = None,
        schema_id_map: dict[Any, Any] | None = None,
        preserve_partition: bool = False,
        preserve_timestamps: bool = True,
        include_headers: bool = True,
        provenance: str | None = "headers",
        reader: str | None = None,
        delivery: str = EXACTLY_ONCE,
        allow_duplicates: bool = False,
        isolation_level: str = "read_committed",
        fail_on_data_loss: bool = True,
        source_options: dict[str, Any] | None = None,
        sink_options: dict[str, Any] | None = None,
        plan_only: bool = False,
        max_planned_records: int | None = None,
        max_records_per_second: int | None = None,
        max_bytes_per_second: int | None = None,
        pause_while_lag: dict[str, Any] | None = None,
        max_pause: timedelta | float = 3600.0,
        on_empty: str = "succeed",
        on_rerun: str = MISSING_ONLY,
        use_delegation_token: bool | str = False,
        min_token_lifetime: timedelta | float | None = None,
        kafka_timeout: float = 30.0,
        progress_seconds: float = 5.0,
        outlets: Any = LEDGER_OUTLETS,
        **kwargs: Any,
    ) -> None:
        super().__init__(outlets=outlets_with_ledger(outlets), **kwargs)
        self.on_success_callback = [*self.on_success_callback, remember_success]
        self.source_conn_id = source_conn_id
        self.target_conn_id = target_conn_id
        self.target_topic = target_topic
        self.topic_map = topic_map
        self.target_topic_expr = target_topic_expr
        self.create_target_topics = create_target_topics
        self.new_topic_partitions = new_topic_partitions
        self.on_refused_config = on_refused_config
        self.allow_same_topic = allow_same_topic
        self.where = where
        self.keys = keys
        self.headers = headers
        self.reject_when = reject_when
        self.dead_letter_topic = dead_letter_topic
        self.columns = columns
        self.schema_id_map = schema_id_map
        self.preserve_partition = preserve_partition
        self.preserve_timestamps = preserve_timestamps
        self.include_headers = include_headers
        self.provenance = provenance
        self.reader = reader
        self.delivery = delivery
        self.allow_duplicates = allow_duplicates
        self.isolation_level = isolation_level
        self.fail_on_data_loss = fail_on_data_loss
        self.source_options = source_options
        self.sink_options = sink_options
        self.plan_only = plan_only
        self.max_planned_records = max_planned_records
        self.max_records_per_second = max_records_per_second
        self.max_bytes_per_second = max_bytes_per_second
        self.pause_while_lag = pause_while_lag
        self.max_pause = max_pause
        self.on_empty = on_empty
        self.on_rerun = on_rerun
        self.use_delegation_token = use_delegation_token
        self.min_token_lifetime = min_token_lifetime
        self.kafka_timeout = kafka_timeout
        self.progress_seconds = progress_seconds
        read_in_dag(COMMON, self)
        self._tokens = DelegationTokenPolicy()
        #: Whether an earlier try has submitted a job, and the task was not cleared since.
        self._is_resumed = False
        #: Of a mapped task, see ``core.runs.run_identity``.
        self._item = ""
        self._lineage_entry: Mapping[str, Any] | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """Airflow's method: a mapped task has the ledger among its outlets before there is an operator."""
        made = super().partial(**kwargs)
        given = made.kwargs.get("outlets")
        # Airflow 3.3.1 has its own default there, and not that of the operator.
        is_given = given is not getattr(airflow_operator, "OPERATOR_DEFAULTS", {}).get("outlets")
        made.kwargs["outlets"] = outlets_with_ledger(given if is_given else None)
        return made

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Nothing yet: a task plans while it runs."""
        return None

    def get_openlineage_facets_on_complete(self, ti: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002 - Airflow's
        """The topics, records and offset ranges of this task, for Airflow's OpenLineage provider."""
        from airflow_provider_kafka_spark.operators.lineage import lineage_of

        return lineage_of(self._lineage_entry)

    def get_openlineage_facets_on_failure(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        """The topics of this task, and what of them is known to be committed."""
        return self.get_openlineage_facets_on_complete(ti)

    def _note_lineage(self, entry: Mapping[str, Any]) -> None:
        self._lineage_entry = entry

    def render_template(self, *args: Any, **kwargs: Any) -> Any:
        """Airflow's method, with an error that says what to do if a run has no data interval."""
        with undated_run_explained():
            return super().render_template(*args, **kwargs)

    def on_kill(self) -> None:
        """Stop the Spark job on any cluster, and expire its delegation tokens; ``execute`` then fails."""
        self._tokens.end()
        super().on_kill()

    @abstractmethod
    def _records(self) -> dict[str, Any]:
        """The parameters that define the records to read, by name, as plain JSON with one form for each meaning.

        :raises KafkaSparkError: if one is malformed.
        """

    def _parameters(self, context: Context) -> CopyParameters:
        """The parameters of the run's first try, or else those of this one.

        :raises KafkaSparkError: if a parameter is malformed.
        """
        self._check_submit_types()
        self._read_rendered()
        min_lifetime = text_or_none(self.min_token_lifetime)
        self._tokens = DelegationTokenPolicy(self.use_delegation_token, min_lifetime, self.kafka_timeout)
        now = dict[str, Any]()

        def requested() -> dict[str, Any]:
            now.update(self._parsed().by_name())
            return now

        first = RequestStore(context, self.task_id).resume(requested, self.log, as_stored=self._follows_trigger)
        self._is_resumed = bool(first)
        if self._is_resumed and not self._follows_trigger:
            count_retry(context)
        parameters = CopyParameters.from_names(first) if first else self._parsed()
        self._item = self._item_of(context, parameters.by_name())
        if first and now:
            check_item(self._item, self._item_of(context, now))
        self._new_targets.check(parameters.target_topic_expr)
        if not client_classes_allowed():
            check_client_classes(parameters.source_options, parameters.sink_options)
        return parameters

    def _read_rendered(self) -> None:
        """Read what each try takes as it is now, as a template has rendered it.

        :raises InvalidInputError: if one is malformed.
        """
        for name, value in read(self._declared, self, Decides.LAYOUT, Decides.TRY).items():
            setattr(self, name, value)

    def _parsed(self) -> CopyParameters:
        """The parameters of this try, checked."""
        TEXT.read(self.spark_conn_id, "spark_conn_id")
        parameters = CopyParameters(**read(self._declared, self, Decides.COPY), records=self._records())
        for name, sql in expressions_of(parameters).items():
            check_size(name, sql, example="offset >= 100")
        if parameters.preserve_partition and "partition" in parameters.columns:
            raise InvalidInputError(
                "preserve_partition=True and columns['partition'] contradict each other; give one of the two."
            )
        target, topic_map = parameters.target_topic, parameters.topic_map
        Target(target, parameters.target_topic_expr, topic_map=topic_map)
        written = topic_map.values() if target is None else (target,)
        check_dead_letters(parameters.dead_letter_topic, parameters.reject_when, written)
        check_segments(parameters.transform())
        check_reader(parse_reader(self.reader), parameters.transform())
        return parameters

    def _check_names(self, parameters: CopyParameters, spark_version: str) -> None:
        """Check the names of functions and columns before Spark starts, and so in a plan, too.

        :param spark_version: such as ``"4.0.0"``; of a newer one than known here, it is only a warning.
        :raises ExpressionError: if Spark has no function of a name, or a record no such column.
        """
        is_known = tuple(map(int, spark_version.split(".")[:2])) <= NEWEST_SPARK
        for name, sql in expressions_of(parameters).items():
            messages = [unknown_function(name, sql, function) for function in unknown_functions(sql)]
            messages += [unknown_column(name, sql, column) for column in unknown_columns(sql)]
            for message in messages:
                if is_known:
                    raise ExpressionError(message)
                self.log.warning("Spark %s may refuse this: %s", spark_version, message)

    def _pace(self) -> Pace | None:
        pace = Pace(
            self.max_records_per_second,
            self.max_bytes_per_second,
            parse_pause(self.pause_while_lag, self.max_pause),
        )
        return None if pace == Pace() else pace

    def _log_pace(self, plan: ReplayPlan) -> None:
        pace = self._pace()
        if pace is not None:
            self.log.info("%s", pace.describe(plan.planned_records))

    def _path(self, parameters: CopyParameters, transform: Transform, target: ClusterState, plan: ReplayPlan) -> str:
        """Log and return how records are read: by batches, or one by one, and why."""
        topics = target.topics
        configs = {name: topics[name].config if name in topics else {} for name in plan.target_topics}
        options = (parameters.source_options, parameters.sink_options)
        path = describe(self.reader, transform, options, configs, fail_on_data_loss=self.fail_on_data_loss)
        self.log.info("%s", path)
        return path

    def _rules(self, parameters: CopyParameters) -> ReadRules:
        return ReadRules(parameters.read_committed, self.fail_on_data_loss)

    @property
    def _new_targets(self) -> NewTargets:
        return NewTargets(bool(self.create_target_topics), self.new_topic_partitions, self.on_refused_config)

    def _target(self, parameters: CopyParameters) -> Target:
        return Target(
            parameters.target_topic,
            parameters.target_topic_expr,
            parameters.preserve_partition,
            self.allow_same_topic,
            parameters.topic_map,
            parameters.dead_letter_topic,
        )

    def _item_of(self, context: Context, parameters: Mapping[str, Any]) -> str:
        """The item of a mapped task that this is; empty if it is not mapped.

        :param parameters: by name.
        """
        return mapped_item(context, parameters, KafkaToKafkaOperator)

    def _instance(self, context: Context, item: str) -> str:
        """What this task's runs are found by at the brokers of the target."""
        ti = context["ti"]
        called_id = "" if self.task_id == ti.task_id else self.task_id
        return instance_id(deployment_name(), ti.dag_id, ti.run_id, ti.task_id, item, called_id)

    def _client_id(self, context: Context) -> str:
        """By which brokers know the job's clients."""
        return f"airflow-kafka-spark-{context['ti'].dag_id}.{self.task_id}"

    def _title(self, context: Context) -> str:
        """What Spark's page shows of the task."""
        ti = context["ti"]
        index = "" if ti.map_index is None or ti.map_index < 0 else f", map index {ti.map_index}"
        return f"DAG {ti.dag_id}, task {self.task_id}, DAG run {ti.run_id}{index}"

    @contextmanager
    def _attempt(self, context: Context, parameters: CopyParameters, spark: SparkJobHook) -> Iterator[Attempt]:
        """Connect to both clusters, for all steps of this try."""
        # A job of an earlier try outlives a restart of the brokers, and so does the look for it.
        with connected(parameters, self.kafka_timeout, waits_for_start=self._is_resumed) as (source, sink):
            self._tokens.check(spark.cluster, source, sink)
            yield Attempt(context, parameters, spark, source, sink)

    def _logins(self, attempt: Attempt) -> AbstractContextManager[JobCredentials]:
        """The logins of the job while it runs."""
        store = TaskState(attempt.context, self.task_id)
        return self._tokens.logins(store, attempt.spark.cluster, attempt.source, attempt.sink)

    def _remember(self, attempt: Attempt) -> None:
        """Store the parameters for a retry; called before anything is submitted."""
        RequestStore(attempt.context, self.task_id).save(attempt.parameters.by_name())

    def _on_event(self, context: Context, event: JobEvent) -> None:
        if isinstance(event, JobStarted):
            self._announce_application(context, event)
        else:
            self.log.info("Progress: %s", event)

    def _check_counts(self, attempt: Attempt, planned: PlannedCopy, report: JobReport) -> list[str]:
        """As :func:`~airflow_provider_kafka_spark.operators.proof.check_counts`."""
        return check_counts(attempt.source, planned, report, allow_duplicates=self.allow_duplicates)

    def _ledger(self, context: Context, parameters: CopyParameters) -> TaskLedger:
        return TaskLedger(context, self.task_id, parameters, self._note_lineage)

    def _done(
        self,
        context: Context,
        ledger: TaskLedger,
        result: dict[str, Any],
        earlier: EarlierDelivery | None = None,
    ) -> dict[str, Any]:
        """The end of a task that has copied.

        :param earlier: what it delivered before it was cleared: no asset event announces the same records twice.
        """
        entry, is_news = dict(ledger.complete(result)), True
        if earlier is not None and earlier.announced:
            unannounced = earlier.unannounced(map(OffsetRange.parse, result["target_ranges"]))
            entry["target_ranges"] = KnownTopics.of_ranges(result["target_ranges"]).dicts(unannounced)
            is_news = bool(unannounced)
        if is_news and (result["records_written"] or result.get("finished_before")):
            announce(context, self, entry)
        elif any(not OffsetRange.parse(text).is_empty for text in (*entry["offset_ranges"], *entry["missing_ranges"])):
            self.outlets = record_without_records(context, self.outlets, entry)
        else:
            self._suppress_asset_events()
        count_copy(context, result)
        self.log.info("%s", totals(result))
        return short_result(result)

    def _check_size(self, plan: ReplayPlan) -> None:
        """:raises PlanTooLargeError: if it has more records than ``max_planned_records``."""
        if self.max_planned_records is not None and plan.planned_records > self.max_planned_records:
            raise PlanTooLargeError(
                f"A plan must have at most max_planned_records={self.max_planned_records:,} records; this one has up "
                f"to {plan.planned_records:,} in {len(plan.ranges):,} ranges. Correct what is read, or raise the limit."
            )

    def _skip_if_empty(self, plan: ReplayPlan) -> None:
        """:raises AirflowSkipException: if there was nothing to copy, nothing is missing, and ``on_empty`` says so."""
        if plan.is_empty and not plan.missing and self.on_empty == "skip":
            raise AirflowSkipException("No records in the requested ranges; on_empty='skip'.")

    def _done_planning(self, planned: PlannedCopy, result: dict[str, Any]) -> dict[str, Any]:
        """The end of a task that only planned."""
        self._suppress_asset_events()
        unchecked = []
        if self.use_delegation_token:
            unchecked.append("Only the copy creates delegation tokens, and knows whether they live long enough.")
        if self._is_stream:
            unchecked.append("Only the copy takes the checkpoint, which another run may be using.")
        result["warnings"][-1:-1] = unchecked
        # The table of the plan has the others. PLAN_ONLY is the last one.
        for warning in first_ten(result["warnings"][len(planned.plan.warnings) :]):
            self.log.warning("%s", warning)
        return short_result(result)

    def _return_stored_result(
        self,
        context: Context,
        ledger: TaskLedger,
        result: dict[str, Any],
        earlier: EarlierDelivery | None = None,
    ) -> dict[str, Any]:
        self.log.info(
            "An earlier try of this run delivered everything, and failed only after that. Its result is returned; "
            "Spark is not started."
        )
        return self._done(context, ledger, result, earlier)

    def _suppress_asset_events(self) -> None:
        # Airflow emits an event for each outlet of the running task, which is a copy of the DAG's task.
        self.outlets = []


def expressions_of(parameters: CopyParameters) -> dict[str, str]:
    """The author's SQL by the name of the parameter."""
    others = {name: getattr(parameters, name) for name in ("where", "target_topic_expr", "reject_when")}
    of_columns = {f"columns[{name!r}]": sql for name, sql in parameters.columns.items()}
    return {name: sql for name, sql in {**others, **of_columns}.items() if sql}
