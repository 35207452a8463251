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
from airflow_provider_kafka_spark.core.wire.job_events import JobEvent, JobStarted, is_web_address, take_event
from airflow_provider_kafka_spark.submission.job_files import write_private
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.kubernetes_driver import KubernetesDriver
from airflow_provider_kafka_spark.submission.spark_properties import secrets_by_file
from airflow_provider_kafka_spark.submission.yarn_rest import (
    ALIVE,
    YARN_ID,
    ResourceManager,
    active_address,
    is_on_yarn,
    resource_manager_addresses,
)
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment, unset_airflow_env
from airflow_provider_kafka_spark.toolchain.process_group import end_group
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

OnEvent = Callable[[JobEvent], None]

#: YARN's own 404, by the name of its exception; proxies and wrong addresses answer 404 too.
_NOT_KNOWN = re.compile(r"returned HTTP 404\b.*NotFoundException", re.DOTALL)
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
    :param event_token: of the request, which marks events in the output. None if no job is submitted.
    :param environment: variables of the process, each put in front of the worker's own value.
    :param kubernetes: the API server, where the driver runs in a pod; otherwise None.
    :param pod: the name of this pod.
    :param tag: on YARN, of the application and of no other; empty if no job is submitted.
    """

    def __init__(
        self,
        conn_id: str,
        home: SparkHome,
        on_event: OnEvent,
        folder: Path,
        *,
        is_killed: Callable[[], bool],
        event_token: str | None = None,
        environment: Mapping[str, str] | None = None,
        kubernetes: KubernetesApi | None = None,
        pod: str = "",
        tag: str = "",
        **options: Any,
    ) -> None:
        # Before the provider's constructor, which may write a keytab to the folder and sets the application's id.
        self._folder = folder
        self._submitted_id: str | None = None
        self._driver = None if kubernetes is None else KubernetesDriver(kubernetes, pod)
        self._tag = tag
        self._refused_on_yarn = False
        self._ended: Any = None
        self._is_constructed = False
        super().__init__(conn_id=conn_id, **options)
        self._is_constructed = True
        # The provider's, of the driver's output, which spark-submit does not wait for.
        self._spark_exit_code = 0
        self._home = home
        self._process_environment: dict[str, str] = {}
        self._environment = {
            name: " ".join(filter(None, [value, os.environ.get(name)])) for name, value in (environment or {}).items()
        }
        self._on_event = on_event
        self._is_killed = is_killed
        self._event_token = event_token
        self._started_id: str | None = None
        self._tail = OutputTail()

    @property
    def application_id(self) -> str | None:
        return self._started_id or self._yarn_application_id

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
        return None if self._driver is None else self._driver.state

    @property
    def fate(self) -> str:
        """For an error: what becomes of an application whose end was ordered."""
        may_run_on = self._refused_on_yarn or (self._driver is not None and self._driver.may_run_on)
        return "may still run, as the log says" if may_run_on else "was ordered to end"

    @property
    def log_tail(self) -> str:
        """The last lines of the output, for the error of a job that has left nothing else; empty without any."""
        lines = "\n".join(self._mask_cmd([line]) for line in self._tail.lines)
        return f"\nLast spark-submit output:\n{lines}" if lines else ""

    def on_kill(self) -> None:
        if self._is_yarn_cluster_mode:
            # First the client, so that nothing is submitted afterwards.
            self.end()
            self._kill_submitted()
            return
        if self._driver is not None:
            self.end()
            self.delete_pod()
            self._run_post_submit_commands()
            return
        super().on_kill()
        self.end()

    def kill_application(self, application_id: str) -> None:
        """Kill an application: on YARN by its ResourceManager's REST interface, on Kubernetes by deleting the driver's
        pod. A failure is only logged.
        """
        if is_on_yarn(application_id):
            # The provider's own order logs a refusal as any other answer.
            self._order_on_yarn(f"application {application_id}", lambda manager: manager.kill(application_id))
        elif self._driver is not None:
            self._driver.kill(application_id)

    def _kill_submitted(self) -> None:
        """Kill what was submitted to YARN. Where the worker's logging hides the id, the tag finds it."""
        if self._submitted_id:
            self.kill_application(self._submitted_id)
        elif self._tag:
            self._order_on_yarn(f"the application with the tag {self._tag}", self._kill_tagged)

    def _kill_tagged(self, manager: ResourceManager) -> None:
        for application_id in filter(is_on_yarn, manager.applications(self._tag, ALIVE)):
            manager.kill(application_id)

    def _order_on_yarn(self, what: str, order: Callable[[ResourceManager], None]) -> None:
        try:
            order(self.resource_manager())
        except (ValueError, RuntimeError) as error:
            self._refused_on_yarn = True
            self.log.warning("On YARN %s may still run: %s. 'yarn application -kill' ends it.", what, error)

    def delete_pod(self) -> None:
        """Delete the driver's pod, if there is one. A failure is only logged."""
        if self._driver is not None:
            self._driver.delete()

    def delete_secret_of(self, application_id: str) -> None:
        """Delete the Secret of an application whose worker died, if it has ended. A failure is only logged."""
        if self._driver is not None:
            self._driver.delete_left_secrets(application_id)

    def start_pod(self, secret: Mapping[str, bytes]) -> None:
        """Let the driver's pod start, which ``spark-submit`` has created, and announce it.

        :param secret: the job's files. **Secret.**
        :raises RuntimeError: if the API server does not answer, or has no such pod.
        """
        if self._driver is not None:
            self._announce(JobStarted(self._driver.start(secret), None))

    def status_of(self, application_id: str) -> str | None:
        """The status of an application, by YARN's ResourceManager, or by the phase of its driver's pod on Kubernetes.

        :return: ``"SUCCEEDED"`` or ``"FAILED"`` for one that has ended (``"FAILED"`` if it was killed), ``"RUNNING"``
            and similar before, None if it is unknown.
        :raises ValueError: if the worker does not know YARN's address.
        :raises RuntimeError: if the status is unavailable.
        """
        if not is_on_yarn(application_id):
            return None if self._driver is None else self._driver.status(application_id)
        try:
            return self.query_yarn_application_status(application_id)
        except RuntimeError as error:
            if _NOT_KNOWN.search(str(error)):
                return None
            raise

    def application_with_tag(self, tag: str) -> str | None:
        """The application that was submitted with a tag, or None if the cluster knows none.

        :raises ValueError: if the worker does not know YARN's address.
        :raises RuntimeError: if the cluster does not answer.
        """
        if self._driver is not None:
            return self._driver.application_with_tag(tag)
        return next(filter(is_on_yarn, self.resource_manager().applications(tag)), None)

    def resource_manager(self) -> ResourceManager:
        """:raises ValueError: if the worker does not know YARN's address.
        :raises RuntimeError: if its login lacks a library.
        """
        return ResourceManager(self._get_yarn_rm_base_url(), self._resolved_yarn_rm_auth)

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
        try:
            return super()._get_yarn_rm_base_url()
        except ValueError:
            addresses = resource_manager_addresses({**os.environ, **(self._env_vars or {})})
            if not addresses:
                raise
        # Not kept: another one may be active at the next question.
        return active_address(addresses, self._resolved_yarn_rm_auth)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        # The process has just started; a kill a moment earlier found nothing to kill.
        if self._is_killed():
            self.on_kill()
        super()._process_spark_submit_log(self._without_events(itr))

    def _without_events(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            text, event = (line, None) if self._event_token is None else take_event(line, self._event_token)
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
        if self._started_id is None:
            self._started_id = started.application_id
            self._on_event(started)

    def _announce_on_yarn(self, application_id: str) -> None:
        page = self.yarn_page(application_id)
        if page is None:
            self.log.warning(
                "No link to application %s, and no way to stop it from here: neither "
                "'yarn_resourcemanager_webapp_address' in the Extra of connection %r nor yarn-site.xml names YARN's.",
                application_id,
                self._conn_id,
            )
        self._announce(JobStarted(application_id, page))

    def yarn_page(self, application_id: str) -> str | None:
        """The application's page on YARN, or None if the worker does not know YARN's address."""
        try:
            page = f"{self._get_yarn_rm_base_url()}/cluster/app/{application_id}"
        except (ValueError, RuntimeError):
            return None
        return page if is_web_address(page) else None


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
