"""A real Kubernetes API on this machine: etcd, kube-apiserver and kube-controller-manager, and the tests' own kubelet,
which runs pods as processes.
"""

from __future__ import annotations

import random
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports, start_on_free_ports
from airflow_provider_kafka_spark.testing.short_lived_jvm import OPTIONS_VARIABLE, SHORT_LIVED
from tests.services.kubelet import Kubelet
from tests.services.kubernetes_binaries import binaries

_ROLES = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes-rbac.yaml"
#: As the page for users has it.
_PAGE_NAMESPACE = "etl"
_ADMIN, _USER = "admin", "airflow"
_CONTROLLERS = (
    "serviceaccount-controller,serviceaccount-token-controller,garbage-collector-controller,namespace-controller,"
    "root-ca-certificate-publisher-controller"
)
_START_SECONDS = 120.0
_PATHS = {"ServiceAccount": "api/v1", "Role": "apis/rbac.authorization.k8s.io/v1"}
_PATHS["RoleBinding"] = _PATHS["Role"]


class KubernetesCluster(ManagedServer):
    """A cluster with one node, which runs inside ``with`` and ends after it, with everything that it has started."""

    def __init__(self) -> None:
        self.api_url = ""
        self._tokens = {name: secrets.token_hex(16) for name in (_ADMIN, _USER)}
        self._folder: Path | None = None
        self._daemons: dict[str, OwnedProcess] = {}
        self._kubelet: Kubelet | None = None
        self._session = requests.Session()

    @property
    def ca_file(self) -> Path:
        """The certificate of the API server's CA."""
        return self._home / "certs" / "apiserver.crt"

    def token_of(self, user: str) -> str:
        """The token of ``admin``, who may do everything, or of ``airflow``, who submits."""
        return self._tokens[user]

    def kubeconfig(self, user: str, namespace: str = "default") -> Path:
        """A file for ``KUBECONFIG``."""
        cluster = {"server": self.api_url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.token_of(user)}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": user, "namespace": namespace}}],
            "current-context": "tests",
        }
        path = self._home / f"kubeconfig-{user}-{namespace}"
        path.write_text(yaml.safe_dump(config))
        return path

    def new_namespace(self, name: str, *, roles: bool = True) -> str:
        """Create a namespace, with the service account and the Roles that the documentation shows.

        :return: its name
        """
        self.post("/api/v1/namespaces", {"metadata": {"name": name}})
        if roles:
            text = _ROLES.read_text().replace(f"namespace: {_PAGE_NAMESPACE}", f"namespace: {name}")
            for document in yaml.safe_load_all(text):
                kind = document["kind"]
                self.post(f"/{_PATHS[kind]}/namespaces/{name}/{kind.lower()}s", document)
        return name

    def spark_conf(self) -> dict[str, str]:
        """Spark properties of a submission here."""
        return {
            "spark.kubernetes.container.image": "spark:4.0.0",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            f"spark.kubernetes.driverEnv.{OPTIONS_VARIABLE}": " ".join(SHORT_LIVED),
        }

    def executor_conf(self) -> dict[str, str]:
        """Further ones for executors in pods of their own."""
        return {
            f"spark.executorEnv.{OPTIONS_VARIABLE}": " ".join(SHORT_LIVED),
            "spark.kubernetes.allocation.batch.delay": "200ms",
        }

    def get(self, path: str) -> Any:
        """What the API server answers to its administrator."""
        return self._ask("GET", path)

    def post(self, path: str, body: Any) -> Any:
        """Likewise."""
        return self._ask("POST", path, body)

    def evict(self, namespace: str, pod: str) -> None:
        """Kill a pod at once, as a node without memory does."""
        assert self._kubelet is not None
        self._kubelet.evict(namespace, pod)

    def api_server(self) -> OwnedProcess:
        """The API server, to suspend it."""
        return self._daemons["kube-apiserver"]

    def start(self) -> None:
        """Start the cluster, and return when its API is ready.

        :raises LocalServiceError: it was not in time, or cannot be built; nothing is left running
        """
        if self._folder is not None:
            raise self._already_running(self.api_url)
        folder = binaries()
        start_on_free_ports(
            lambda: self._start_once(folder), self.stop, lambda: "".join(d.tail(400) for d in self._daemons.values())
        )

    def stop(self) -> None:
        """End it. Calling it again does nothing."""
        kubelet, self._kubelet = self._kubelet, None
        daemons, self._daemons = self._daemons, {}
        folder, self._folder = self._folder, None
        if kubelet is not None:
            kubelet.stop()
        for daemon in reversed(daemons.values()):
            daemon.kill()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise self._not_running()
        return self._folder

    def _start_once(self, programs: Path) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="kubernetes-"))
        (folder / "certs").mkdir()
        _write_keys(folder)
        rows = f"{self._tokens[_ADMIN]},{_ADMIN},1,system:masters\n{self._tokens[_USER]},{_USER},2\n"
        (folder / "tokens.csv").write_text(rows)
        client, peer = (f"http://{LOOPBACK}:{port}" for port in free_ports(2))
        # An address of its own has port 443 free, as kubernetes.default.svc needs it, and room for those of pods.
        network = f"127.{random.randint(64, 250)}.{random.randint(1, 250)}"
        address = f"{network}.1"
        self.api_url = f"https://{address}"
        self._run(
            "etcd",
            [
                str(programs / "etcd"),
                f"--data-dir={folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=error",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
        )
        self._run(
            "kube-apiserver",
            [
                str(programs / "kube"),
                "kube-apiserver",
                f"--etcd-servers={client}",
                "--authorization-mode=RBAC",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={folder / 'sa.pub'}",
                f"--service-account-signing-key-file={folder / 'sa.key'}",
                f"--cert-dir={folder / 'certs'}",
                f"--bind-address={address}",
                "--secure-port=443",
                f"--advertise-address={address}",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
            ],
        )
        self._wait_until_ready()
        self._run(
            "kube-controller-manager",
            [
                str(programs / "kube"),
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig(_ADMIN)}",
                f"--service-account-private-key-file={folder / 'sa.key'}",
                f"--root-ca-file={self.ca_file}",
                f"--controllers={_CONTROLLERS}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
        )
        self._kubelet = Kubelet(self.api_url, self.ca_file, self._tokens[_ADMIN], network, folder / "pods")
        self._kubelet.start()

    def _run(self, name: str, command: list[str]) -> None:
        folder = self._home
        daemon = OwnedProcess(
            command, folder / f"{name}.log", name=name, cwd=folder, grace=3.0, remove_if_orphaned=folder
        )
        self._daemons[name] = daemon
        daemon.start()

    def _wait_until_ready(self) -> None:
        deadline, got = time.monotonic() + _START_SECONDS, "no answer"
        while time.monotonic() < deadline:
            ended = [daemon for daemon in self._daemons.values() if not daemon.running]
            if ended:
                raise LocalServiceError(f"{ended[0].name} must run; it has ended.\n{ended[0].tail()}")
            try:
                if self._request("GET", "/readyz").text == "ok":
                    return
            except (requests.RequestException, OSError) as error:
                got = str(error)
            time.sleep(0.2)
        raise LocalServiceError(
            f"The API server must be ready within {_START_SECONDS:g} seconds; it is not ({got}).\n"
            + self._daemons["kube-apiserver"].tail()
        )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._request(method, path, body)
        if not answer.ok:
            raise LocalServiceError(f"{method} {path}: HTTP {answer.status_code} {answer.text[:500]}")
        return answer.json()

    def _request(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self._session.request(
            method,
            f"{self.api_url}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self._tokens[_ADMIN]}"},
            verify=str(self.ca_file),
            timeout=(5, 30),
        )


def _write_keys(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "sa.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
