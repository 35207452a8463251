"""Submit a job to Spark, follow it, and return its report."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.errors import (
    EarlierJobUnknownError,
    JobKilledError,
    JobReportMissingError,
    StartNotRecordedError,
)
from airflow_provider_kafka_spark.core.spark.file_names import PROCEED
from airflow_provider_kafka_spark.core.wire.failure_causes import OUT_OF_MEMORY
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobProgress, JobStarted
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.state.seal import seal
from airflow_provider_kafka_spark.submission.applications import Applications
from airflow_provider_kafka_spark.submission.job_files import write_private
from airflow_provider_kafka_spark.submission.prepared_job import PreparedJob, prepare_job, report_uri_in
from airflow_provider_kafka_spark.submission.progress_file import followed_progress
from airflow_provider_kafka_spark.submission.report_storage import read_report, remove_shared_report
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from airflow_provider_kafka_spark.submission.yarn_rest import is_on_yarn
from airflow_provider_kafka_spark.toolchain.private_folder import strict_umask
from airflow_provider_kafka_spark.toolchain.temporary_folder import temporary_folder

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.submission.spark_submission import OnEvent, SparkSubmission

log = logging.getLogger(__name__)


class SparkJobHook(BaseHook):
    """Run one job on the cluster of a Spark connection and return its own report.

    :param spark_conn_id: a Spark connection, as the Spark provider has it: master, deploy mode, queue, Kerberos.
    :param kafka_connector: where Spark's Kafka connector comes from: None fetches the one of the Spark version in use
        and keeps it; a folder or glob of jars, a Maven coordinate, or ``"provided"`` if the cluster has it. The Spark
        connection's Extra can say the same as ``"kafka-connector"``.
    :param report_location: a folder, as URI, that driver and worker both reach; needed in cluster mode. Also
        ``"report-location"`` in the Extra.
    :param submit_options: further arguments of ``SparkSubmitHook``, such as ``conf`` or the application's ``name``.
    :param delivery: ``exactly_once``, or ``at_least_once``: then Spark must not run a task again.
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = "spark_default"

    def __init__(
        self,
        spark_conn_id: str = default_conn_name,
        *,
        kafka_connector: str | None = None,
        report_location: str | None = None,
        submit_options: Mapping[str, Any] | None = None,
        delivery: str = EXACTLY_ONCE,
    ) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id
        self.cluster = SparkCluster(
            spark_conn_id,
            kafka_connector=kafka_connector,
            report_location=report_location,
            submit_options={"name": "kafka-to-kafka", **(submit_options or {})},
            delivery=delivery,
        )
        self._submission: SparkSubmission | None = None
        self._killed = False
        self._progress: JobProgress | None = None
        self.applications = Applications(self.cluster, lambda: self._killed)

    def check(self, *, asks_cluster: bool = True) -> None:
        """Check everything that a submission needs, before anything is planned or started.

        :param asks_cluster: as there.
        :raises KafkaSparkError: as
            :meth:`~airflow_provider_kafka_spark.submission.spark_cluster.SparkCluster.check`.
        """
        self.cluster.check(asks_cluster=asks_cluster)

    def remote_job(self, run_id: str, instance: str, digest: str) -> RemoteJob | None:
        """How another try finds the job that is about to be submitted; None if its driver ends with this worker.

        :param digest: of the copy, see :attr:`PlannedCopy.digest`.
        """
        reports = self.cluster.report_folder
        if reports is None or self.cluster.deployment.manager is None:
            return None
        return RemoteJob(_new_tag(instance), report_uri_in(reports, run_id), digest)

    def run(
        self,
        request: JobRequest,
        on_event: OnEvent,
        logins: JobCredentials,
        remote: RemoteJob | None = None,
    ) -> JobReport:
        """Submit, follow, and return the job's report.

        :param request: ``report_uri``, ``event_token`` and ``report_key`` are filled in here.
        :param on_event: called for each event of the running job.
        :param logins: the logins of the request's options, for the files and Java properties that they need.
        :param remote: from :meth:`remote_job`; stored by now.
        :raises JobFailedError: if the job reports a failure.
        :raises JobFolderError: if the job's files cannot be written.
        :raises StartNotRecordedError: if ``on_event`` fails at the start of the application, which is then stopped.
        :raises JobReportMissingError: if it ended without a report.
        :raises JobReportForgedError: if another process wrote the report.
        :raises JobKilledError: if :meth:`kill` ended it.
        """
        with temporary_folder() as folder:
            request, prepared, submission = self._prepare(request, on_event, logins, folder, remote)
            in_cluster = not self.cluster.deployment.driver_on_worker
            with followed_progress(prepared.report_uri, on_event) if in_cluster else nullcontext():
                failure = self._submit(submission, prepared)
                if prepared.pod and failure is None:
                    self._follow_pod(submission, prepared)
                elif in_cluster and failure is not None:
                    self._follow_on_yarn(submission, prepared.report_uri)
            return _collected(request, prepared.report_uri, submission, failure, is_shared=in_cluster)

    def start(self, request: JobRequest, on_event: OnEvent, logins: JobCredentials, remote: RemoteJob) -> str:
        """As :meth:`run`, but return when the cluster has the application; nobody waits for its end.

        :return: its id.
        """
        with temporary_folder() as folder:
            _, prepared, submission = self._prepare(request, on_event, logins, folder, remote, waits=False)
            failure = self._submit(submission, prepared)
            application_id = submission.application_id
        if application_id is None and failure is None:
            # The worker's logging settings of Spark may hide it.
            application_id = self.applications.find(remote.tag)
        if failure is not None and is_on_yarn(submission.started_id or ""):
            log.warning("YARN has application %s, though spark-submit failed: %s", application_id, failure)
            failure = None
        if failure is not None or application_id is None:
            raise JobReportMissingError(
                f"spark-submit must hand the job to {self.cluster.deployment.manager}; no trigger can follow it "
                "(application "
                f"{application_id or 'unknown'}). {_cause(submission, failure)}"
            ) from failure
        return application_id

    def _prepare(
        self,
        request: JobRequest,
        on_event: OnEvent,
        logins: JobCredentials,
        folder: Path,
        remote: RemoteJob | None,
        *,
        waits: bool = True,
    ) -> tuple[JobRequest, PreparedJob, SparkSubmission]:
        """
        :return: with the request as the job gets it, apart from secrets.
        """
        key, uri, tag = secrets.token_hex(32), "", ""
        if remote is not None:
            key, uri, tag = _report_key(remote), remote.report_uri, remote.tag
        elif not self.cluster.deployment.driver_on_worker:
            tag = _new_tag(request.run_id)
        proceed = str(folder / PROCEED) if self.cluster.deployment.driver_on_worker else None
        request = replace(
            request, event_token=secrets.token_hex(16), report_key=key, report_uri=uri, proceed_file=proceed
        )
        prepared = prepare_job(self.cluster, request, logins, folder, tag, waits=waits)
        # A DAG file must not pay for the Spark provider, which imports Kubernetes' clients where they are installed.
        from airflow_provider_kafka_spark.submission.spark_submission import SparkSubmission

        # The provider's way to follow a driver's pod is not used.
        options = {name: value for name, value in prepared.options.items() if name != "track_driver_via_k8s_api"}
        self._submission = SparkSubmission(
            self.spark_conn_id,
            self.cluster.spark_home,
            partial(_record, partial(self._note, on_event), proceed),
            folder,
            is_killed=lambda: self._killed,
            event_token=request.event_token,
            environment=prepared.environment,
            applications=self.cluster.applications(prepared.pod),
            tag=tag,
            **options,
        )
        return request, prepared, self._submission

    def _note(self, on_event: OnEvent, event: JobEvent) -> None:
        """Pass on an event, and keep the progress for the error of a job that is killed."""
        if isinstance(event, JobProgress):
            self._progress = replace(event, rate=None)
        on_event(event)

    def _submit(self, submission: SparkSubmission, prepared: PreparedJob) -> Exception | None:
        """Run ``spark-submit`` to its end, which is that of the job.

        :return: its failure; the report says more about it.
        """
        failure: Exception | None = None
        if not self._killed:
            try:
                submission.submit(
                    prepared.script, start_new_session=True, cwd=prepared.working_folder, umask=strict_umask()
                )
                if prepared.pod:
                    submission.start_pod(prepared.secret)
            except (AirflowException, RuntimeError) as error:
                failure = error
                if prepared.pod:
                    # Without its Secret the driver never starts.
                    submission.delete_pod()
            except StartNotRecordedError:
                # In cluster mode it would continue, and a retry would not know about it.
                submission.on_kill()
                raise
            finally:
                submission.end()
        if self._killed:
            raise _killed(submission, self._progress)
        return failure

    def report_of(self, remote: RemoteJob) -> JobReport | None:
        """The report of a job that has ended, or None if it left none.

        :raises KafkaSparkError: if the report cannot be read, or is not the job's.
        """
        text = read_report(remote.report_uri)
        if text is None:
            return None
        return JobReport.from_json(verified(text, _report_key(remote)))

    def remove_report(self, remote: RemoteJob) -> None:
        """Remove what a job has left that was judged: its report, and on Kubernetes its Secret."""
        remove_shared_report(remote.report_uri)
        self._remove_secret(remote.tag)

    def _remove_secret(self, name: str) -> None:
        if self.cluster.kubernetes is None:
            return
        try:
            self.cluster.kubernetes.delete_secret(name)
        except RuntimeError as error:
            self.log.warning("The Secret %s goes only with its pod, to which it belongs: %s", name, error)

    def _follow_pod(self, submission: SparkSubmission, prepared: PreparedJob) -> None:
        """Wait for the end of the driver that this try has started."""
        try:
            self.applications.follow(submission.applications, str(submission.application_id), "Kubernetes", "this try")
        except BaseException:
            # Another try finds it while it ends.
            submission.delete_pod()
            raise
        finally:
            self._remove_secret(prepared.pod)

    def _follow_on_yarn(self, submission: SparkSubmission, report_uri: str) -> None:
        """Wait for the end of an application whose ``spark-submit`` failed, unless its report says that it has ended:
        YARN runs it on if only ``spark-submit`` was killed, or lost its connection.
        """
        application_id = submission.application_id or ""
        if not is_on_yarn(application_id) or read_report(report_uri) is not None:
            return
        log.info("spark-submit failed; application %s may still run.", application_id)
        try:
            self.applications.wait_for(application_id, "this try")
        except EarlierJobUnknownError as error:
            log.warning("The report is taken as it is: %s", error)

    def page_after_end(self, application_id: str) -> str | None:
        """The page of an application after its end, on the history server or on YARN, or None."""
        if self.cluster.history_server is not None:
            return f"{self.cluster.history_server}/history/{application_id}/"
        return self.cluster.applications().page(application_id)

    def kill(self) -> None:
        """Stop the job wherever it runs; ``run`` then raises."""
        self._killed = True
        if self._submission is not None:
            self._submission.on_kill()


