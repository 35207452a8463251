"""What answers of an API server count for, also those of something else in its place; ``tests/kubernetes`` has a real
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.copies.planned_copy import RemoteJob
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    ClusterUnavailableError,
    ConnectionConfigError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.wire.codec import encode
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.state.run_state import RUN_KEY, RunState
from airflow_provider_kafka_spark.state.task_state import STATE_VERSION, TaskState
from tests.airflow_fakes import TaskStateStore, task_context
from tests.web_server import serving

Answer = tuple[int, str]


def status(code: int, reason: str) -> Answer:
    return code, json.dumps({"kind": "Status", "status": "Failure", "message": "as it says", "reason": reason})


def review(*, allowed: bool) -> Answer:
    return 201, json.dumps({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})


BUSY = status(503, "ServiceUnavailable")


@dataclass
class ApiServer:
    """Gives one answer for ever."""

    url: str = ""
    says: Answer = BUSY
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str) -> Answer:
        self.asked.append(f"{method} {path}")
        return self.says


@pytest.fixture
def api_server(connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ApiServer]:
    """``spark_default`` leads to it, and the worker has no kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    server = ApiServer()
    with serving(server.answer) as server.url:
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
