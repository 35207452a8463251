"""A copy without a worker slot: a trigger follows the job, and its end resumes the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE, given_flag
from airflow_provider_kafka_spark.core.errors import (
    JobReportForgedError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
    ProtocolError,
)
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.operators.task_try import TaskTry, login_options
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.yarn_rest import ResourceManager
from airflow_provider_kafka_spark.triggers.spark_application import (
    TIMED_OUT,
    DriverPodTrigger,
    SparkApplicationTrigger,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
    from airflow_provider_kafka_spark.core.wire.protocol import JobReport
    from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook

ClusterManager: TypeAlias = ResourceManager | KubernetesApi


class DeferrableOperator(SparkJobOperator):
    """The base of operators whose job a trigger can follow.

    :param deferrable: on YARN and Kubernetes in cluster mode: a trigger waits for the job's end, and no worker slot is
        held. None for Airflow's ``default_deferrable``, where it is possible.
    """

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deferrable = None if deferrable is None else given_flag(deferrable, "deferrable")
        #: Whether a trigger has followed this try's job to its end.
        self._follows_trigger = False

    @no_retry_on_permanent_error
    def resume(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Collect the report of the job that a trigger has followed.

        :param event: of the trigger.
        :raises AirflowTaskTimeout: if the task's ``execution_timeout`` is over; the job is then ended.
        """
        if event is not None and event.get("status") == TIMED_OUT:
            application_id = event["application_id"]
            ends = self._new_spark_hook(context, EXACTLY_ONCE).applications.end(application_id)
            raise AirflowTaskTimeout(
                f"execution_timeout={self.execution_timeout} is over; Spark application {application_id} "
                f"{'was ordered to end' if ends else 'may still run, see the log'}. A retry waits for its end, and "
                "writes only what is missing."
            )
        self._follows_trigger = True
        return self.execute(context)

    def _manager_for(self, spark: SparkJobHook, context: Context) -> ClusterManager | None:
        """What the trigger asks for the end of the job; None if this worker follows it.

        :raises OptionError: if the task is to be deferred and cannot be.
        """
        wanted = self.deferrable
        if wanted is None and not conf.getboolean("operators", "default_deferrable", fallback=False):
            return None
        hindrance = None if wanted is False else self._hindrance(spark, context)
        if wanted and hindrance is not None:
            raise OptionError(f"deferrable=True {hindrance}. Pass deferrable=False, or leave it out.")
        if wanted is False or hindrance is not None:
            return None
        try:
            return spark.applications.manager()
        except OptionError as error:
            if wanted:
                raise
            self.log.warning("[operators] default_deferrable is set, and the task cannot be deferred: %s", error)
            return None

    def _defer(
        self, context: Context, application_id: str, manager: ClusterManager, report_uri: str | None
    ) -> NoReturn:
        """Free the worker's slot until the application has ended; then Airflow calls :meth:`resume`."""
        deadline, began = None, getattr(context["ti"], "start_date", None)
        if self.execution_timeout is not None and began is not None:
            deadline = (began + self.execution_timeout).timestamp()
        self.log.info("A trigger waits for the end of Spark application %s; no worker slot is held.", application_id)
        trigger: SparkApplicationTrigger | DriverPodTrigger
        if isinstance(manager, ResourceManager):
            by_kerberos = manager.auth is not None
            trigger = SparkApplicationTrigger(application_id, manager.addresses, by_kerberos, deadline, report_uri)
        else:
            trigger = DriverPodTrigger(application_id, manager.access.to_json(), deadline, report_uri)
        self.defer(trigger=trigger, method_name="resume")
        raise AssertionError("defer() must raise")

    def _hindrance(self, spark: SparkJobHook, context: Context) -> str | None:
        """Why no trigger can follow the job."""
        deployment = spark.cluster.deployment
        if self.task_id != context["ti"].task_id:
            return "is for the task's own operator: one that is called within another task cannot be resumed"
        if deployment.driver_on_worker:
            return "needs a driver that does not end with the worker: deploy_mode='cluster' on YARN or Kubernetes"
        if deployment.manager is None:
            return "is for YARN and Kubernetes"
        if getattr(self, "use_delegation_token", False) not in (None, False, "spark"):
            return "leaves nobody to renew the job's own delegation token, for which use_delegation_token asks"
        if self.yarn_rm_auth is not None:
            return "cannot hand yarn_rm_auth to the triggerer, to which only plain values go"
        return None


def report_of_ended(task_try: TaskTry, remote: RemoteJob) -> JobReport | KafkaSparkError:
    """The report of a job that has ended, or why it proves nothing.

    :raises KafkaSparkError: if the storage does not answer.
    """
    try:
        report = task_try.spark.report_of(remote)
    except (JobReportForgedError, ProtocolError) as error:
        return error
    if report is None:
        return JobReportMissingError(
            "The Spark job ended without leaving its report, so nothing proves that records arrived (report "
            f"{remote.report_uri}). Look at the logs of its application on the cluster."
        )
    return report.error(login_options(task_try.source, task_try.sink)) or report
