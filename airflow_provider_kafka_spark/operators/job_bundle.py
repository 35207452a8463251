"""A planned copy as files and properties, for a job that another operator submits, and the proof of its report."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_kafka_spark.clients.run_mark import judge_run, remove_progress
from airflow_provider_kafka_spark.core.checks import MISSING_ONLY
from airflow_provider_kafka_spark.core.copies.copy_parameters import CopyParameters
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.errors import (
    BrokerError,
    InvalidInputError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
)
from airflow_provider_kafka_spark.core.offsets.compact_result import short_result
from airflow_provider_kafka_spark.core.spark.file_names import REQUEST
from airflow_provider_kafka_spark.core.wire.codec import decode, encode
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest, Submission
from airflow_provider_kafka_spark.core.wire.report_mac import verified
from airflow_provider_kafka_spark.operators.proof import proved_result, recreated_target
from airflow_provider_kafka_spark.operators.task_try import TaskTry, connected, login_options
from airflow_provider_kafka_spark.state.seal import is_sealed, seal
from airflow_provider_kafka_spark.submission.bundle_files import (
    BundleFolder,
    bundle_contents,
    bundle_properties,
    check_report_location,
    read_request,
    remove_bundle,
    write_bundle,
)
from airflow_provider_kafka_spark.submission.prepared_job import report_uri_in
from airflow_provider_kafka_spark.submission.report_storage import read_report
from airflow_provider_kafka_spark.toolchain.spark_home import connector_coordinates

log = logging.getLogger(__name__)

_VERSION = 2
_CONTENTS = ("files", "secrets")
_SEAL = "seal"
_SPARK_VERSION = re.compile(r"\d+\.\d+\.\d+[\w.-]*", re.ASCII)
_SCALA_VERSION = re.compile(r"2\.\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobBundle:
    """A copy that is planned, for a Spark job that another operator submits. ``operator.bundle()`` makes it.

    :param script: the file that Spark runs, as a path or URI in the folder of the job.
    :param arguments: of the script.
    :param py_files: for ``--py-files``.
    :param attached: for ``--files``; empty if driver and executors have the folder at its path.
    :param properties: Spark's properties, without secrets. All of them must be set.
    :param packages: Maven coordinates of Spark's Kafka connector.
    :param report_uri: where the job leaves its report.
    :param planned: what is copied.
    :param submission: as it is stored with the task.
    :param kafka_timeout: seconds for each request to a broker.
    :param names: of all files.
    :param request_digest: SHA-256 of the request, which has the key of the report.
    :param files: contents of the files that anybody may read, by name: script and code.
    :param secrets: contents of the files that only the job and this worker may read. **Secret.**
    """

    script: str
    arguments: tuple[str, ...]
    py_files: tuple[str, ...]
    attached: tuple[str, ...]
    properties: Mapping[str, str]
    packages: tuple[str, ...]
    report_uri: str
    planned: PlannedCopy = field(repr=False)
    submission: Submission
    kafka_timeout: float
    names: tuple[str, ...]
    request_digest: str
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def write(self, folder: str) -> None:
        """Write all files with mode 0600, in place of those of an earlier try.

        :param folder: the folder of the job, as a path or URI that this worker reaches. It is created if it does not
            exist; nobody else may be able to write a path, and should be able to read it.
        :raises JobFolderError: if they cannot be written.
        """
        write_bundle({**self.files, **self.secrets}, folder)

    def remove(self, folder: str) -> None:
        """Remove all files, when the report is proved or the job is given up.

        :raises JobFolderError: if one cannot be removed.
        """
        remove_bundle(self.names, folder)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON without the contents of the files, and so without secrets; :meth:`from_json` reads it back.

        Another operator that takes its arguments from it, by an XCom, runs what whoever may write that XCom has put
        there: only :meth:`from_json` knows whether it was changed.
        """
        plain = encode(replace(self, files={}, secrets={}), _VERSION)
        content = {name: value for name, value in plain.items() if name not in _CONTENTS}
        return {**content, _SEAL: seal(["bundle", content])}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], folder: str) -> JobBundle:
        """The bundle in another task. It has no contents but the request, which has the key of the report.

        :param value: from :meth:`to_json`.
        :param folder: that :meth:`write` wrote to.
        :raises ProtocolError: if it is none of this version.
        :raises InvalidInputError: if it was changed, or the folder does not have the request any more, or has another
            one.
        """
        remedy = "Pass it as to_json() gave it, to the same version of airflow-provider-kafka-spark."
        content = {name: item for name, item in value.items() if name != _SEAL} if isinstance(value, Mapping) else {}
        whole = {**content, **{name: {} for name in _CONTENTS}} if content else value
        bundle = decode(cls, whole, version=_VERSION, name="A bundle", remedy=remedy)
        if not is_sealed(value.get(_SEAL), ["bundle", content]):
            raise InvalidInputError(
                "A bundle must be as to_json() of this deployment gave it; this one was changed, so it proves nothing. "
                "Clear the task that made it, and find out who may write its XComs."
            )
        request = read_request(folder)
        if _digest(request) != bundle.request_digest:
            raise InvalidInputError(
                f"The folder {folder!r} must have the request that the bundle was written with; it has another one, so "
                "its key proves no report. A later try wrote there, or somebody else: check who may write to the "
                "folder, and clear the task that made the job's files."
            )
        return replace(bundle, secrets={REQUEST: request})

    def read_report(self) -> str | None:
        """The text of the job's report, or None if it left none.

        :raises ReportLocationError: if Airflow cannot reach that kind of storage.
        :raises JobReportMissingError: if the storage fails repeatedly.
        """
        return read_report(self.report_uri)

    def prove(self, report: str | None) -> dict[str, Any]:
        """Compare the report of the job, which has ended, with the plan, and tell the target's brokers the judgement.

        It may be called again: the same report proves the same.

        :param report: from :meth:`read_report`.
        :return: the result, as an operator returns it.
        :raises JobReportMissingError: if there is no report.
        :raises JobReportForgedError: if something else than the job wrote or changed it.
        :raises BrokerError: if a broker does not tell; the same call may prove it later.
        :raises KafkaSparkError: the failure that it reports, or why it does not prove that everything was delivered.
        """
        if report is None:
            raise JobReportMissingError(
                f"The Spark job must leave its report at {self.report_uri}; there is none, so nothing proves that "
                "records arrived. Look at the logs of its driver. To copy what is missing, clear the task that made "
                "the job's files."
            )
        found = JobReport.from_json(verified(report, self._report_key))
        planned = self.planned
        ids = planned.parameters.source_conn_id, planned.parameters.target_conn_id
        with connected(*ids, self.kafka_timeout) as (source, sink):
            failure = found.error(login_options(source, sink))
            if failure is not None:
                raise failure
            of_run = (planned.instance, self.submission.number, found.run_id, found.target_topics)
            try:
                gone = recreated_target(found, sink.state(found.target_topics).topics)
                if gone is not None:
                    raise gone
                result = proved_result(source, planned, found)
            except BrokerError:
                # No answer is no verdict.
                raise
            except KafkaSparkError:
                judge_run(sink, *of_run, proved=False)
                raise
            judge_run(sink, *of_run, proved=True, leaves=found.leaves_mark)
            remove_progress(sink, found.progress_groups)
        counts = (f"{result[name]:,}" for name in ("records_read", "records_written", "gaps"))
        log.info("Delivered: %s records read, %s written, %s offsets without a record.", *counts)
        return short_result(result)

    @property
    def _report_key(self) -> str:
        if REQUEST not in self.secrets:
            raise InvalidInputError(
                f"secrets must have {REQUEST}, which has the key of the report. Take the bundle as bundle() or "
                "from_json() gave it."
            )
        return JobRequest.from_json(self.secrets[REQUEST].decode()).report_key


