"""The kinds of clusters and deploy modes: where driver and executors run, and what follows from that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_kafka_spark.core.spark.driver_pod import FOLDER


@dataclass(frozen=True, slots=True)
class Deployment:
    """One kind of cluster in one deploy mode.

    :param prefix: of the masters that lead to it.
    :param driver_on_worker: the driver is a process of the worker's machine: it shares its disk, and ends with it.
    :param executors_on_worker: so are the executors, as threads of the driver: nothing has to be sent.
    :param shares_executors: executors share their machine with processes of other users; not even a container is
        theirs.
    :param takes_python: Spark takes a Python application in this mode.
    :param obtains_tokens: Spark itself can obtain Kafka's delegation tokens.
    :param manager: what knows the application after the worker has died, or None.
    :param wait_property: with "true", ``spark-submit`` waits until the job has ended; None where it always does.
    :param followed_by: the submit option with which the Spark provider polls for the end instead.
    :param folder: where driver and executors find the job's files.
    :param in_pod: the driver runs in a pod, to which a Secret takes the job's files.
    """

    prefix: str = ""
    driver_on_worker: bool = True
    executors_on_worker: bool = False
    shares_executors: bool = False
    takes_python: bool = True
    obtains_tokens: bool = False
    manager: str | None = None
    wait_property: str | None = None
    followed_by: str | None = None
    folder: str = "/proc/self/cwd"
    in_pod: bool = False

    @property
    def login_folder(self) -> str:
        """Where the Java client finds the files of a login on other machines; empty for its working directory."""
        return self.folder if self.in_pod else ""

    def wait_conf(self, submit_options: Mapping[str, Any]) -> dict[str, str]:
        """Settings for ``spark-submit`` to wait until the job has ended, whatever a properties file says; none if the
        Spark provider polls for the end.
        """
        if self.wait_property is None or (self.followed_by is not None and submit_options.get(self.followed_by)):
            return {}
        return {self.wait_property: "true"}


#: Driver and executors in one process.
LOCAL = Deployment("local", executors_on_worker=True)
#: Any other master in client mode.
CLIENT = Deployment()
STANDALONE = Deployment("spark://", shares_executors=True)
#: A standalone cluster that Spark starts on this machine, for tests.
LOCAL_CLUSTER = Deployment("local-cluster[", shares_executors=True)
YARN_CLIENT = Deployment("yarn", obtains_tokens=True, manager="YARN")
YARN_CLUSTER = replace(
    YARN_CLIENT,
    driver_on_worker=False,
    wait_property="spark.yarn.submit.waitAppCompletion",
    followed_by="yarn_track_via_rm_api",
)
KUBERNETES_CLIENT = Deployment("k8s", obtains_tokens=True)
KUBERNETES_CLUSTER = replace(
    KUBERNETES_CLIENT,
    driver_on_worker=False,
    manager="Kubernetes",
    folder=FOLDER,
    in_pod=True,
)

_CLIENT_MODE = (STANDALONE, LOCAL_CLUSTER, YARN_CLIENT, KUBERNETES_CLIENT)
_IN_CLUSTER_MODE = {
    "yarn": YARN_CLUSTER,
    "k8s": KUBERNETES_CLUSTER,
    "spark://": replace(STANDALONE, driver_on_worker=False, takes_python=False),
}
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")


def deployment_of(master: str, *, is_cluster_mode: bool) -> Deployment:
    """The kind of a master URL in client or cluster mode."""
    if _LOCAL_MASTER.fullmatch(master):
        kind = LOCAL
    else:
        kind = next((kind for kind in _CLIENT_MODE if master.startswith(kind.prefix)), CLIENT)
    if not is_cluster_mode:
        return kind
    return _IN_CLUSTER_MODE.get(kind.prefix) or replace(kind, driver_on_worker=False)
