"""Submit a job to Spark, follow it, and bring back its report."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import (
    ALLOWED_SPARK_BINARIES,
    DEFAULT_SPARK_BINARY,
)
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from airflow_provider_kafka_spark.core.errors import (
    ConnectionConfigError,
    EarlierJobUnknownError,
    JobFailedError,
    JobKilledError,
    JobReportMissingError,
    OptionError,
    ReportLocationError,
    error_named,
)
from airflow_provider_kafka_spark.core.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.core.submission.failure_causes import redact
from airflow_provider_kafka_spark.core.submission.file_names import LOGINS, REPORT
from airflow_provider_kafka_spark.core.submission.java_properties import format_properties
from airflow_provider_kafka_spark.core.submission.job_logins import JobLogins
from airflow_provider_kafka_spark.core.submission.paths import absolute_paths
from airflow_provider_kafka_spark.core.submission.redaction import REDACTION
from airflow_provider_kafka_spark.core.submission.secret_references import by_reference
from airflow_provider_kafka_spark.core.submission.tuning import is_small, spark_defaults
from airflow_provider_kafka_spark.hooks.kafka_jvm import kerberos_properties
from airflow_provider_kafka_spark.hooks.programs.class_archive import ClassArchive
from airflow_provider_kafka_spark.hooks.programs.connector import PROVIDED, client_jars, connector_jars
from airflow_provider_kafka_spark.hooks.programs.java import find_java
from airflow_provider_kafka_spark.hooks.programs.spark_home import SparkHome, find_spark_home
from airflow_provider_kafka_spark.hooks.submission.job_files import (
    copy_private,
    job_folder,
    job_script,
    write_code,
    write_private,
    write_request,
)
from airflow_provider_kafka_spark.hooks.submission.remote_path import shared_path
from airflow_provider_kafka_spark.hooks.submission.spark_properties import properties_of
from airflow_provider_kafka_spark.hooks.submission.spark_submission import OnEvent, SparkSubmission

#: Where the Spark connection may name the connector, in place of the operator's argument.
_CONNECTOR_EXTRA = "kafka-connector"
_REPORT_LOCATION_EXTRA = "report-location"
#: Records would be written twice if Spark ran a writing task again: the sink is at-least-once.
_ONE_ATTEMPT = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.yarn.maxAppAttempts": "1",
}
_DEFAULT_CONF = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    # A copy has no shuffle to adapt, and planning one costs a small job some tenths of a second.
    "spark.sql.adaptive.enabled": "false",
}
#: On one machine heartbeats cost nothing, and progress is known by them.
_LOCAL_CONF = {"spark.executor.heartbeatInterval": "2s"}
#: The first compiler alone starts a JVM in about 70 % of the time.
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
_QUERY_SECONDS = 5.0
#: How long YARN may stay without an answer, as when its ResourceManager is started again.
_MOST_OUTAGE_SECONDS = 600.0


class SparkJobHook(BaseHook):
    """Run one job on the cluster of a Spark connection and return its own report.

    :param spark_conn_id: a Spark connection, as the Spark provider has it: master, deploy mode, queue, Kerberos.
    :param kafka_connector: where Spark's Kafka connector comes from: None fetches the one of the Spark version in use and keeps it; a folder or glob of jars, a
        Maven coordinate, or ``"provided"`` if the cluster has it. The Spark connection's Extra can say the same as ``"kafka-connector"``.
    :param report_location: a folder, as URI, that driver and worker both reach; needed in cluster mode. Also ``"report-location"`` in the Extra.
    :param submit_options: what else ``SparkSubmitHook`` takes, such as ``conf`` or ``driver_memory``.
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = "spark_default"
    hook_name = "Spark job"

    def __init__(
        self,
        spark_conn_id: str = default_conn_name,
        *,
        kafka_connector: str | None = None,
        report_location: str | None = None,
        submit_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id
        self._kafka_connector = kafka_connector
        self._report_location = report_location
        self._submit_options = dict(submit_options or {})
        self._submission: SparkSubmission | None = None
        self._killed = False

    def check(self) -> None:
        """Find everything a submission needs, before anything is planned or started.

        :raises ConnectionConfigError: if the Spark connection is missing.
        :raises SparkSubmitNotFoundError: if there is no ``spark-submit``.
        :raises JavaNotFoundError: if there is no Java, or one too old for this Spark.
        :raises JarError: if the connector is not to be had or cannot be read.
        :raises ReportLocationError: in cluster mode, if no ``report_location`` is given.
        :raises OptionError: if ``conf`` asks for what would write records twice.
        """
        self._check_conf()
        home = self.spark_home
        find_java(home.minimum_java)
        self._connector_jars  # noqa: B018 - the jars are fetched here, before anything else happens
        self._report_folder  # noqa: B018

    def run(self, request: JobRequest, job: str, on_event: OnEvent, logins: JobLogins) -> JobReport:
        """Submit, follow, and return the job's report.

        :param request: ``report_uri`` is filled in here.
        :param job: name of the module in ``jobs`` that runs.
        :param on_event: called for what the job says while it runs.
        :param logins: what the request's options log in with, for the files and Java properties that this needs.
        :raises JobFailedError: if the job reports a failure.
        :raises JobReportMissingError: if it ended without a report.
        :raises JobKilledError: if :meth:`kill` ended it.
        """
        with job_folder() as folder:
            cluster = self._report_folder
            report_uri = (
                f"{cluster.rstrip('/')}/{request.run_id}-{time.time_ns()}.json" if cluster else str(folder / REPORT)
            )
            owner = None if cluster else os.getpid()
            referring, logins_file = self._without_secrets(request, folder)
            request_file = write_request(folder, replace(referring, report_uri=report_uri, owner_pid=owner))
            options = self._options(folder, request_file, logins, logins_file)
            archive = self._class_archive(options)
            submission = self._submission = SparkSubmission(
                self.spark_conn_id,
                self.spark_home,
                on_event,
                folder,
                is_killed=lambda: self._killed,
                environment=self._jvm_environment(request, archive, folder, logins),
                **options,
            )
            failure: Exception | None = None
            if not self._killed:
                try:
                    where = self._folder_of(logins, logins_file, folder)
                    submission.submit(str(job_script(job)), start_new_session=True, cwd=where)
                except (AirflowException, RuntimeError) as error:
                    failure = error
                finally:
                    submission.end()
            if self._killed:
                raise JobKilledError(
                    f"The task was killed, and its Spark job with it (application {submission.application_id or 'not yet known'}). What it had "
                    f"written stays written; a retry writes only what is missing where provenance_headers=True."
                )
            report = self._report(request, report_uri, bool(cluster), submission, failure)
            if archive is not None and failure is None:
                archive.keep(folder)
            return report

    def wait_for_earlier(self, application_id: str) -> None:
        """Return when the application of an earlier try has ended, whose worker may have died before it.

        Otherwise two jobs would write the same records side by side. Only YARN is asked: a local driver, or one in client mode, ends with its worker.

        One that YARN does not know has ended. An outage of YARN is waited for, up to ten minutes at a stretch.

        :raises EarlierJobUnknownError: if YARN does not tell, or the worker does not know whom to ask.
        :raises JobKilledError: if :meth:`kill` is called meanwhile; the application is then killed.
        """
        if not application_id.startswith("application_"):
            return
        with job_folder() as folder:
            submission = self._submission = SparkSubmission(
                self.spark_conn_id,
                self.spark_home,
                lambda _: None,
                folder,
                is_killed=lambda: self._killed,
                **self._submit_options,
            )
            answered = time.monotonic()
            while not self._killed:
                try:
                    status = submission.status_on_yarn(application_id)
                except (RuntimeError, ValueError) as error:
                    # Where no address is known, there will be none later.
                    if isinstance(error, ValueError) or time.monotonic() - answered >= _MOST_OUTAGE_SECONDS:
                        raise EarlierJobUnknownError(
                            f"YARN must tell whether application {application_id} of an earlier try has ended: if it still ran, both would write the same records. It does not tell ({error}). Check "
                            f"that the worker reaches YARN's ResourceManager: 'yarn_resourcemanager_webapp_address' in the Extra of connection {self.spark_conn_id!r}, such as 'http://rm.example.com:8088', "
                            f"or yarn-site.xml in HADOOP_CONF_DIR. A further try asks again, and goes on once YARN says that the application has ended ('yarn application -kill {application_id}' "
                            f"ends it) or that it knows of none."
                        ) from error
                    self.log.warning("YARN does not tell about application %s: %s", application_id, error)
                else:
                    answered = time.monotonic()
                    if status in (None, "SUCCEEDED", "FAILED"):
                        how = status or "YARN does not know it"
                        self.log.info("Application %s of an earlier try has ended: %s.", application_id, how)
                        return
                    self.log.info(
                        "Application %s of an earlier try is %s; waiting for its end.", application_id, status
                    )
                time.sleep(_QUERY_SECONDS)
            submission.kill_application(application_id)
            raise JobKilledError(f"The task was killed, and with it application {application_id} of an earlier try.")

    def check_obtains_tokens(self) -> None:
        """Refuse where Spark itself does not ask for Kafka's delegation tokens.

        :raises OptionError: on a master other than YARN and Kubernetes, and for a proxy user: brokers give tokens to the one who asks only (KIP-48), so Spark refuses that on the cluster.
        """
        if not self._master.startswith(("yarn", "k8s")):
            raise OptionError(
                f"use_delegation_token='spark' needs YARN or Kubernetes, where Spark itself obtains tokens; the master of connection {self.spark_conn_id!r} is {self._master!r}. Use True: then the "
                f"worker makes a token, and it works everywhere."
            )
        proxy_user = self._submit_options.get("proxy_user")
        if proxy_user:
            raise OptionError(
                f"use_delegation_token='spark' and proxy_user={proxy_user!r} cannot go together: a broker gives a delegation token only to the one who asks, so Spark obtains none for a proxy user. Leave "
                f"proxy_user out, or use True: then the token is that of the Kafka connection's login."
            )

    def kill(self) -> None:
        """Stop the job wherever it runs; ``run`` then raises."""
        self._killed = True
        if self._submission is not None:
            self._submission.on_kill()

    @cached_property
    def spark_home(self) -> SparkHome:
        binary = self._submit_options.get("spark_binary") or self._extra.get("spark-binary") or DEFAULT_SPARK_BINARY
        if binary not in ALLOWED_SPARK_BINARIES:
            raise OptionError(
                f"spark_binary must be one of {ALLOWED_SPARK_BINARIES}, as the Spark provider has it; got {binary!r}. Its folder is found by SPARK_HOME or the PATH."
            )
        return find_spark_home(binary)

    @cached_property
    def _connection(self) -> Any:
        try:
            return self.get_connection(self.spark_conn_id)
        except AirflowNotFoundException as error:
            # The Spark provider would fall back to master=yarn without a word.
            raise ConnectionConfigError(
                f"The Spark connection {self.spark_conn_id!r} does not exist. Add it under Admin > Connections (type 'spark'), or set "
                f'AIRFLOW_CONN_{self.spark_conn_id.upper()}=\'{{"conn_type": "spark", "host": "local[*]"}}\'.'
            ) from error

    @property
    def _extra(self) -> dict[str, Any]:
        return dict(self._connection.extra_dejson)

    @property
    def _master(self) -> str:
        host = str(self._connection.host or "")
        return (
            host if "://" in host or self._connection.conn_type == "spark" else f"{self._connection.conn_type}://{host}"
        )

    @property
    def is_local(self) -> bool:
        return self._master.startswith("local")

    @property
    def is_cluster_mode(self) -> bool:
        return (self._submit_options.get("deploy_mode") or self._extra.get("deploy-mode")) == "cluster"

    @cached_property
    def _report_folder(self) -> str | None:
        """Where the report goes in cluster mode; None where driver and worker share a disk."""
        if not self.is_cluster_mode:
            return None
        location = self._report_location or self._extra.get(_REPORT_LOCATION_EXTRA)
        if not location:
            raise ReportLocationError(
                f"In cluster mode the driver runs on another machine, so its report needs a report_location that both sides reach, such as "
                f"'s3a://bucket/reports' or 'hdfs:///reports'; got none (connection {self.spark_conn_id!r}). Pass report_location=, or put "
                f"'{_REPORT_LOCATION_EXTRA}' in the connection's Extra. The worker reads it through Airflow's ObjectStoragePath."
            )
        return str(location)

    def _check_conf(self) -> None:
        conf = {str(key): str(value) for key, value in (self._submit_options.get("conf") or {}).items()}
        for key, needed in _ONE_ATTEMPT.items():
            if conf.get(key, needed).strip().lower() != needed:
                raise OptionError(
                    f"conf must not set {key}={conf[key]!r}: a task that runs again writes its records again, since Spark's Kafka sink is at-least-once. "
                    f"Leave it out ({needed} is set), and let Airflow retry the task, which writes only what is missing."
                )
        attempts = re.fullmatch(r"local\[[^,\]]*,\s*(\d+)\s*\]", self._master)
        if attempts and int(attempts[1]) > 1:
            raise OptionError(
                f"The master {self._master!r} of connection {self.spark_conn_id!r} allows {attempts[1]} attempts for each task, and a task that runs again "
                f"writes its records again. Use 'local[N]'."
            )

    @cached_property
    def client_jars(self) -> list[Path]:
        """What Kafka's Java client needs on the worker, from where the job has it; where the cluster has it, it is fetched.

        :raises JarError: if it is not to be had.
        """
        return client_jars(
            self._connector_jars or connector_jars(None, lambda: self.spark_home), lambda: self.spark_home
        )

    @cached_property
    def _connector_jars(self) -> list[Path]:
        """None of them where the cluster has its own."""
        wanted = self._kafka_connector or self._extra.get(_CONNECTOR_EXTRA)
        if wanted == PROVIDED or (
            wanted is None and "spark-sql-kafka" in str(self._submit_options.get("packages") or "")
        ):
            return []
        return connector_jars(wanted, lambda: self.spark_home)

    @property
    def _connector_options(self) -> dict[str, str]:
        """The submit options that put the connector on the class path."""
        paths = [str(jar) for jar in self._connector_jars]
        if not paths:
            return {}
        # On one machine there is nobody to send jars to, and --jars would copy each of them at every start.
        return {"driver_class_path": ":".join(paths)} if self.is_local else {"jars": ",".join(paths)}

    def _without_secrets(self, request: JobRequest, folder: Path) -> tuple[JobRequest, Path | None]:
        """The request with references in place of the secrets, and the file that has these, if there are any."""
        file = folder / LOGINS
        path = str(file) if self.is_local else file.name
        source, of_source = by_reference(request.source_options, path, "source")
        sink, of_sink = by_reference(request.sink_options, path, "sink")
        secrets = {**of_source, **of_sink}
        if not secrets:
            return request, None
        if set(path) & set(":}"):
            raise OptionError(
                f"Kafka's Java client reads logins from a file whose path has no ':' and no '}}'; got {path!r}. Correct TMPDIR."
            )
        write_private(file, format_properties(secrets).encode())
        return replace(request, source_options=source, sink_options=sink), file

    def _options(
        self, folder: Path, request_file: Path, logins: JobLogins, logins_file: Path | None = None
    ) -> dict[str, Any]:
        """The submit options of this run: the author's, with ours added."""
        options = dict(self._submit_options)
        if not self.is_local and not self.is_cluster_mode:
            # spark-submit may run in the job's folder.
            options = absolute_paths(options, Path.cwd())
        defaults = {**_DEFAULT_CONF, **(_LOCAL_CONF if self.is_local else {}), **spark_defaults(), **REDACTION}
        options["conf"] = {**defaults, **_ONE_ATTEMPT, **logins.spark_settings, **(options.get("conf") or {})}
        defined = " ".join(f"-D{name}={value}" for name, value in logins.system_properties.items())
        if defined and not self.is_local:
            options["conf"].update(self._java_options(options, defined))
        travelling = [*logins.files, *([str(logins_file)] if logins_file and not self.is_local else [])]
        if travelling:
            options["files"] = ",".join(filter(None, [options.get("files"), *travelling]))
        for name, value in self._connector_options.items():
            separator = ":" if name == "driver_class_path" else ","
            options[name] = separator.join(filter(None, [options.get(name), value]))
        options["py_files"] = ",".join(filter(None, [options.get("py_files"), str(write_code(folder))]))
        if self.is_cluster_mode:
            options["files"] = ",".join(filter(None, [options.get("files"), str(request_file)]))
            options["application_args"] = [request_file.name]
            return options
        options["application_args"] = [str(request_file)]
        if self.is_local and "PYSPARK_PYTHON" not in os.environ:
            options["env_vars"] = {"PYSPARK_PYTHON": sys.executable, **(options.get("env_vars") or {})}
        return options

    def _java_options(self, options: Mapping[str, Any], defined: str) -> dict[str, str]:
        """Settings by which driver and executors elsewhere have what is ``defined``, beside all that ``conf`` and Spark's properties file give them."""
        conf, settings = options["conf"], {}
        in_file = properties_of(options.get("properties_file"), self.spark_home, os.environ)
        for role in ("driver", "executor"):
            # Spark puts the default ones before the extra ones; the extra ones of conf would replace those of the file.
            default, extra = f"spark.{role}.defaultJavaOptions", f"spark.{role}.extraJavaOptions"
            name, given = (
                (extra, conf[extra]) if conf.get(extra) else (default, conf.get(default, in_file.get(default)))
            )
            settings[name] = " ".join(filter(None, [given, defined]))
        return settings

    def _class_archive(self, options: Mapping[str, Any]) -> ClassArchive | None:
        if not self.is_local:
            return None
        class_path = [options.get("driver_class_path"), options["conf"].get("spark.driver.extraClassPath")]
        archive = ClassArchive(
            find_java(self.spark_home.minimum_java), self.spark_home, ":".join(filter(None, class_path))
        )
        return archive if archive.is_wanted else None

    def _folder_of(self, logins: JobLogins, logins_file: Path | None, folder: Path) -> str | None:
        """Where ``spark-submit`` runs. A driver on this machine finds the files of a login by their base name, as executors elsewhere do."""
        if self.is_local or self.is_cluster_mode or not (logins.files or logins_file):
            return None
        for path in logins.files:
            copy_private(path, folder)
        return str(folder)

    def _jvm_environment(
        self, request: JobRequest, archive: ClassArchive | None, folder: Path, logins: JobLogins
    ) -> dict[str, str]:
        """What a JVM on this machine needs for the logins, and what makes it start faster, for the environment of ``spark-submit``.

        Spark's launcher reads it beside ``spark.driver.extraJavaOptions``, which stays the author's.
        """
        properties = {**kerberos_properties(), **logins.system_properties}
        options = [f'-D{name}="{value}"' for name, value in properties.items()]
        if not self.is_local:
            return {"SPARK_SUBMIT_OPTS": " ".join(options)} if options else {}
        options += [_FIRST_COMPILER] if is_small(request.planned_offsets) else []
        if archive is not None:
            options.append(archive.jvm_options(folder))
        return {"SPARK_SUBMIT_OPTS": " ".join(filter(None, options)), "SPARK_LAUNCHER_OPTS": _FIRST_COMPILER}

    def _report(
        self, request: JobRequest, uri: str, in_cluster: bool, submission: SparkSubmission, failure: Exception | None
    ) -> JobReport:
        text = _read_and_remove(uri) if in_cluster else _read_local(uri)
        if text is None:
            raise JobReportMissingError(
                f"The Spark job ended without leaving its report, so nothing proves that records arrived (application "
                f"{submission.application_id or 'unknown'}, report {uri}). {_cause(submission, failure)}"
            ) from failure
        report = JobReport.from_json(text)
        if report.failure is not None:
            # The driver knows of no secrets; what its clients say, they might have told it.
            message = redact(report.failure.message, (request.source_options, request.sink_options))
            raise error_named(report.failure.error, JobFailedError)(
                f"The Spark job failed (application {report.application_id}): {message}"
            ) from failure
        return report


def _read_local(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        return None


def _read_and_remove(uri: str) -> str | None:
    path = shared_path(uri)
    try:
        text = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ImportError) as error:
        raise ReportLocationError(
            f"The job's report at {uri} must be readable by the worker through Airflow's ObjectStoragePath; got {error!r}. Install the provider of "
            f"that storage (such as apache-airflow-providers-amazon), and check its connection."
        ) from error
    return str(text)


def _cause(submission: SparkSubmission, failure: Exception | None) -> str:
    tail = submission.log_tail
    if "ClassNotFoundException: org.apache.hadoop" in tail or "HADOOP_CONF_DIR" in tail:
        return f"Spark could not reach its cluster: is HADOOP_CONF_DIR set for the worker?{tail}"
    return f"spark-submit ended with: {failure}" if failure else f"spark-submit ended well.{tail}"
