"""The driver of a job that runs in a pod: it is started, found, followed and ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_kafka_spark.core.spark.driver_pod import WAITING, DriverPod
from airflow_provider_kafka_spark.submission.cluster_applications import ClusterApplications
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi

log = logging.getLogger(__name__)


class KubernetesDriver(ClusterApplications):
    """
    :param pod: its name; empty if no job is submitted.
    :ivar state: how a driver was when its state was last asked for.
    """

    def __init__(self, api: KubernetesApi, pod: str) -> None:
        self._api = api
        self._pod = pod
        self.state: str | None = None

    def start(self, secret: Mapping[str, bytes]) -> str:
        """Let the pod start, which ``spark-submit`` has created.

        :param secret: the job's files. **Secret.**
        :return: the id of its application.
        :raises RuntimeError: if the API server does not answer, or has no such pod.
        """
        pod = self._api.pod(self._pod)
        if pod is None:
            raise RuntimeError(f"The driver's pod {self._pod} must exist after its submission; it does not")
        self._api.create_secret(pod, secret)
        log.info("The driver runs in pod %s, namespace %s.", pod.name, self._api.access.namespace)
        self._delete_abandoned(pod)
        self.clean_up()
        return pod.application_id

    def _delete_abandoned(self, own: DriverPod) -> None:
        """Delete what tasks without a further try have left: it would hold its share of a node for ever. A failure is
        only logged.
        """
        try:
            for name in self._api.abandoned(own):
                log.info("The worker of another task died before it let the driver's pod %s start.", name)
                self._api.delete_pod(name)
        except RuntimeError as error:
            log.warning("Drivers' pods of other tasks that cannot start may be left: %s", error)

    def clean_up(self, application_id: str = "") -> None:
        """As :meth:`KubernetesApi.delete_left_secrets`. A failure is only logged."""
        try:
            self._api.delete_left_secrets(application_id)
        except RuntimeError as error:
            log.warning("Secrets of drivers that have ended may be left, until their pods are deleted: %s", error)

    def delete(self) -> None:
        """Delete the pod, if there is one. A failure is only logged."""
        if not self._pod:
            return
        try:
            self._api.delete_pod(self._pod)
        except RuntimeError as error:
            self.may_run_on = True
            log.warning("The driver's pod %s may still run: %s", self._pod, error)

    def kill(self, application_id: str) -> None:
        """Delete the driver's pod of an application. A failure is only logged."""
        try:
            self._api.kill(application_id)
        except RuntimeError as error:
            self.may_run_on = True
            log.warning("Spark application %s may still run: %s", application_id, error)

    def status(self, application_id: str) -> str | None:
        """By the phase of the driver's pod."""
        pod = self._api.driver_of(application_id)
        if pod is None:
            return None
        self.state = pod.describe()
        return pod.phase.upper() if pod.has_ended else self.state

    def application_with_tag(self, tag: str) -> str | None:
        """The application whose pod has this name, or None.

        A pod that waits for its Secret has done nothing, and nobody else will start it: it is deleted.

        :raises RuntimeError: if the API server does not answer.
        """
        pod = self._api.pod(tag)
        if pod is None:
            return None
        # Somebody may have deleted the Secret of a driver that runs.
        if pod.phase != WAITING or self._api.has_secret(tag):
            return pod.application_id
        log.info("The worker of an earlier try died before it let the driver's pod %s start.", tag)
        self._api.delete_pod(tag)
        return None