def _digest(request: bytes) -> str:
    return hashlib.sha256(request).hexdigest()


def check_bundled(parameters: CopyParameters, use_delegation_token: object, on_rerun: str, *, plan_only: bool) -> None:
    """Check that another operator may submit the job.

    :raises OptionError: if a parameter needs a worker that follows the job, or that knows its end.
    """
    if not parameters.is_exactly_once:
        raise OptionError(
            "delivery must be 'exactly_once' where another operator submits the job: without transactions nothing "
            f"keeps two jobs from writing the same records; got {parameters.delivery!r}. Leave it out."
        )
    if use_delegation_token not in (None, False):
        raise OptionError(
            "use_delegation_token must be False where another operator submits the job: no worker would renew the "
            "token while the job runs. Leave it out; the job logs in as the connections do."
        )
    if on_rerun != MISSING_ONLY:
        raise OptionError(
            "on_rerun must be 'missing_only' where another operator submits the job, since this task does not learn of "
            f"the delivery; got {on_rerun!r}. Leave it out."
        )
    if plan_only:
        raise OptionError("plan_only=True makes no job, and bundle() makes one. Leave one of the two out.")


def check_not_empty(plan: ReplayPlan) -> None:
    """:raises AirflowSkipException: if there is nothing to copy."""
    if plan.is_empty:
        gone = sum(m.offset_range.size for m in plan.missing)
        raise AirflowSkipException(
            "No records in the requested ranges, so there is no job for another operator"
            + (f"; {gone:,} requested offsets are no longer there." if gone else ".")
        )


