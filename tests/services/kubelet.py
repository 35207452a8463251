"""A small kubelet: it runs the pods of Spark as processes of this machine. A real one needs containers and an image.

Each has a mount namespace and an address of its own.
"""

from __future__ import annotations

import base64
import logging
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import requests

from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.3
_NODE = "node"
_HOME = "/opt/spark"
#: What the image of Spark has in place of folders of this machine.
_LAYERS = ("/etc", "/var", "/run", "/opt")
#: What https://github.com/apache/spark-docker does for the two kinds of pods.
_DRIVER = (
    f"{_HOME}/bin/spark-submit --conf spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS "
    '--conf spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS --deploy-mode client "$@"'
)
_EXECUTOR = (
    '"$JAVA_HOME/bin/java" $SPARK_EXECUTOR_JAVA_OPTS -Xms$SPARK_EXECUTOR_MEMORY -Xmx$SPARK_EXECUTOR_MEMORY '
    f'-cp "$SPARK_CONF_DIR:$SPARK_CLASSPATH:{_HOME}/jars/*" '
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url $SPARK_DRIVER_URL "
    "--executor-id $SPARK_EXECUTOR_ID --cores $SPARK_EXECUTOR_CORES --app-id $SPARK_APPLICATION_ID "
    "--hostname $SPARK_EXECUTOR_POD_IP --resourceProfileId $SPARK_RESOURCE_PROFILE_ID "
    "--podName $SPARK_EXECUTOR_POD_NAME"
)


@dataclass
class _Pod:
    """A pod that was seen.

    :param process: of its container, once it runs.
    """

    folder: Path
    address: str
    process: OwnedProcess | None = None
    is_ending: bool = False
    has_ended: bool = False
    waits_for: str = field(default="")