def _collected(
    request: JobRequest, uri: str, submission: SparkSubmission, failure: Exception | None, *, is_shared: bool
) -> JobReport:
    """The report of a job that has ended.

    :param failure: of its submission.
    :param is_shared: the report is where the driver of another machine has left it, and is removed.
    """
    text = read_report(uri)
    if text is None:
        raise JobReportMissingError(
            f"The Spark job ended without leaving its report, so nothing proves that records arrived (application "
            f"{submission.application_id or 'unknown'}, report {uri}). {_cause(submission, failure)}"
        ) from failure
    report = JobReport.from_json(verified(text, request.report_key))
    if is_shared:
        remove_shared_report(uri)
    error = report.error((request.source_options, request.sink_options))
    if error is not None:
        raise error from failure
    return report


def _killed(submission: SparkSubmission, progress: JobProgress | None) -> JobKilledError:
    had_read = "" if progress is None else f"; it had read {progress}"
    return JobKilledError(
        f"The task was killed; its Spark job {submission.fate} (application {submission.application_id or 'not known'}"
        f"{had_read}). What it had written stays written; a retry writes only what is missing. With "
        "delivery='at_least_once' this needs provenance='headers'."
    )


def _report_key(remote: RemoteJob) -> str:
    """The key of its report's MAC: each worker can make it again, and it is stored nowhere."""
    return seal(["report", remote.tag, remote.report_uri])


