"""The audit of a past copy: what it delivered, missed and duplicated, read from the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseXCom

from airflow_provider_kafka_spark.clients.permissions import check_topics
from airflow_provider_kafka_spark.core.audits.audit import AuditPlan, check_report, plan_audit, settled
from airflow_provider_kafka_spark.core.audits.audit_result import (
    raise_if_findings,
    result_of_audit,
    result_of_nothing,
    summary,
    table,
)
from airflow_provider_kafka_spark.core.audits.past_copy import PastCopy, parse_results
from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.declaration import AUDIT, names, read_in_dag, read_rendered, renderers
from airflow_provider_kafka_spark.core.errors import AuditFindingError
from airflow_provider_kafka_spark.core.shown_text import first_ten
from airflow_provider_kafka_spark.core.spark.options import check_client_classes
from airflow_provider_kafka_spark.core.spark.tuning import source_defaults
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import AuditJob, JobReport
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.memory import MemoryPlace
from airflow_provider_kafka_spark.operators.past_result import given_result
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.operators.task_try import connected
from airflow_provider_kafka_spark.toolchain.settings import ALLOW_CLIENT_CLASSES

if TYPE_CHECKING:
    from airflow.sdk import Context


class AuditReplayOperator(SparkJobOperator):
    """Say of each record that a past run has copied whether the target has it once, and as it was.

    The evidence is the provenance header in the target, or the segments in the result: source and target are read by a
    Spark job and compared record by record. Nothing is written to Kafka.

    :param of: the result of a task that has copied, ``copy.output``; that result as JSON text; a list of such results,
        such as those of a copy and of the replay of what it missed; or ``"dag_id.task_id"`` for the newest result of
        that task. (templated)
    :param source_conn_id: Kafka connection that the copy read from. (templated)
    :param target_conn_id: Kafka connection that it wrote to; the source's when None. (templated)
    :param read_to_end: read the target from where the run began up to its end, so that later copies of the same records
        are seen; otherwise only where the run wrote. (templated)
    :param fail_on_finding: fail if records are missing, duplicated or different; the result is pushed before.
        (templated)
    :param source_options: further options of Spark's Kafka source, for source and target. (templated)
    :param use_delegation_token: as for
        :class:`~airflow_provider_kafka_spark.operators.kafka_to_kafka.KafkaToKafkaOperator`. (templated)
    :param min_token_lifetime: timedelta, or seconds: fail before submission if such a token cannot live so long.
        (templated)
    :param kafka_timeout: seconds for each request to a broker. (templated)
    :param progress_seconds: seconds between two lines of progress in the log. (templated)

    Further parameters: :class:`~airflow_provider_kafka_spark.operators.spark_job.SparkJobOperator`.
    """

    template_fields: Sequence[str] = (*names(AUDIT), *SparkJobOperator.template_fields)
    template_fields_renderers = renderers(AUDIT)
    ui_color = "#e3ecf5"

    def __init__(
        self,
        *,
        of: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str,
        source_conn_id: str = "kafka_default",
        target_conn_id: str | None = None,
        read_to_end: bool = True,
        fail_on_finding: bool = True,
        source_options: dict[str, Any] | None = None,
        use_delegation_token: bool | str = False,
        min_token_lifetime: timedelta | float | None = None,
        kafka_timeout: float = 30.0,
        progress_seconds: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.of = of
        self.source_conn_id = source_conn_id
        self.target_conn_id = target_conn_id
        self.read_to_end = read_to_end
        self.fail_on_finding = fail_on_finding
        self.source_options = source_options
        self.use_delegation_token = use_delegation_token
        self.min_token_lifetime = min_token_lifetime
        self.kafka_timeout = kafka_timeout
        self.progress_seconds = progress_seconds
        read_in_dag(AUDIT, self)

    @no_retry_on_permanent_error
    def execute(self, context: Context) -> dict[str, Any]:
        """Audit, and return the result as the documentation gives it.

        :raises AirflowFailException: for non-retriable errors; of a finding, after the result was pushed.
        :raises KafkaSparkError: for retriable errors.
        """
        self._read_rendered()
        past = parse_results(given_result(context["ti"], self.of))
        if past.is_empty:
            self.log.info("The past run has copied no record; Spark is not started.")
            result = result_of_nothing(past)
        else:
            result = self._audit(context, past)
        # What audit.output["missing_ranges"] stands for is an XCom of this key.
        context["ti"].xcom_push(key="missing_ranges", value=result["missing_ranges"])
        if self.fail_on_finding:
            try:
                raise_if_findings(result)
            except AuditFindingError:
                context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=result)
                raise
        return result

    def _read_rendered(self) -> None:
        """:raises KafkaSparkError: if a parameter is malformed."""
        self._check_submit_types()
        read_rendered(AUDIT, self)
        self._read_tokens()
        if not ALLOW_CLIENT_CLASSES.flag():
            check_client_classes(self.source_options or {}, {})

    def _audit(self, context: Context, past: PastCopy) -> dict[str, Any]:
        spark = self._new_spark_hook(context, EXACTLY_ONCE)
        spark.check()
        clusters = connected(self.source_conn_id, self.target_conn_id, self.kafka_timeout, waits_for_start=False)
        options, memory = self.source_options or {}, MemoryPlace(context, self.task_id)
        with clusters as (source, sink):
            self._tokens.check(spark.cluster, source, sink)
            plan = planned_audit(past, source, sink, read_to_end=self.read_to_end)
            with self._logins(context, spark, source, sink) as logins, memory.watched():
                request = memory.careful(audit_request(plan, logins, options, self.progress_seconds), options)
                report = spark.run(request, lambda event: self._on_event(context, event), logins)
            result = proved_result(report, plan, source, sink)
        for warning in first_ten(result["warnings"], "more warnings in the result"):
            self.log.warning("%s", warning)
        self.log.info("Audit: %s.\n%s", summary(result), table(result))
        return result


def planned_audit(past: PastCopy, source: KafkaHook, sink: KafkaHook, *, read_to_end: bool) -> AuditPlan:
    """Where to look, by one look at each cluster.

    :raises KafkaSparkError: if the topics are not those of the past copy, or the logins may not read them.
    """
    topics = sorted({r.topic for r in past.ranges})
    source_state, target_state = (
        source.state(topics, operation="READ"),
        sink.state(past.target_topics, operation="READ"),
    )
    plan = plan_audit(past, source_state, target_state, read_to_end=read_to_end)
    check_topics(source, topics, "READ")
    check_topics(sink, past.target_topics, "READ")
    return plan


def audit_request(
    plan: AuditPlan, logins: JobCredentials, source_options: Mapping[str, str], progress_seconds: float
) -> AuditJob:
    """The request to the job."""
    past = plan.past
    return AuditJob(
        run_id=past.run_ids[0],
        plan_digest=plan.digest,
        ranges=past.ranges,
        spans=tuple(plan.source),
        transform=past.evidence.transform,
        source_options={
            "kafka.client.id": "airflow-kafka-spark-audit",
            **source_defaults(plan.source, read_committed=past.evidence.read_committed),
            **logins.source_options(),
            **source_options,
        },
        sink_options=logins.sink_options(),
        source_ids=dict(past.source_ids),
        progress_seconds=progress_seconds,
        run_ids=past.run_ids,
        target_ranges=plan.target,
        compares=past.compares,
        may_have_aged=tuple(f"{p.topic}:{p.partition}" for p in plan.may_have_aged),
        segments=past.segments,
    )


def proved_result(report: JobReport, plan: AuditPlan, source: KafkaHook, sink: KafkaHook) -> dict[str, Any]:
    """The result of a report that adds up, of topics that have stayed the same meanwhile.

    :raises KafkaSparkError: if one of them does not hold.
    """
    found = check_report(report, plan)
    topics = {r.topic for r in plan.past.ranges}
    target_state = sink.state(plan.past.target_topics)
    after = plan_audit(plan.past, source.state(topics), target_state, read_to_end=plan.read_to_end)
    return result_of_audit(report, *settled(found, plan, after))
