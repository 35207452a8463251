"""Copies of some records in pods."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from airflow_provider_kafka_spark.core.spark.driver_pod import DriverPod
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.submission.kubernetes_api import KubernetesApi
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.services.kubernetes_cluster import KubernetesCluster

RECORDS = 100


@dataclass
class Copies:
    """Copies of some records, in a namespace of their own."""

    kafka: KafkaBroker
    cluster: KubernetesCluster
    namespace: str
    source: str
    target: str
    parameters: dict[str, Any]
    records: int = RECORDS
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

    def items(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind in the namespace, as the cluster's administrator sees them."""
        found: list[dict[str, Any]] = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/{kind}")["items"]
        return found

    def reports(self) -> list[Path]:
        """What lies where drivers leave their reports."""
        return list(Path(urlparse(self.parameters["report_location"]).path).iterdir())

    def wait_for_driver(self, *, runs: bool = True) -> DriverPod:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = [pod for pod in self.drivers() if not runs or pod.phase == "Running"]
            if found:
                return found[0]
            time.sleep(0.2)
        raise TimeoutError("no driver")