def _new_tag(of: str) -> str:
    """A name that an application on YARN and a pod may have."""
    return f"kafka-spark-{of}-{secrets.token_hex(4)}"


def _record(on_event: OnEvent, proceed: str | None, event: JobEvent) -> None:
    """Pass on an event, and let the driver proceed when its start is recorded.

    :raises StartNotRecordedError: if it is not.
    """
    if not isinstance(event, JobStarted):
        on_event(event)
        return
    try:
        on_event(event)
    except Exception as error:
        raise StartNotRecordedError(
            f"Airflow must record the start of Spark application {event.application_id}, so that a retry can wait for "
            f"its end; got {error!r}. The job was stopped{', before it wrote anything' if proceed else ''}. "
            "Check Airflow's API server; a retry submits the job again."
        ) from error
    if proceed is not None:
        write_private(Path(proceed), b"")


def _cause(submission: SparkSubmission, failure: Exception | None) -> str:
    tail = submission.log_tail
    if submission.pod_state is not None:
        return f"Its pod is {submission.pod_state}; 'kubectl logs' shows what the driver said, while the pod is there."
    if "java.lang.OutOfMemoryError" in tail:
        return f"{OUT_OF_MEMORY}{tail}"
    if "ClassNotFoundException: org.apache.hadoop" in tail or "HADOOP_CONF_DIR" in tail:
        return f"Spark could not reach its cluster: is HADOOP_CONF_DIR set for the worker?{tail}"
    if failure is None:
        return f"spark-submit ended well.{tail}"
    # The Spark provider's errors have the same lines since 6.3.2.
    has_tail = tail.partition(":")[0] in str(failure)
    return f"spark-submit ended with: {failure}{'' if has_tail else tail}"
