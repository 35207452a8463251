"""What a cluster says of its applications: those of earlier tries are found, awaited and ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from requests.auth import HTTPBasicAuth

from airflow_provider_kafka_spark.core.errors import EarlierJobUnknownError, JobKilledError, OptionError
from airflow_provider_kafka_spark.core.secrets import secrets_in_url
from airflow_provider_kafka_spark.submission.cluster_applications import ClusterApplications
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster
from airflow_provider_kafka_spark.submission.yarn_rest import ResourceManager, is_on_yarn

log = logging.getLogger(__name__)

#: Between two questions, and at most between a kill and its order to the cluster.
_QUERY_SECONDS, _KILL_SECONDS = 5.0, 0.25
#: Seconds for which YARN may not answer, as during a restart of its ResourceManager.
_MAX_OUTAGE_SECONDS = 600.0
_NOT_TO_BE_STORED = (
    "deferrable=True stores {} address in Airflow's database, so it must have no password; that of the connection {!r} "
    "has one. Take it out, or pass deferrable=False."
)


class Applications:
    """The applications of a cluster in cluster mode, as its manager knows them.

    :param cluster: of the Spark connection.
    :param is_killed: whether the task was killed.
    """

    def __init__(self, cluster: SparkCluster, is_killed: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._is_killed = is_killed

    def manager(self) -> ResourceManager | KubernetesApi:
        """What a trigger asks about applications in cluster mode.

        :raises OptionError: if the worker does not know its address, or a trigger could not log in there.
        """
        kubernetes = self._cluster.kubernetes
        if kubernetes is None:
            return self._resource_manager()
        if kubernetes.access.token is not None:
            raise OptionError(
                "deferrable=True stores how to reach Kubernetes in Airflow's database, so it cannot be by "
                "spark.kubernetes.authenticate.submission.oauthToken. Use oauthTokenFile, a kubeconfig or the pod's "
                "service account on worker and triggerer, or pass deferrable=False."
            )
        if secrets_in_url(kubernetes.access.address):
            raise OptionError(_NOT_TO_BE_STORED.format("Kubernetes'", self._cluster.spark_conn_id))
        return kubernetes

    def _resource_manager(self) -> ResourceManager:
        try:
            manager = self._cluster.resource_manager()
        except (ValueError, RuntimeError) as error:
            raise OptionError(
                f"deferrable=True needs YARN's address for the triggerer; got none ({error}). Give "
                "'yarn_resourcemanager_webapp_address' in the Extra of the connection "
                f"{self._cluster.spark_conn_id!r}, such as 'http://rm.example.com:8088', or pass deferrable=False."
            ) from error
        if isinstance(manager.auth, HTTPBasicAuth):
            raise OptionError(_NOT_TO_BE_STORED.format("YARN's", self._cluster.spark_conn_id))
        return manager

    def find(self, tag: str) -> str | None:
        """The application of a job whose worker died before it could store the id; None if there is none.

        A worker that does not know YARN's address finds none.

        :raises EarlierJobUnknownError: if the cluster does not answer for ten minutes.
        :raises JobKilledError: if the task is killed meanwhile.
        """
        manager = self._cluster.deployment.manager
        if manager is None:
            return None
        known, began = self._cluster.applications(), time.monotonic()
        while not self._is_killed():
            try:
                return known.application_with_tag(tag)
            except ValueError as error:
                log.warning("Whether an application of an earlier try runs is unknown: %s", error)
                return None
            except RuntimeError as error:
                if time.monotonic() - began >= _MAX_OUTAGE_SECONDS:
                    raise EarlierJobUnknownError(
                        f"{manager} must answer whether an application of an earlier try runs, which has the tag "
                        f"{tag!r}; it does not ({error}). A further try asks again."
                    ) from error
                log.warning("%s does not answer: %s", manager, error)
            self._pause()
        raise JobKilledError("The task was killed while it looked for the application of an earlier try.")

    def wait_for(self, application_id: str, whose: str = "an earlier try") -> None:
        """Wait for the end of the application of an earlier try, whose worker may have died before it.

        Otherwise two jobs would write the same records. YARN and Kubernetes are queried about their own applications
        only: a driver in local or client mode ends with its worker.

        An application that they do not know has ended. An outage may last up to ten minutes.

        :raises EarlierJobUnknownError: if they do not answer, or the worker does not know their address.
        :raises JobKilledError: if the task is killed meanwhile; the application is then killed.
        """
        manager = self._cluster.deployment.manager
        if manager is not None and is_on_yarn(application_id) == (manager == "YARN"):
            self._wait_for(application_id, manager, whose)
        elif is_on_yarn(application_id):
            log.warning(
                "Application %s of an earlier try is on YARN, and connection %r leads to %r now: its end is not waited "
                "for.",
                application_id,
                self._cluster.spark_conn_id,
                self._cluster.master,
            )

    def _wait_for(self, application_id: str, manager: str, whose: str) -> None:
        known = self._cluster.applications()
        try:
            self.follow(known, application_id, manager, whose)
        except Exception:
            raise
        except BaseException:
            # A task whose time is over has no other way to end it.
            known.kill(application_id)
            raise
        known.clean_up(application_id)

    def follow(self, known: ClusterApplications, application_id: str, manager: str, whose: str) -> None:
        answered, seen = time.monotonic(), ""
        while not self._is_killed():
            try:
                status = known.status(application_id)
            except (RuntimeError, ValueError) as error:
                # An unknown address stays unknown.
                if isinstance(error, ValueError) or time.monotonic() - answered >= _MAX_OUTAGE_SECONDS:
                    raise self._unknown(manager, application_id, whose, error) from error
                log.warning("%s does not answer about application %s: %s", manager, application_id, error)
            else:
                answered = time.monotonic()
                if status in (None, "SUCCEEDED", "FAILED"):
                    how = status or f"{manager} does not know it"
                    log.info("Application %s of %s has ended: %s.", application_id, whose, how)
                    return
                if status != seen:
                    log.info("Application %s of %s is %s; waiting for its end.", application_id, whose, status)
                    seen = status
            self._pause()
        known.kill(application_id)
        raise JobKilledError(f"The task was killed; application {application_id} of {whose} {known.fate}.")

    def _pause(self) -> None:
        """Until the next question, or a kill: five seconds after its signal Airflow ends the worker."""
        for _ in range(int(_QUERY_SECONDS / _KILL_SECONDS)):
            if self._is_killed():
                return
            time.sleep(_KILL_SECONDS)

    def end(self, application_id: str) -> bool:
        """Order the end of an application in cluster mode; a failure is only logged.

        :return: whether the cluster took the order.
        """
        known = self._cluster.applications()
        known.kill(application_id)
        return not known.may_run_on

    def _unknown(self, manager: str, application_id: str, whose: str, error: Exception) -> EarlierJobUnknownError:
        return EarlierJobUnknownError(
            f"{manager} must answer whether application {application_id} of {whose} has ended: if it still ran, "
            f"a second one would write the same records. It does not answer ({error}). "
            f"{self._how_to_ask(application_id)}"
        )

    def _how_to_ask(self, application_id: str) -> str:
        if is_on_yarn(application_id):
            return (
                "Check that the worker reaches YARN's ResourceManager: 'yarn_resourcemanager_webapp_address' in the "
                f"Extra of connection {self._cluster.spark_conn_id!r}, such as 'http://rm.example.com:8088', or "
                "yarn-site.xml in HADOOP_CONF_DIR. A further try asks again, and goes on once YARN says that the "
                f"application has ended ('yarn application -kill {application_id}' ends it) or that it knows of none."
            )
        return (
            "Check the worker's access to Kubernetes (its kubeconfig or service account, and the right to list pods). "
            "A further try asks again, and goes on once the driver's pod has ended or is gone ('kubectl delete "
            f"pod -l spark-app-selector={application_id}')."
        )
