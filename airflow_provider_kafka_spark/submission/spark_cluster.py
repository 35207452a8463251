"""The cluster, the Spark and the Kafka connector of a job. Nothing is started here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from airflow_provider_kafka_spark.core.checks import EXACTLY_ONCE
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, OptionError, ReportLocationError
from airflow_provider_kafka_spark.core.secrets import TAKE_OUT, secrets_in_url, without_user
from airflow_provider_kafka_spark.core.spark.driver_pod import NAMESPACE, UPLOAD_PATH, ApiAccess
from airflow_provider_kafka_spark.core.wire.job_events import is_web_address
from airflow_provider_kafka_spark.submission.conf_checks import (
    DEPLOY_MODE,
    FOLLOWS,
    ONE_ATTEMPT,
    ONE_WRITER,
    check_conf,
    check_one_attempt,
)
from airflow_provider_kafka_spark.submission.deployment import Deployment, deployment_of
from airflow_provider_kafka_spark.submission.job_jars import JobJars
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.kubernetes_driver import KubernetesDriver
from airflow_provider_kafka_spark.submission.spark_connection import (
    HISTORY_SERVER_EXTRA,
    REPORT_LOCATION_EXTRA,
    SparkConnection,
)
from airflow_provider_kafka_spark.submission.spark_properties import properties_of
from airflow_provider_kafka_spark.submission.yarn_applications import YarnApplications
from airflow_provider_kafka_spark.submission.yarn_rest import ResourceManager, resource_manager_of
from airflow_provider_kafka_spark.toolchain.connector import PROVIDED
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CLASS_ARCHIVE
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome, find_spark_home

#: Spark's own property for the history server on YARN.
_HISTORY_SERVER_PROPERTY = "spark.yarn.historyServer.address"
#: Beginnings of properties that say what an expression means. Others of SQL name classes, catalogs and places.
_MEANING_OF_SQL = (
    *("spark.sql.ansi.", "spark.sql.caseSensitive", "spark.sql.function.", "spark.sql.legacy."),
    *("spark.sql.mapKeyDedupPolicy", "spark.sql.parser.", "spark.sql.session.", "spark.sql.timestampType"),
)


class SparkCluster:
    """A Spark connection and the author's submit options, parsed and checked.

    :param spark_conn_id: a Spark connection, as the Spark provider has it.
    :param kafka_connector: see :class:`~airflow_provider_kafka_spark.hooks.spark_job.SparkJobHook`.
    :param report_location: likewise.
    :param submit_options: likewise.
    :param delivery: likewise.
    """

    def __init__(
        self,
        spark_conn_id: str,
        *,
        kafka_connector: str | None,
        report_location: str | None,
        submit_options: Mapping[str, Any],
        delivery: str = EXACTLY_ONCE,
    ) -> None:
        self._runs_again = delivery == EXACTLY_ONCE
        self.spark_conn_id = spark_conn_id
        self._connection = SparkConnection(spark_conn_id)
        self.submit_options = submit_options
        self._kafka_connector = kafka_connector
        self._report_location = report_location

    def check(self, *, asks_cluster: bool = True) -> None:
        """Check everything that a submission needs, before anything is planned or started.

        :param asks_cluster: as :meth:`check_rights` too; a try that waits for an earlier job asks after that.
        :raises ConnectionConfigError: if the Spark connection is missing, or leads to Kubernetes without the provider
            for it.
        :raises SparkSubmitNotFoundError: if there is no ``spark-submit``.
        :raises JavaNotFoundError: if there is no Java, or one too old for this Spark.
        :raises JarError: if the connector is unavailable or unreadable.
        :raises ConnectionConfigError: if the address of the history server is invalid.
        :raises ReportLocationError: in cluster mode, if no ``report_location`` is given.
        :raises OptionError: if ``conf`` has settings that would write records twice, if ``[kafka_spark]`` has wrong
            ones, if Spark cannot use the folder for temporary files, or if only Spark's properties file says where the
            driver runs.
        """
        check_conf(self._conf, self.required_conf, self.deployment, follows=self.submit_options.get(FOLLOWS))
        if not self._runs_again:
            check_one_attempt(self.master, self.spark_conn_id)
        if self.deployment.driver_on_worker and set(tempfile.gettempdir()) & set(" #"):
            raise OptionError(
                "The folder for temporary files must have no blank and no '#' in its path, of which Spark makes "
                f"addresses of files; got {tempfile.gettempdir()!r}. Set TMPDIR to another folder, such as '/var/tmp'."
            )
        if not self.deployment.takes_python:
            raise OptionError(
                "deploy_mode='cluster' is not for a standalone cluster: Spark takes no Python application there. The "
                f"master of connection {self.spark_conn_id!r} is {self.master!r}; use 'client'."
            )
        if self.deployment.in_pod and find_spec("kubernetes") is None:
            raise ConnectionConfigError(
                f"The master {self.master!r} of connection {self.spark_conn_id!r} needs the Python package "
                "'kubernetes' on the worker. Install it with this package's extra, "
                "airflow-provider-kafka-spark[kubernetes]."
            )
        home = self.spark_home
        self._check_mode()
        find_java(home.minimum_java)
        self.jars.connector  # noqa: B018 - the jars are fetched here, before anything else happens
        self.report_folder  # noqa: B018
        self._check_image()
        if asks_cluster:
            self.check_rights()
        self.history_server  # noqa: B018
        if self.deployment.executors_on_worker:
            CLASS_ARCHIVE.flag()

    def _check_mode(self) -> None:
        """
        :raises OptionError: if only a file of properties, or the variable ``DEPLOY_MODE``, says that the driver runs on
            the cluster: ``spark-submit`` would follow it (``SparkSubmitArguments``), and the worker wait for a driver
            of its own.
        """
        mode = self.file_properties.get(DEPLOY_MODE) or self._environ.get("DEPLOY_MODE") or "client"
        if self._mode is None and mode != "client":
            raise OptionError(
                f"deploy_mode must say where the driver runs; got none, and {mode!r} from {DEPLOY_MODE} in Spark's "
                f"properties file, or from DEPLOY_MODE. Pass deploy_mode={mode!r}, or put 'deploy-mode' in the Extra "
                f"of connection {self.spark_conn_id!r}."
            )

    @property
    def _mode(self) -> str | None:
        return self.submit_options.get("deploy_mode") or self._connection.extra.get("deploy-mode")

    @property
    def required_conf(self) -> dict[str, str]:
        """Spark properties that keep records from being written twice."""
        return {**ONE_WRITER} if self._runs_again else {**ONE_WRITER, **ONE_ATTEMPT}

    @property
    def deployment(self) -> Deployment:
        """Where driver and executors run, and what follows from that."""
        return deployment_of(self.master, is_cluster_mode=self._mode == "cluster")

    @cached_property
    def kubernetes(self) -> KubernetesApi | None:
        """The API server, if drivers run in pods."""
        if not self.deployment.in_pod:
            return None
        # The hook of Airflow's Spark provider gives spark-submit the connection's as an option, which Spark prefers to
        # what a file of properties has.
        namespace = self._connection.extra.get("namespace")
        of_connection = {NAMESPACE: str(namespace)} if namespace else {}
        return KubernetesApi(ApiAccess.of(self.master, {**self.file_properties, **of_connection, **self._conf}))

    def applications(self, pod: str = "") -> YarnApplications | KubernetesDriver:
        """What the cluster's manager knows of applications; a master without one is not asked.

        :param pod: the name of the driver's pod of a job that is about to be submitted.
        """
        if self.kubernetes is not None:
            return KubernetesDriver(self.kubernetes, pod)
        return YarnApplications(self.resource_manager)

    def resource_manager(self) -> ResourceManager:
        """As :func:`resource_manager_of`."""
        return resource_manager_of(self._connection.extra, self.submit_options, self._environ)

    def _check_image(self) -> None:
        """
        :raises OptionError: if the connector's jars cannot reach the pods.
        """
        if self.kubernetes is None:
            return
        if self.jars.connector and not self._spark_property(UPLOAD_PATH):
            raise OptionError(
                "On Kubernetes in cluster mode Spark's Kafka connector must be in the image: the worker's jars do not "
                "reach the pods. Put it into the image's /opt/spark/jars and pass kafka_connector='provided', or "
                f"let Spark upload the jars by {UPLOAD_PATH} in conf (it never removes them)."
            )

    def check_rights(self) -> None:
        """Ask Kubernetes whether the worker may do what a submission needs.

        :raises KafkaSparkError: as :meth:`KubernetesApi.check_rights`.
        """
        if self.kubernetes is not None:
            self.kubernetes.check_rights(self.spark_conn_id)

    @cached_property
    def spark_home(self) -> SparkHome:
        from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES, DEFAULT_SPARK_BINARY

        binary = (
            self.submit_options.get("spark_binary")
            or self._connection.extra.get("spark-binary")
            or DEFAULT_SPARK_BINARY
        )
        if binary not in ALLOWED_SPARK_BINARIES:
            raise OptionError(
                f"spark_binary must be one of {ALLOWED_SPARK_BINARIES}, as the Spark provider has it; got {binary!r}. "
                "Its folder is found by SPARK_HOME or the PATH."
            )
        return find_spark_home(binary)

    @cached_property
    def report_folder(self) -> str | None:
        """The folder of the report in cluster mode; None if driver and worker share a disk."""
        if self.deployment.driver_on_worker:
            return None
        location = self._report_location or self._connection.extra.get(REPORT_LOCATION_EXTRA)
        if not location:
            raise ReportLocationError(
                "In cluster mode the driver runs on another machine, so its report needs a report_location that both "
                "sides reach, such as 's3a://bucket/reports' or 'hdfs:///reports'; got none (connection "
                f"{self.spark_conn_id!r}). Pass report_location=, or put '{REPORT_LOCATION_EXTRA}' in the "
                "connection's Extra. The worker reads it through Airflow's ObjectStoragePath."
            )
        if secrets_in_url(str(location)):
            raise ReportLocationError(
                f"report_location must have no password (connection {self.spark_conn_id!r}). {TAKE_OUT}"
            )
        return str(location)

    @cached_property
    def history_server(self) -> str | None:
        """Address of the history server; None if there is none, or Spark writes no event log for it."""
        named = self._connection.extra.get(HISTORY_SERVER_EXTRA)
        address = str(named or self._spark_property(_HISTORY_SERVER_PROPERTY) or "").strip()
        if not address or (self._spark_property("spark.eventLog.enabled") or "").strip().lower() != "true":
            return None
        # Spark's own property has no scheme.
        address = (address if "://" in address else f"http://{address}").rstrip("/")
        if is_web_address(address):
            return address
        if named is None:
            # Spark replaces variables such as ${hadoopconf-...} in it; the worker cannot.
            return None
        raise ConnectionConfigError(
            f"{HISTORY_SERVER_EXTRA!r} in the Extra of connection {self.spark_conn_id!r} must be an http or https "
            f"address, such as 'http://history.example.com:18080'; got {without_user(str(named))!r}. Correct it."
        )

    def _spark_property(self, name: str) -> str | None:
        """A property as ``spark-submit`` uses it: from ``conf``, or else from the properties file."""
        value = (self.submit_options.get("conf") or {}).get(name)
        return self.file_properties.get(name) if value is None else str(value)

    @property
    def sql_properties(self) -> dict[str, str]:
        """Spark's properties that say what an expression means, such as ``spark.sql.ansi.enabled``."""
        given = {**self.file_properties, **self._conf}
        return {name: value for name, value in given.items() if name.startswith(_MEANING_OF_SQL)}

    @property
    def prefers_user_jars(self) -> bool:
        """Whether the driver takes a class from the author's jars rather than from its class path."""
        return (self._spark_property("spark.driver.userClassPathFirst") or "").strip().lower() == "true"

    @property
    def _conf(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in (self.submit_options.get("conf") or {}).items()}

    @cached_property
    def file_properties(self) -> dict[str, str]:
        """Those of the author's file, or of ``spark-defaults.conf``, which count if ``conf`` does not set them."""
        return properties_of(self.submit_options.get("properties_file"), self.spark_home, self._environ)

    @property
    def _environ(self) -> dict[str, str]:
        """The variables of ``spark-submit``."""
        return {**os.environ, **(self.submit_options.get("env_vars") or {})}

    @cached_property
    def jars(self) -> JobJars:
        """The jars that a job is given."""
        return JobJars(
            self._wanted_connector,
            self.submit_options,
            lambda: self.spark_home,
            self._spark_property,
            are_sent=lambda: not self.deployment.executors_on_worker,
        )

    def _wanted_connector(self) -> str | None:
        wanted = self._kafka_connector or self._connection.connector
        if wanted is None and "spark-sql-kafka" in str(self.submit_options.get("packages") or ""):
            return PROVIDED
        return wanted

    @property
    def master(self) -> str:
        """The master URL, as the Spark provider builds it."""
        return self._connection.master
