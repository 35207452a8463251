"""The common base of the Kafka-to-Kafka operators: plan, submit, and succeed only if the collected report proves
delivery.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_kafka_spark.core.checks import (
    EXACTLY_ONCE,
    MISSING_ONLY,
    parse_reader,
)
from airflow_provider_kafka_spark.core.copies.batch_path import check_reader
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.declaration import (
    COMMON,
    TEXT,
    Decides,
    Declared,
    names,
    read,
    read_in_dag,
    read_rendered,
    renderers,
)
from airflow_provider_kafka_spark.core.copies.parameter_checks import check_names, check_parameters
from airflow_provider_kafka_spark.core.spark.options import check_client_classes
from airflow_provider_kafka_spark.core.topics.new_topics import FAIL_IF_REFUSED
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.metrics import count_retry
from airflow_provider_kafka_spark.operators.announcing import AnnouncingOperator
from airflow_provider_kafka_spark.operators.asset_events import LEDGER_OUTLETS
from airflow_provider_kafka_spark.operators.mapped_item import given_item, mapped_item
from airflow_provider_kafka_spark.operators.new_targets import NewTargets
from airflow_provider_kafka_spark.operators.task_try import TaskTry, connected, how_of, worker_options_of
from airflow_provider_kafka_spark.state.item_check import check_item
from airflow_provider_kafka_spark.state.parameter_store import ParameterStore
from airflow_provider_kafka_spark.toolchain.settings import ALLOW_CLIENT_CLASSES

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaToKafkaOperator(AnnouncingOperator):
    """Copy records from Kafka to Kafka through Spark. Use one of the subclasses, which define the records to read.

    If the task succeeds, every planned record that exists was read, and every record that passed ``where`` was written
    to the target and acknowledged by all in-sync replicas, as counted by the job itself. The exact offsets are fixed
    before Spark starts, and a retry of the task reuses them.

    With ``delivery="exactly_once"`` records are written in transactions, and a retry resumes from the progress that was
    committed with them. With ``"at_least_once"`` a retry reads the target back by the provenance header; without the
    header (``provenance="segments"`` or None) it writes everything again.

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
        with SQL or provenance headers, and ``"batches"`` otherwise, and where many small pieces share a task without
        SQL. (templated)
    :param delivery: ``exactly_once``: consumers that read committed see each record once, even after kills; needs
        transactions on the target's brokers. ``at_least_once`` if brokers or permissions do not allow them: a retry
        writes only what is missing, and duplicates are searched for when Spark has run a task again. (templated)
    :param allow_duplicates: report records that the target has more than once, instead of failing. (templated)
    :param isolation_level: ``read_committed`` leaves aborted records out, and reads nothing beyond the last stable
        offset; ``read_uncommitted`` does neither. (templated)
    :param fail_on_data_loss: aged-out offsets and recreated topics are an error; otherwise the
        result has them in ``missing_ranges``. (templated)
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

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.deferral.DeferrableOperator`.
    """

    #: Those of this class, and of subclasses all.
    _declared: ClassVar[Sequence[Declared]] = COMMON
    template_fields: Sequence[str] = (*names(COMMON), *AnnouncingOperator.template_fields)
    template_fields_renderers = renderers(COMMON)
    ui_color = "#f5e3d0"

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
        on_refused_config: str = FAIL_IF_REFUSED,
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
        super().__init__(outlets=outlets, **kwargs)
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

    @abstractmethod
    def _selection(self) -> dict[str, Any]:
        """The parameters that define the records to read, by name, as plain JSON with one form for each meaning.

        :raises KafkaSparkError: if one is malformed.
        """

    def _parameters(self, context: Context) -> CopyParameters:
        """The parameters of the run's first try, or else those of this one.

        :raises KafkaSparkError: if a parameter is malformed.
        """
        self._check_submit_types()
        self._read_rendered()
        self._read_tokens()
        now = dict[str, Any]()

        def requested() -> dict[str, Any]:
            now.update(self._parsed().by_name())
            return now

        self._requests = ParameterStore(context, self.task_id)
        self._is_given_again: Callable[[], bool] = lambda: self._requests.is_of(given_item(context))
        first = self._requests.resume(requested, self.log, as_stored=self._follows_trigger)
        self._is_resumed = bool(first)
        if self._is_resumed and not self._follows_trigger:
            count_retry(context)
        parameters = CopyParameters.from_names(first) if first else self._parsed()
        self._item = mapped_item(context, parameters.by_name(), KafkaToKafkaOperator)
        if first and now:
            item = mapped_item(context, now, KafkaToKafkaOperator)
            # An item may have templates, such as of the time, and a mapped group others.
            if item != self._item and not self._is_given_again():
                check_item(self._item, item)
        create, partitions = bool(self.create_target_topics), self.new_topic_partitions
        self._new_targets = NewTargets(create, partitions, self.on_refused_config)
        self._new_targets.check(parameters.transform.topic_expr)
        if not ALLOW_CLIENT_CLASSES.flag():
            check_client_classes(parameters.source_options, parameters.sink_options)
        return parameters

    def _read_rendered(self) -> None:
        """:raises InvalidInputError: if what each try takes as it is now, as a template renders it, is malformed."""
        read_rendered(self._declared, self, Decides.HOW, Decides.TRY)

    def _parsed(self) -> CopyParameters:
        """The parameters of this try, checked."""
        TEXT.read(self.spark_conn_id, "spark_conn_id")
        parameters = CopyParameters.of(read(self._declared, self, Decides.COPY), self._selection())
        check_parameters(parameters)
        check_reader(parse_reader(self.reader), parameters.transform)
        return parameters

    def _check_names(self, parameters: CopyParameters, spark_version: str) -> None:
        """:raises ExpressionError: if this Spark has no function of a name, or a record no such column."""
        for warning in check_names(parameters, spark_version):
            self.log.warning("%s", warning)

    @contextmanager
    def _new_try(self, context: Context, parameters: CopyParameters, spark: SparkJobHook) -> Iterator[TaskTry]:
        """Connect to both clusters, for all steps of this try."""
        # A job of an earlier try outlives a restart of the brokers, and so does the look for it.
        ids = parameters.source_conn_id, parameters.target_conn_id
        with connected(*ids, self.kafka_timeout, waits_for_start=self._is_resumed) as (source, sink):
            self._tokens.check(spark.cluster, source, sink)
            yield TaskTry(context, parameters, spark, source, sink, how_of(self), worker_options_of(self), self.log)

    def _remember(self, task_try: TaskTry) -> None:
        """Store the parameters for a retry; called before anything is submitted."""
        self._requests.save(task_try.parameters.by_name(), lambda: given_item(task_try.context))
