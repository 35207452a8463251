"""Copies in pods in full. The short form is in ``test_whole_way.py``; ``e2e/test_deferred.py`` has those without a
worker.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import JobKilledError, JobReportMissingError
from airflow_provider_kafka_spark.core.spark.driver_pod import LABEL, ApiAccess, DriverPod
from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.submission import kubernetes_api
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.kubernetes.copies import RECORDS, Copies
from tests.required_tools import needs_go
from tests.waiting import until
from tests.yarn.survivor import WorkerDied, die

pytestmark = [
    needs_go,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    pytest.mark.long,
    # The control plane is built once.
    pytest.mark.timeout(2_700),
]


def with_executors(copies: Copies, number: int = 2) -> dict[str, Any]:
    conf = {key: value for key, value in copies.parameters["conf"].items() if key != "spark.kubernetes.driver.master"}
    return {"conf": {**conf, **copies.cluster.executor_conf()}, "num_executors": number, "executor_memory": "512m"}


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Act in a thread of its own, which has ended afterwards."""
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join(120)


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
    until(lambda: not copies.drivers(), "no driver is left")
    assert copies.items("secrets") == []


def test_a_retry_deletes_the_driver_that_cannot_start(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker died before it made the Secret."""
    with monkeypatch.context() as patch:
        patch.setattr(KubernetesApi, "create_secret", die)
        with pytest.raises(WorkerDied):
            copies.run()
    (first,) = copies.drivers()
    result = copies.run()
    _assert_copied_without(first, copies, result)


def test_another_task_deletes_the_driver_that_cannot_start(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its own task has no further try; ten minutes later."""
    with monkeypatch.context() as patch:
        patch.setattr(KubernetesApi, "create_secret", die)
        with pytest.raises(WorkerDied):
            copies.run()
    (first,) = copies.drivers()
    monkeypatch.setattr(kubernetes_api, "_ABANDONED_SECONDS", 0)
    # It knows nothing of the pod.
    copies.store = TaskStateStore()
    _assert_copied_without(first, copies, copies.run())


def test_a_secret_whose_worker_died_goes_with_the_next_driver(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a stream or an audit, of which no try takes the report any more."""
    with monkeypatch.context() as patch:
        patch.setattr(RunStateStore, "started", die)
        with pytest.raises(WorkerDied):
            copies.run()
    until(lambda: [pod.has_ended for pod in copies.drivers()] == [True], seconds=300)
    (left,) = copies.items("secrets")
    # It knows nothing of the pod.
    copies.store = TaskStateStore()
    copies.run()

    assert left["metadata"]["labels"] == {LABEL: left["metadata"]["name"]}
    assert copies.items("secrets") == []


def _assert_copied_without(first: DriverPod, copies: Copies, result: Any) -> None:
    assert copies.values() == list(range(RECORDS))
    assert (result["delivered_before"], result["records_written"], result["duplicates"]) == (0, RECORDS, 0)
    assert result["application_id"] != first.application_id
    assert [pod.application_id for pod in copies.drivers()] == [result["application_id"]]
    assert copies.items("secrets") == []


def test_a_driver_that_is_evicted(copies: Copies) -> None:
    """The task fails with what Kubernetes says, and the next try writes only the rest."""

    def evict() -> None:
        pod = copies.wait_for_driver()
        until(lambda: copies.kafka.consume(copies.target), "a record is written", 120.0)
        copies.cluster.evict(copies.namespace, pod.name)

    with meanwhile(evict), pytest.raises(JobReportMissingError, match="Evicted"):
        copies.run(max_records_per_second=10)
    result = copies.run()

    assert copies.values() == list(range(RECORDS))
    assert result["delivered_before"] > 0
    assert result["duplicates"] == 0
    assert copies.items("secrets") == []


def test_an_executor_that_is_evicted(copies: Copies) -> None:
    """Spark starts another one, which goes on from the committed progress."""
    evicted: list[str] = []

    def evict() -> None:
        until(lambda: copies.kafka.consume(copies.target), "a record is written", 120.0)
        path = f"/api/v1/namespaces/{copies.namespace}/pods?labelSelector=spark-role%3Dexecutor"
        name = copies.cluster.get(path)["items"][0]["metadata"]["name"]
        copies.cluster.evict(copies.namespace, name)
        evicted.append(name)

    with meanwhile(evict):
        result = copies.run(**with_executors(copies), max_records_per_second=10)

    assert evicted
    assert copies.values() == list(range(RECORDS))
    assert (result["records_written"], result["duplicates"]) == (RECORDS, 0)


def test_an_api_server_that_is_away_for_a_while(copies: Copies) -> None:
    """The driver goes on, and so does the worker when there is an answer again."""

    def away() -> None:
        copies.wait_for_driver()
        with copies.cluster.api_server().suspended():
            time.sleep(20)

    with meanwhile(away):
        result = copies.run(max_records_per_second=20)

    assert copies.values() == list(range(RECORDS))
    assert result["records_written"] == RECORDS


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
    with_login.produce(copies.source, [Record(value=b"%d" % i, partition=i % 2) for i in range(RECORDS)])
    given = with_executors(copies)
    given["conf"] |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    result = copies.run(**given, source_conn_id="source", target_conn_id="kafka_default", report_location=None)

    assert copies.values() == list(range(RECORDS))
    assert result["records_written"] == RECORDS
    until(lambda: not copies.items("pods"), "no pod is left")
    assert copies.items("secrets") == []


def test_pod_templates_and_the_history_server(copies: Copies, tmp_path: Path) -> None:
    """What templates say holds beside what the job needs, and the link leads to the history server."""
    given = {**with_executors(copies), "columns": {"value": "concat('1', string(value))"}}
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

    assert (result["records_written"], result["duplicates"]) == (RECORDS, 0)
    assert copies.values() == sorted(int(f"1{i}") for i in range(RECORDS))
    pods = copies.items("pods")
    assert Counter(pod["metadata"]["labels"].get("team") for pod in pods)["driver-of-etl"] == 1
    assert {pod["metadata"]["labels"].get("team") for pod in pods} == {"driver-of-etl", "executor-of-etl"}
    assert copies.items("secrets") == []
