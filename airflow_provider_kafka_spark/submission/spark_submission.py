"""Run ``spark-submit`` through the Spark provider's hook, with the fixes described below."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.secrets import without_token_answer
from airflow_provider_kafka_spark.core.shown_text import shown
from airflow_provider_kafka_spark.core.spark.file_names import KEYTAB
from airflow_provider_kafka_spark.core.spark.spark_noise import is_noise
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted, take_event
from airflow_provider_kafka_spark.submission.job_files import write_private
from airflow_provider_kafka_spark.submission.kubernetes_driver import KubernetesDriver
from airflow_provider_kafka_spark.submission.spark_properties import secrets_by_file
from airflow_provider_kafka_spark.submission.yarn_applications import YarnApplications
from airflow_provider_kafka_spark.submission.yarn_rest import YARN_ID
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment, unset_airflow_env
from airflow_provider_kafka_spark.toolchain.process_group import end_group
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

OnEvent = Callable[[JobEvent], None]

#: Log lines of Spark and of YARN's client about the submission, both before the driver runs.
_SUBMISSION = re.compile(rf"Submit(ting|ted) application ({YARN_ID.pattern})\b")
#: The first of a list of jars, and the rest.
_JARS = re.compile(r"(--driver-class-path|--jars) ([^\s,:]*[,:])\S+")

#: Maximum characters of a logged line; a driver's lines may quote records.
_LONGEST_LINE = 4_000
_LAST_LINES, _LINES_OF_TRACE, _LONGEST_IN_ERROR = 20, 200, 500
_THROWN = 'Exception in thread "'


class SparkSubmission(SparkSubmitHook):
    """The Spark provider's ``spark-submit`` in its own process group, with the job's events parsed from its output, and
    without secrets in its arguments and environment.

    :param folder: for secrets; readable by this user only, and removed after the job.
    :param is_killed: whether the task has been killed.
    :param event_token: of the request, which marks events in the output.
    :param environment: variables of the process, each put in front of the worker's own value.
    :param applications: of the cluster.
    :param tag: on YARN in cluster mode, of the application and of no other.
    """

    def __init__(
        self,
        conn_id: str,
        home: SparkHome,
        on_event: OnEvent,
        folder: Path,
        *,
        is_killed: Callable[[], bool],
        event_token: str,
        environment: Mapping[str, str],
        applications: YarnApplications | KubernetesDriver,
        tag: str = "",
        **options: Any,
    ) -> None:
        # Before the provider's constructor, which may write a keytab to the folder and sets the application's id.
        self._folder = folder
        self._submitted_id: str | None = None
        self.applications = applications
        self._tag = tag
        self._ended: Any = None
        self._is_constructed = False
        super().__init__(conn_id=conn_id, **options)
        self._is_constructed = True
        # The provider's, of the driver's output, which spark-submit does not wait for.
        self._spark_exit_code = 0
        self._home = home
        self._process_environment: dict[str, str] = {}
        self._environment = {
            name: " ".join(filter(None, [value, os.environ.get(name)])) for name, value in environment.items()
        }
        self._on_event = on_event
        self._is_killed = is_killed
        self._event_token = event_token
        #: Of the application that the cluster has, as it was announced.
        self.started_id: str | None = None
        self._tail = OutputTail()

    @property
    def application_id(self) -> str | None:
        return self.started_id or self._yarn_application_id

    @property
    def _yarn_application_id(self) -> str | None:
        return self._submitted_id

    @_yarn_application_id.setter
    def _yarn_application_id(self, found: str | None) -> None:
        """Ignore the provider's id: it parses any line, also one that quotes a record."""

    @property
    def _is_kubernetes(self) -> bool:
        """Not yet in the provider's constructor, which demands its own client of Kubernetes."""
        return self._is_constructed and self._is_for_kubernetes

    @_is_kubernetes.setter
    def _is_kubernetes(self, found: bool) -> None:
        self._is_for_kubernetes = found

    @property
    def _kubernetes_driver_pod(self) -> str | None:
        return None

    @_kubernetes_driver_pod.setter
    def _kubernetes_driver_pod(self, found: str | None) -> None:
        """Ignore the provider's name likewise: the pod has the one that it was given."""

    @property
    def pod_state(self) -> str | None:
        """How the driver's pod was when its state was last asked for."""
        return self.applications.state if isinstance(self.applications, KubernetesDriver) else None

    @property
    def fate(self) -> str:
        """For an error: what becomes of the application of a killed task."""
        return self.applications.fate

    @property
    def log_tail(self) -> str:
        """The last lines of the output, for the error of a job that has left nothing else; empty without any."""
        lines = "\n".join(self._mask_cmd([line]) for line in self._tail.lines)
        return f"\nLast spark-submit output:\n{lines}" if lines else ""

    def on_kill(self) -> None:
        # First the client, so that nothing is submitted afterwards.
        if isinstance(self.applications, KubernetesDriver):
            self.end()
            self.applications.delete()
            self._run_post_submit_commands()
        elif self._is_yarn_cluster_mode:
            self.end()
            # Where the worker's logging hides the id, the tag finds it.
            if self._submitted_id:
                self.applications.kill(self._submitted_id)
            elif self._tag:
                self.applications.kill_tagged(self._tag)
        else:
            super().on_kill()
            self.end()

    def delete_pod(self) -> None:
        """Delete the driver's pod, if there is one. A failure is only logged."""
        if isinstance(self.applications, KubernetesDriver):
            self.applications.delete()

    def start_pod(self, secret: Mapping[str, bytes]) -> None:
        """Let the driver's pod start, which ``spark-submit`` has created, and announce it.

        :param secret: the job's files. **Secret.**
        :raises RuntimeError: if the API server does not answer, or has no such pod.
        """
        if isinstance(self.applications, KubernetesDriver):
            self._announce(JobStarted(self.applications.start(secret), None))

    def end(self) -> None:
        """End all processes: driver and Python children share the group that ``spark-submit`` leads."""
        if self._submit_sp is not None and self._submit_sp is not self._ended:
            end_group(self._submit_sp.pid)
            # Its number may be another process's from now on.
            self._ended = self._submit_sp

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        # The environment is filled while the command is built. By default the process would inherit the worker's.
        driver_id = super().submit(application, env=self._process_environment, **kwargs)
        # If spark-submit exits before the job ends, the provider's operator follows the job.
        if self._should_track_yarn_application_via_rm_api() and self._yarn_application_id:
            self._start_yarn_application_status_tracking(self._yarn_application_id)
        return driver_id

    def _get_spark_binary_path(self) -> list[str]:
        return [str(self._home.submit)]

    def _build_spark_common_args(self) -> list[str]:
        arguments = super()._build_spark_common_args()
        self._process_environment.update(child_environment())
        # Otherwise the script runs the `python3` on the PATH to find Spark, which may be another one.
        self._process_environment["SPARK_HOME"] = str(self._home.jars.parent)
        self._process_environment.update(self._environment)
        self._process_environment.update({name: str(value) for name, value in (self._env or {}).items()})
        self._env = None
        return secrets_by_file(arguments, self._folder, self._home, self._process_environment)

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        # For the log only. The connector's dozen jars with their folders would fill the line.
        return _JARS.sub(r"\1 \2...", super()._mask_cmd(connection_cmd))

    def _build_track_driver_status_command(self) -> list[str]:
        return unset_airflow_env(super()._build_track_driver_status_command())

    def _build_spark_driver_kill_command(self) -> list[str]:
        return unset_airflow_env(super()._build_spark_driver_kill_command())

    def _create_keytab_path_from_base64_keytab(self, base64_keytab: str, principal: str | None) -> str:  # noqa: ARG002 - the provider's
        # The provider leaves it in the temporary folder, readable by all users.
        return str(write_private(self._folder / KEYTAB, _decoded_keytab(base64_keytab, self._conn_id)))

    def _get_yarn_rm_base_url(self) -> str:
        if isinstance(self.applications, KubernetesDriver):
            return super()._get_yarn_rm_base_url()
        # Also the one that Hadoop's configuration names, and of several the active one.
        return self.applications.manager().address()

    @property
    def _resolved_yarn_rm_auth(self) -> Any:
        if isinstance(self.applications, KubernetesDriver):
            return super()._resolved_yarn_rm_auth
        # Also the login that the address has, which the one above does not have.
        return self.applications.manager().auth

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        # The process has just started; a kill a moment earlier found nothing to kill.
        if self._is_killed():
            self.on_kill()
        super()._process_spark_submit_log(self._without_events(itr))

    def _without_events(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            text, event = take_event(line, self._event_token)
            if (text.strip() or event is None) and not is_noise(text.strip()):
                said = shown(without_token_answer(text.rstrip("\n")), _LONGEST_LINE)
                self._tail.add(said)
                yield said
            if isinstance(event, JobStarted):
                self._announce(event)
            elif event is not None:
                self._on_event(event)
            elif self._is_yarn_cluster_mode and (submission := _SUBMISSION.search(text)):
                self._submitted_id = self._submitted_id or submission[2]
                if submission[1] == "ted":
                    self._announce_on_yarn(self._submitted_id)

    def _announce(self, started: JobStarted) -> None:
        """Only the first event counts: an application starts once."""
        if self.started_id is None:
            self.started_id = started.application_id
            self._on_event(started)

    def _announce_on_yarn(self, application_id: str) -> None:
        page = self.applications.page(application_id)
        if page is None:
            self.log.warning(
                "No link to application %s, and no way to stop it from here: neither "
                "'yarn_resourcemanager_webapp_address' in the Extra of connection %r nor yarn-site.xml names YARN's.",
                application_id,
                self._conn_id,
            )
        self._announce(JobStarted(application_id, page))


class OutputTail:
    """What an error has of the output: the last lines, or those from the first exception on that ends the JVM."""

    def __init__(self) -> None:
        self.lines = deque[str](maxlen=_LAST_LINES)

    def add(self, line: str) -> None:
        if line.startswith(_THROWN) and self.lines.maxlen == _LAST_LINES:
            self.lines = deque(maxlen=_LINES_OF_TRACE)
        self.lines.append(shown(line, _LONGEST_IN_ERROR))


def _decoded_keytab(base64_keytab: str, conn_id: str) -> bytes:
    """:raises ConnectionConfigError: if it is not base64."""
    try:
        return base64.b64decode(base64_keytab)
    except binascii.Error:
        raise ConnectionConfigError(
            f"The keytab in the Extra of the Spark connection {conn_id!r} must be base64; it is not. Put there the "
            "output of `base64 <file>`."
        ) from None
