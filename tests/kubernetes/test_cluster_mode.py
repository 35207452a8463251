"""Cluster mode on a real API server: the driver runs in a pod, and another try finds it."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse
from uuid import uuid4

import psutil
import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_kafka_spark.core.driver_pod import ApiAccess, DriverPod
from airflow_provider_kafka_spark.core.errors import (
    JobKilledError,
    JobReportMissingError,
)
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from tests.airflow_fakes import TaskInstance, TaskStateStore, Try, task_context
from tests.required_tools import needs_go
from tests.services.kubernetes_cluster import KubernetesCluster

pytestmark = [
    needs_go,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    # The control plane is built once.
    pytest.mark.timeout(2_700),
]

_RECORDS = 100


@dataclass
class Copies:
    """Copies of some records, in a namespace of their own."""

    kafka: KafkaBroker
    cluster: KubernetesCluster
    namespace: str
    source: str
    target: str
    parameters: dict[str, Any]
    records: int = _RECORDS
    store: TaskStateStore = field(default_factory=TaskStateStore)

    def run(self, ti: TaskInstance | None = None, resumes: dict[str, Any] | None = None, **changed: Any) -> Any:
        operator = self.operator(**changed)
        ti = ti or TaskInstance()
        ti.task_id = operator.task_id
        context: Any = task_context(self.store, ti=ti)
        return operator.execute(context) if resumes is None else operator.resume(context, resumes)

    def operator(self, **changed: Any) -> ReplayOffsetRangesOperator:
        ranges = [f"{self.source}:{partition}:0:{self.records // 2}" for partition in range(2)]
        given = {"offset_ranges": ranges, "target_topic": self.target, **self.parameters, **changed}
        return ReplayOffsetRangesOperator(task_id="replay", **given)

    def values(self) -> list[int]:
        return sorted(int(r.value or b"") for r in self.kafka.consume(self.target))

    def api(self) -> KubernetesApi:
        api = SparkJobHook(submit_options={"conf": self.parameters["conf"]}).cluster.kubernetes
        assert api is not None
        return api

    def drivers(self) -> list[DriverPod]:
        return self.api().drivers()

    def secrets(self) -> list[str]:
        """The names of all Secrets, as the cluster's administrator sees them."""
        found = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/secrets")
        return [secret["metadata"]["name"] for secret in found["items"]]

    def wait_for_driver(self, *, runs: bool = True) -> DriverPod:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = [pod for pod in self.drivers() if not runs or pod.phase == "Running"]
            if found:
                return found[0]
            time.sleep(0.2)
        raise TimeoutError("no driver")