class Kubelet:
    """Runs all pods of one API server, until it is stopped.

    :param network: the first three numbers of the pods' addresses.
    :param folder: for the pods' files.
    """

    def __init__(self, api_url: str, ca_file: Path, token: str, network: str, folder: Path) -> None:
        self._api_url = api_url
        self._network = network
        self._folder = folder
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._ca_file = ca_file
        self._pods: dict[str, _Pod] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="kubelet", daemon=True)

    def start(self) -> None:
        self._folder.mkdir()
        self._thread.start()

    def stop(self) -> None:
        """End all pods."""
        self._stopping.set()
        self._thread.join(60)
        for pod in self._pods.values():
            if pod.process is not None:
                pod.process.kill()

    def evict(self, namespace: str, name: str) -> None:
        with self._lock:
            pod = self._pods[self._names[namespace, name]]
            assert pod.process is not None
            pod.process.kill()
            pod.has_ended = True
            status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
            self._set_status(namespace, name, status)

    def _loop(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            try:
                for pod in self._ask("GET", "/api/v1/pods")["items"]:
                    with self._lock:
                        self._sync(pod)
            except requests.RequestException as error:
                log.info("The API server: %s", error)

    def _sync(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        known = self._pods.get(uid)
        if known is None:
            address = f"{self._network}.{2 + len(self._pods)}"
            known = self._pods[uid] = _Pod(self._folder / uid, address)
            self._names[namespace, name] = uid
            known.folder.mkdir()
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
            self._ask("POST", f"{path}/binding", {"metadata": {"name": name}, "target": target})
        elif metadata.get("deletionTimestamp"):
            self._delete(known, path, metadata)
        elif known.process is None and not known.has_ended:
            self._start(known, pod)
        elif known.process is not None and not known.has_ended:
            self._hosts(known, namespace)
            if known.process.returncode is not None:
                known.has_ended = True
                self._set_status(namespace, name, _ended(known.process.returncode))

    def _delete(self, known: _Pod, path: str, metadata: Mapping[str, Any]) -> None:
        if known.process is not None and not known.is_ending:
            known.is_ending = True
            known.process.grace = float(metadata.get("deletionGracePeriodSeconds", 30))
            # It waits for the grace period.
            threading.Thread(target=known.process.stop, daemon=True).start()
        if known.process is None or known.process.returncode is not None:
            known.has_ended = True
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            self._request("DELETE", path, body)

    def _start(self, known: _Pod, pod: Mapping[str, Any]) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        namespace, name = metadata["namespace"], metadata["name"]
        volumes = {volume["name"]: self._volume(known, volume, pod) for volume in spec.get("volumes", [])}
        missing = [volume for volume, folder in volumes.items() if folder is None]
        if missing:
            if known.waits_for != missing[0]:
                known.waits_for = missing[0]
                waiting = {"reason": "ContainerCreating"}
                self._set_status(namespace, name, _status("Pending", {"waiting": waiting}))
            return
        (container,) = spec["containers"]
        self._hosts(known, namespace)
        known.process = OwnedProcess(
            ["unshare", "--mount", "sh", "-c", self._script(known, container, volumes), "pod", *container["args"][1:]],
            known.folder / "log",
            name=name,
            env=self._environment(known, container, pod),
            cwd=known.folder,
            grace=30.0,
        )
        known.process.start()
        running = _status("Running", {"running": {"startedAt": _now()}})
        self._set_status(namespace, name, {**running, "podIP": known.address, "hostIP": known.address})

    def _volume(self, known: _Pod, volume: Mapping[str, Any], pod: Mapping[str, Any]) -> Path | None:
        """The folder of a volume; None if what it shows does not exist yet."""
        folder = known.folder / "volumes" / volume["name"]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        namespace = pod["metadata"]["namespace"]
        if "secret" in volume:
            found = self._read(f"/api/v1/namespaces/{namespace}/secrets/{volume['secret']['secretName']}")
            files = None if found is None else {k: base64.b64decode(v) for k, v in found.get("data", {}).items()}
        elif "configMap" in volume:
            found = self._read(f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")
            files = None if found is None else {k: v.encode() for k, v in found.get("data", {}).items()}
        elif "projected" in volume:
            files = self._service_account(pod)
        else:
            files = {}
            folder.chmod(0o777)
        if files is None:
            return None
        # Of a Secret or a ConfigMap some entries may be wanted, by other names.
        wanted = (volume.get("secret") or volume.get("configMap") or {}).get("items")
        if wanted:
            files = {item["path"]: files[item["key"]] for item in wanted}
        for name, content in files.items():
            # As the kubelet does: files are links to links.
            data = folder / "..data"
            data.mkdir(exist_ok=True)
            (data / name).write_bytes(content)
            (folder / name).symlink_to(f"..data/{name}")
        return folder

    def _service_account(self, pod: Mapping[str, Any]) -> dict[str, bytes]:
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        owner = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        body = {"spec": {"expirationSeconds": 3600, "boundObjectRef": owner}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        token = self._ask("POST", path, body)["status"]["token"]
        return {
            "token": token.encode(),
            "ca.crt": self._ca_file.read_bytes(),
            "namespace": metadata["namespace"].encode(),
        }

    def _script(self, known: _Pod, container: Mapping[str, Any], volumes: Mapping[str, Path | None]) -> str:
        scratch = known.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        spark = find_spark_home("spark-submit").jars.parent
        lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs tmpfs {scratch}"]
        for number, layer in enumerate((*_LAYERS, _HOME)):
            upper, work = scratch / f"upper{number}", scratch / f"work{number}"
            lower = spark if layer == _HOME else layer
            lines.append(f"mkdir -p {upper} {work} {layer}")
            lines.append(f"mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {layer}")
        for mount in container.get("volumeMounts", []):
            at = shlex.quote(mount["mountPath"])
            lines += [f"mkdir -p {at}", f"mount --bind {shlex.quote(str(volumes[mount['name']]))} {at}"]
        lines += [f"mount --bind {known.folder / 'hosts'} /etc/hosts", f"mkdir -p {_HOME}/work-dir"]
        program = _DRIVER if container["args"][0] == "driver" else _EXECUTOR
        lines += [f"cd {_HOME}/work-dir", f"exec {program}"]
        return "\n".join(lines)

    def _environment(self, known: _Pod, container: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, str]:
        java = find_java(minimum=17).executable.resolve().parents[1]
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(known.folder),
            "JAVA_HOME": str(java),
            "SPARK_HOME": _HOME,
            "KUBERNETES_SERVICE_HOST": "kubernetes.default.svc",
            "KUBERNETES_SERVICE_PORT": "443",
        }
        for variable in container.get("env", []):
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                fields = {"status.podIP": known.address, "metadata.name": pod["metadata"]["name"]}
                environment[variable["name"]] = fields[source["fieldRef"]["fieldPath"]]
            else:
                environment[variable["name"]] = variable.get("value") or ""
        numbered = (name for name in environment if name.startswith("SPARK_JAVA_OPT_"))
        options = [environment[name] for name in sorted(numbered, key=lambda name: int(name.rpartition("_")[2]))]
        return {**environment, "SPARK_EXECUTOR_JAVA_OPTS": " ".join(options)}

    def _hosts(self, known: _Pod, namespace: str) -> None:
        """Names of services, as a cluster's DNS has them. The file stays the same, since it is mounted."""
        lines = [f"127.0.0.1 localhost {os.uname().nodename}", f"{self._network}.1 kubernetes.default.svc"]
        for service, address in self._services(namespace):
            lines.append(f"{address} {service} {service}.{namespace} {service}.{namespace}.svc")
        text = "\n".join(lines) + "\n"
        path = known.folder / "hosts"
        if not path.exists() or path.read_text() != text:
            with path.open("w") as file:
                file.write(text)

    def _services(self, namespace: str) -> Iterator[tuple[str, str]]:
        pods = self._ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        for service in self._ask("GET", f"/api/v1/namespaces/{namespace}/services")["items"]:
            selector = (service["spec"].get("selector") or {}).items()
            for pod in pods:
                if selector and selector <= pod["metadata"].get("labels", {}).items():
                    known = self._pods.get(pod["metadata"]["uid"])
                    if known is not None:
                        yield service["metadata"]["name"], known.address

    def _set_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        self._request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": dict(status)})

    def _read(self, path: str) -> Any:
        answer = self._request("GET", path)
        return answer.json() if answer.ok else None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._request(method, path, body)
        answer.raise_for_status()
        return answer.json()

    def _request(self, method: str, path: str, body: Any = None) -> requests.Response:
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        # REQUESTS_CA_BUNDLE would count instead of the session's own setting.
        verify = str(self._ca_file)
        return self._session.request(
            method, f"{self._api_url}{path}", json=body, headers=headers, verify=verify, timeout=(5, 30)
        )


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(phase: str, state: Mapping[str, Any]) -> dict[str, Any]:
    container = {
        "name": "spark",
        "ready": phase == "Running",
        "restartCount": 0,
        "image": "spark",
        "imageID": "",
        "state": state,
    }
    return {"phase": phase, "containerStatuses": [container]}


def _ended(code: int) -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _now()}
    return _status("Failed" if code else "Succeeded", {"terminated": terminated})