@dataclass(frozen=True, slots=True)
class BundlePlace:
    """Where a job runs that another operator submits, parsed and checked.

    :param folder: of its files.
    :param reports: folder of its report, as URI.
    :param packages: coordinates of its connector.
    """

    folder: BundleFolder
    reports: str
    packages: tuple[str, ...]

    @classmethod
    def parse(cls, folder: str, report_location: str | None, spark_version: str, scala_version: str) -> BundlePlace:
        """
        :raises KafkaSparkError: if one is malformed.
        """
        for name, pattern, value, example in (
            ("spark_version", _SPARK_VERSION, spark_version, "4.0.0"),
            ("scala_version", _SCALA_VERSION, scala_version, "2.13"),
        ):
            if not isinstance(value, str) or pattern.fullmatch(value) is None:
                raise OptionError(
                    f"{name} must be that of the cluster, such as {example!r}; got {value!r}. Correct it."
                )
        packages = connector_coordinates(spark_version, scala_version)
        return cls(BundleFolder.parse(folder), check_report_location(report_location), packages)

    def bundle(
        self,
        task_try: TaskTry,
        planned: PlannedCopy,
        submission: Submission,
        conf: Mapping[str, Any],
        progress_seconds: float,
    ) -> JobBundle:
        """The bundle of a copy whose submission is stored.

        :param conf: of the operator.
        """
        folder = self.folder
        logins = self.logins(task_try)
        request = replace(
            planned.request(submission, logins, progress_seconds),
            report_uri=report_uri_in(self.reports, planned.run_id),
            # No worker reads the events. They are in the driver's log, where the token is no secret.
            event_token=planned.run_id,
            report_key=secrets.token_hex(32),
        )
        files, private = bundle_contents(request, logins, folder)
        script, *modules = files
        return JobBundle(
            script=folder.uri_of(script),
            arguments=(folder.argument(REQUEST),),
            py_files=tuple(map(folder.uri_of, modules)),
            attached=tuple(map(folder.uri_of, private)) if folder.is_sent else (),
            properties=bundle_properties(conf, logins),
            packages=self.packages,
            report_uri=request.report_uri,
            planned=planned,
            submission=submission,
            kafka_timeout=task_try.source.timeout,
            names=(*files, *private),
            request_digest=_digest(private[REQUEST]),
            files=files,
            secrets=private,
        )

    def logins(self, task_try: TaskTry) -> JobCredentials:
        """Of the connections: nobody would renew a delegation token."""
        return JobCredentials(
            task_try.source.config, task_try.sink.config, by_name=True, folder=self.folder.login_folder
        )