@pytest.fixture
def copies(
    kafka: KafkaBroker,
    topic: TopicFactory,
    kubernetes_cluster: KubernetesCluster,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Copies:
    namespace = kubernetes_cluster.new_namespace(f"etl-{uuid4().hex[:8]}")
    monkeypatch.setenv("KUBECONFIG", str(kubernetes_cluster.kubeconfig("airflow", namespace)))
    extra = {"deploy-mode": "cluster", "namespace": namespace, "history-server": "http://history.example.com:18080"}
    connection("spark_default", conn_type="spark", host=f"k8s://{kubernetes_cluster.api_url}", extra=extra)
    reports = tmp_path / "reports"
    reports.mkdir(mode=0o777)
    jars = ":".join(str(jar) for jar in connector_jars(None, lambda: find_spark_home("spark-submit")))
    conf = {
        **kubernetes_cluster.spark_conf(),
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.kubernetes.driver.master": "local[2]",
    }
    parameters = {"report_location": reports.as_uri(), "kafka_connector": "provided", "conf": conf}
    found = Copies(kafka, kubernetes_cluster, namespace, topic(2, suffix="source"), topic(suffix="target"), parameters)
    kafka.produce(found.source, [Record(b"k", b"%d" % i, partition=i % 2) for i in range(_RECORDS)])
    return found


def with_executors(copies: Copies, number: int = 2) -> dict[str, Any]:
    conf = {key: value for key, value in copies.parameters["conf"].items() if key != "spark.kubernetes.driver.master"}
    return {"conf": {**conf, **copies.cluster.executor_conf()}, "num_executors": number, "executor_memory": "512m"}


def test_a_copy_in_one_pod(copies: Copies) -> None:
    """Driver and executors in one process, for small replays. Nothing of the job is left but its pod."""
    result = copies.run()

    assert copies.values() == list(range(_RECORDS))
    assert result["records_written"] == _RECORDS
    assert result["application_id"].startswith("spark-")
    assert [(pod.application_id, pod.phase) for pod in copies.drivers()] == [(result["application_id"], "Succeeded")]
    assert copies.secrets() == []
    assert list(Path(urlparse(copies.parameters["report_location"]).path).iterdir()) == []


def test_a_copy_on_two_executors(copies: Copies) -> None:
    result = copies.run(**with_executors(copies), columns={"value": "concat('1', string(value))"})

    assert copies.values() == sorted(int(f"1{i}") for i in range(_RECORDS))
    assert (result["records_written"], result["duplicates"]) == (_RECORDS, 0)
    assert copies.secrets() == []


@pytest.fixture
def password() -> str:
    return f"hunter2-{uuid4().hex}"


@pytest.fixture
def with_login(password: str, connection: Callable[..., None]) -> Iterator[KafkaBroker]:
    """A broker that asks for a login."""
    with KafkaBroker(sasl_users={"copier": password}) as broker:
        connection("source", extra=broker.sasl_client_config("copier", "SCRAM-SHA-512"))
        yield broker


def test_a_login_goes_by_the_secret_only(copies: Copies, with_login: KafkaBroker, password: str) -> None:
    """Neither pods nor ConfigMaps nor events have it, nor arguments and environments; the Secret is the pod's."""
    with_login.create_topic(copies.source)
    with_login.produce(copies.source, [Record(value=b"%d" % i) for i in range(_RECORDS)])
    ranges = [f"{copies.source}:0:0:{_RECORDS}"]
    seen: list[tuple[str, list[Any]]] = []

    def look() -> None:
        copies.wait_for_driver()
        kinds = ("pods", "configmaps", "services", "events")
        texts = [json.dumps(copies.cluster.get(f"/api/v1/namespaces/{copies.namespace}/{kind}")) for kind in kinds]
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                texts.append(f"{process.cmdline()} {process.environ()}")
        found = copies.cluster.get(f"/api/v1/namespaces/{copies.namespace}/secrets")["items"]
        seen.append(("\n".join(texts), found))

    watcher = threading.Thread(target=look)
    watcher.start()
    copies.run(source_conn_id="source", target_conn_id="kafka_default", offset_ranges=ranges, max_records_per_second=10)
    watcher.join(60)

    ((text, (secret,)),) = seen
    assert "airflow_provider_kafka_spark" in text
    assert password not in text
    assert password in base64.b64decode(secret["data"]["kafka-logins.properties"]).decode()
    assert [owner["kind"] for owner in secret["metadata"]["ownerReferences"]] == ["Pod"]
    assert copies.values() == list(range(_RECORDS))


def test_a_job_that_fails_says_why(copies: Copies) -> None:
    with pytest.raises(AirflowFailException, match="no_such_column"):
        copies.run(where="no_such_column > 1")

    assert copies.secrets() == []


def test_killing_the_task_deletes_the_driver(copies: Copies) -> None:
    operator = copies.operator(max_records_per_second=5)
    failure: list[BaseException] = []

    def execute() -> None:
        try:
            operator.execute(task_context(copies.store))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001
            failure.append(error)

    task = threading.Thread(target=execute)
    task.start()
    copies.wait_for_driver()
    operator.on_kill()
    task.join(120)

    assert isinstance(failure[0], JobKilledError)
    deadline = time.monotonic() + 60
    while copies.drivers() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert (copies.drivers(), copies.secrets()) == ([], [])


class WorkerDied(BaseException):
    """As when the process is killed: nothing that should run afterwards runs."""


def _die(*_: object) -> NoReturn:
    raise WorkerDied


@pytest.mark.parametrize("where", ["follows", "knows-no-id", "before-the-secret"])
def test_a_retry_finds_the_driver_of_a_dead_worker(copies: Copies, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """It takes the report of the one that runs, and deletes the one that cannot start."""
    place = {
        "follows": (SparkJobHook, "_follow_pod"),
        "knows-no-id": (RunStateStore, "started"),
        "before-the-secret": (KubernetesApi, "create_secret"),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(*place, _die)
        with pytest.raises(WorkerDied):
            copies.run()
    (first,) = copies.drivers()
    result = copies.run()

    assert copies.values() == list(range(_RECORDS))
    assert (result["delivered_before"], result["records_written"], result["duplicates"]) == (0, _RECORDS, 0)
    assert (result["application_id"] == first.application_id) == (where != "before-the-secret")
    assert [pod.application_id for pod in copies.drivers()] == [result["application_id"]]
    assert copies.secrets() == []


def test_a_driver_that_is_evicted(copies: Copies) -> None:
    """The task fails with what Kubernetes says, and the next try writes only the rest."""
    found: list[Any] = []

    def evict() -> None:
        pod = copies.wait_for_driver()
        deadline = time.monotonic() + 120
        while not copies.kafka.consume(copies.target) and time.monotonic() < deadline:
            time.sleep(0.2)
        copies.cluster.evict(copies.namespace, pod.name)
        found.append(pod)

    enemy = threading.Thread(target=evict)
    enemy.start()
    with pytest.raises(JobReportMissingError, match="Evicted"):
        copies.run(max_records_per_second=10)
    enemy.join(120)
    result = copies.run()

    assert copies.values() == list(range(_RECORDS))
    assert result["delivered_before"] > 0
    assert result["duplicates"] == 0
    assert copies.secrets() == []


def test_an_executor_that_is_evicted(copies: Copies) -> None:
    """Spark starts another one, which goes on from the committed progress."""
    evicted: list[str] = []

    def evict() -> None:
        deadline = time.monotonic() + 120
        while not copies.kafka.consume(copies.target) and time.monotonic() < deadline:
            time.sleep(0.2)
        path = f"/api/v1/namespaces/{copies.namespace}/pods?labelSelector=spark-role%3Dexecutor"
        name = copies.cluster.get(path)["items"][0]["metadata"]["name"]
        copies.cluster.evict(copies.namespace, name)
        evicted.append(name)

    enemy = threading.Thread(target=evict)
    enemy.start()
    result = copies.run(**with_executors(copies), max_records_per_second=10)
    enemy.join(120)

    assert evicted
    assert copies.values() == list(range(_RECORDS))
    assert (result["records_written"], result["duplicates"]) == (_RECORDS, 0)


def test_a_deferred_copy_holds_no_worker(copies: Copies) -> None:
    """A trigger sees the end, and the task takes the report of that job."""
    with pytest.raises(TaskDeferred) as left:
        copies.run(Try(), deferrable=True)
    trigger = left.value.trigger
    (event,) = asyncio.run(_events(trigger))
    result = copies.run(Try(), event.payload, deferrable=True)

    assert type(trigger)(**trigger.serialize()[1]).serialize() == trigger.serialize()
    assert event.payload["status"] == "ended"
    assert copies.values() == list(range(_RECORDS))
    assert [pod.application_id for pod in copies.drivers()] == [result["application_id"]]
    assert copies.secrets() == []


def test_a_user_who_ends_a_deferred_copy_ends_its_driver(copies: Copies) -> None:
    with pytest.raises(TaskDeferred) as left:
        copies.run(Try(), deferrable=True, max_records_per_second=1)
    asyncio.run(left.value.trigger.on_kill())
    (event,) = asyncio.run(_events(left.value.trigger))

    assert event.payload["status"] == "ended"
    assert (copies.drivers(), copies.secrets()) == ([], [])
    with pytest.raises(JobReportMissingError):
        copies.run(Try(), event.payload, deferrable=True)


async def _events(trigger: BaseTrigger) -> list[TriggerEvent]:
    return [event async for event in trigger.run()]


def test_an_api_server_that_is_away_for_a_while(copies: Copies) -> None:
    """The driver goes on, and so does the worker when there is an answer again."""

    def away() -> None:
        copies.wait_for_driver()
        with copies.cluster.api_server().suspended():
            time.sleep(20)

    outage = threading.Thread(target=away)
    outage.start()
    result = copies.run(max_records_per_second=20)
    outage.join(60)

    assert copies.values() == list(range(_RECORDS))
    assert result["records_written"] == _RECORDS


def test_a_missing_right_is_named_before_anything_starts(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = copies.cluster.new_namespace(f"closed-{uuid4().hex[:8]}", roles=False)
    conf = {**copies.parameters["conf"], "spark.kubernetes.namespace": namespace}

    with pytest.raises(AirflowFailException, match=rf"rights in namespace '{namespace}'.*create pods.*create secrets"):
        copies.run(conf=conf)


def test_an_expired_login_is_named(copies: Copies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = copies.cluster.kubeconfig("airflow", copies.namespace).read_text()
    expired = tmp_path / "expired"
    expired.write_text(config.replace(copies.cluster.token_of("airflow"), "expired"))
    monkeypatch.setenv("KUBECONFIG", str(expired))

    with pytest.raises(AirflowFailException, match=r"must answer the worker; got HTTP 401: Unauthorized"):
        copies.run()


def test_the_connector_must_be_in_the_image(copies: Copies) -> None:
    with pytest.raises(AirflowFailException, match="kafka_connector='provided'"):
        copies.run(kafka_connector=None)


def test_a_stream(copies: Copies, tmp_path: Path) -> None:
    """Worker and driver share the checkpoint by URI; the second run finds nothing new."""
    operator = KafkaToKafkaAvailableNowOperator(
        task_id="stream",
        topics=[copies.source],
        starting_offsets="earliest",
        checkpoint_location=(tmp_path / "checkpoint").as_uri(),
        target_topic=copies.target,
        **copies.parameters,
    )
    result = operator.execute(task_context(TaskStateStore()))  # type: ignore[arg-type]

    assert copies.values() == list(range(_RECORDS))
    assert (result["records_written"], result["records_behind"]) == (_RECORDS, 0)


def test_a_token_in_a_file_is_read_anew(copies: Copies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of a pod's service account is soon replaced by a newer one."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    file = tmp_path / "token"
    access = ApiAccess(
        copies.cluster.api_url, copies.namespace, token_file=str(file), ca_file=str(copies.cluster.ca_file)
    )
    api = KubernetesApi(access)
    file.write_text("expired\n")
    with pytest.raises(RuntimeError, match="HTTP 401"):
        api.alive()

    file.write_text(copies.cluster.token_of("airflow") + "\n")

    assert api.alive() == {}


def test_client_mode(
    copies: Copies, with_login: KafkaBroker, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver runs on the worker, with the rights of a driver, and sends the login to its executors itself."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spark-driver"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "airflow"}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{copies.namespace}/rolebindings"
    copies.cluster.post(path, {"metadata": {"name": "client-mode"}, "roleRef": role, "subjects": [user]})
    connection(
        "spark_default",
        conn_type="spark",
        host=f"k8s://{copies.cluster.api_url}",
        extra={"namespace": copies.namespace},
    )
    with_login.create_topic(copies.source, 2)
    with_login.produce(copies.source, [Record(value=b"%d" % i, partition=i % 2) for i in range(_RECORDS)])
    given = with_executors(copies)
    given["conf"] |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    result = copies.run(**given, source_conn_id="source", target_conn_id="kafka_default", report_location=None)

    assert copies.values() == list(range(_RECORDS))
    assert result["records_written"] == _RECORDS
    deadline = time.monotonic() + 60
    while copies.cluster.get(f"/api/v1/namespaces/{copies.namespace}/pods")["items"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert copies.cluster.get(f"/api/v1/namespaces/{copies.namespace}/pods")["items"] == []
    assert copies.secrets() == []


def test_pod_templates_and_the_history_server(copies: Copies, tmp_path: Path) -> None:
    """What templates say holds beside what the job needs, and the link leads to the history server."""
    given = with_executors(copies)
    for role in ("driver", "executor"):
        of_team = {"labels": {"team": f"{role}-of-etl"}}
        template = {"apiVersion": "v1", "kind": "Pod", "metadata": of_team, "spec": {"containers": [{"name": "spark"}]}}
        (tmp_path / f"{role}.yaml").write_text(json.dumps(template))
        given["conf"][f"spark.kubernetes.{role}.podTemplateFile"] = str(tmp_path / f"{role}.yaml")
    # Otherwise they are gone with the application.
    given["conf"]["spark.kubernetes.executor.deleteOnTermination"] = "false"
    (tmp_path / "events").mkdir(mode=0o777)
    given["conf"] |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (tmp_path / "events").as_uri()}

    ti = TaskInstance()
    result = copies.run(ti, **given)

    # The history server has what the driver has left there.
    application = result["application_id"]
    assert f"http://history.example.com:18080/history/{application}/" in ti.pushed.values()
    assert any(application in path.name for path in (tmp_path / "events").iterdir())

    assert result["records_written"] == _RECORDS
    assert copies.values() == list(range(_RECORDS))
    pods = copies.cluster.get(f"/api/v1/namespaces/{copies.namespace}/pods")["items"]
    assert Counter(pod["metadata"]["labels"].get("team") for pod in pods)["driver-of-etl"] == 1
    assert {pod["metadata"]["labels"].get("team") for pod in pods} == {"driver-of-etl", "executor-of-etl"}
    assert copies.secrets() == []
