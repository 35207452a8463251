"""What answers of an API server count for, also those of something else in its place; ``tests/kubernetes`` has a real
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    ClusterUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.spark.driver_pod import ApiAccess
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.state.run_state import RUN_KEY, RunState
from airflow_provider_kafka_spark.state.task_state import STATE_VERSION, TaskState
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.submission.kubernetes_driver import KubernetesDriver
from tests.airflow_fakes import TaskStateStore, task_context
from tests.web_server import serving

Answer = tuple[int, str]


def status(code: int, reason: str) -> Answer:
    return code, json.dumps({"kind": "Status", "status": "Failure", "message": "as it says", "reason": reason})


def review(*, allowed: bool) -> Answer:
    return 201, json.dumps({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})


NOT_FOUND = status(404, "NotFound")
BUSY = status(503, "ServiceUnavailable")


@dataclass
class ApiServer:
    """Always answers the same."""

    url: str = ""
    says: Answer = BUSY
    #: By method and path, in place of it.
    of: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def answer(self, method: str, path: str) -> Answer:
        self.asked.append(f"{method} {path}")
        return self.of.get(f"{method} {path.partition('?')[0]}", self.says)


@pytest.fixture
def api_server(connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """``spark_default`` leads to it, and the worker has no kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    server = ApiServer()
    with serving(server.answer, server.logins) as server.url:
        extra = {"deploy-mode": "cluster", "kafka-connector": "provided", "report-location": "file:///reports"}
        connection("spark_default", conn_type="spark", host=f"k8s://{server.url}", extra=extra)
        yield server


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (review(allowed=True), None),
        (review(allowed=False), ConnectionConfigError),
        (status(401, "Unauthorized"), ConnectionConfigError),
        (status(403, "Forbidden"), ConnectionConfigError),
        (BUSY, ClusterUnavailableError),
        (status(429, "TooManyRequests"), ClusterUnavailableError),
        ((404, "<html>"), ClusterUnavailableError),
        ((200, "<html>"), ClusterUnavailableError),
        ((200, '{"status": "ok"}'), ClusterUnavailableError),
    ],
)
def test_only_a_refusal_fails_the_task_for_good(
    api_server: ApiServer, says: Answer, kind: type[KafkaSparkError] | None
) -> None:
    api_server.says = says
    if kind is None:
        SparkJobHook().check()
        return
    with pytest.raises(kind) as raised:
        SparkJobHook().check()
    assert raised.value.retriable == (kind is ClusterUnavailableError)


@pytest.mark.parametrize(
    ("remote", "kind"),
    [
        (None, ClusterUnavailableError),
        # It goes on to the source, which has no broker here.
        (RemoteJob("kafka-spark-a", "file:///reports/a", "b"), BrokerUnavailableError),
    ],
)
def test_a_try_with_an_earlier_job_asks_for_no_rights_before_that_is_judged(
    api_server: ApiServer, connection: Callable[..., None], remote: RemoteJob | None, kind: type[KafkaSparkError]
) -> None:
    connection("kafka_default", extra={"bootstrap.servers": "127.0.0.1:1"})
    context = task_context(TaskStateStore())
    if remote is not None:
        stored = encode(RunState("0123456789abcdef", remote=remote), STATE_VERSION)
        TaskState(context, "task").set(RUN_KEY, stored)
    copy = ReplayOffsetRangesOperator(task_id="task", offset_ranges=["t:0:0:1"], target_topic="u", kafka_timeout=2)

    with pytest.raises(kind):
        copy.execute(context)  # type: ignore[arg-type]

    assert bool(api_server.asked) == (remote is None)


@pytest.fixture
def in_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The worker runs in a pod, whose service account has this token."""
    for name, content in (("TOKEN", "of-the-pod"), ("CERT", "of-its-cluster")):
        (tmp_path / name).write_text(content)
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(tmp_path / name))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return "bearer of-the-pod"


@pytest.fixture
def kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The worker has a kubeconfig, whose user has this token."""
    named = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}, "user": {"token": "of-the-kubeconfig"}}
    named["context"] = {"cluster": "a", "user": "a"}
    content = {"current-context": "a", "clusters": [named], "users": [named], "contexts": [named]}
    (tmp_path / "config").write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return "Bearer of-the-kubeconfig"


@pytest.mark.parametrize("login", ["in_pod", "kubeconfig"])
def test_requests_go_to_the_connections_cluster(
    api_server: ApiServer, request: pytest.FixtureRequest, login: str
) -> None:
    """As those of ``spark-submit``, also where the worker's own login is of another cluster. With a certificate it is
    not sent.
    """
    token = request.getfixturevalue(login)
    api_server.says = (200, '{"items": []}')

    for files in ({}, {"certificate_file": "c", "key_file": "k"}):
        api = KubernetesApi(ApiAccess(api_server.url, **files))
        assert [api.alive(), api.alive()] == [{}, {}]

    assert [path.partition("?")[0] for path in api_server.asked] == ["GET /api/v1/namespaces/default/pods"] * 4
    assert api_server.logins == [token, token, None, None]


@pytest.mark.parametrize(
    "says", [NOT_FOUND, (404, "<html>"), (404, '{"reason": "NotFound"}'), (200, "{}"), (200, "[]")]
)
def test_only_the_api_server_says_that_a_pod_is_not_there(api_server: ApiServer, says: Answer) -> None:
    """A proxy or a wrong address answers, too."""
    api_server.says, api = says, KubernetesApi(ApiAccess(api_server.url))
    if says == NOT_FOUND:
        assert api.pod("driver") is None
    else:
        with pytest.raises(RuntimeError):
            api.pod("driver")
    with pytest.raises(RuntimeError):
        api.alive()


@pytest.mark.parametrize(
    ("phase", "secret", "found"),
    [("Pending", NOT_FOUND, None), ("Pending", (200, "{}"), "spark-1"), ("Running", NOT_FOUND, "spark-1")],
)
def test_only_a_driver_that_waits_for_its_secret_is_deleted(
    api_server: ApiServer, phase: str, secret: Answer, found: str | None
) -> None:
    labels = {"spark-app-selector": "spark-1"}
    metadata = {"name": "driver", "uid": "u", "labels": labels, "creationTimestamp": "2026-11-20T00:00:00Z"}
    pods, secrets = (f"/api/v1/namespaces/default/{kind}/driver" for kind in ("pods", "secrets"))
    pod = (200, json.dumps({"metadata": metadata, "status": {"phase": phase}}))
    api_server.of = {f"GET {pods}": pod, f"GET {secrets}": secret, f"DELETE {pods}": pod}

    assert KubernetesDriver(KubernetesApi(ApiAccess(api_server.url)), "").application_with_tag("driver") == found

    assert any(asked.startswith(f"DELETE {pods}") for asked in api_server.asked) == (found is None)
