"""A deferred copy in a real Airflow, on a real Kubernetes API: runs in a row, a clear, and a person who ends one."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.airflow_standalone import AirflowStandalone
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from tests import deferred_runs
from tests.required_tools import needs_go
from tests.services.kubernetes_cluster import KubernetesCluster

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.airflow,
    pytest.mark.timeout(900),
    needs_go,
]

_DAG = """
from airflow.sdk import DAG
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("deferred", schedule=None, params={{"pace": 0}}):
    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=["{source}:0:0:100"],
        target_topic="{target}",
        max_records_per_second="{{{{ params.pace or '' }}}}",
        report_location="{reports}",
        kafka_connector="provided",
        conf={conf!r},
        deferrable=True,
    )
"""


def test_runs_in_a_row_a_clear_and_an_end(
    kafka_broker: KafkaBroker, kubernetes_cluster: KubernetesCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each run has a driver of its own, and a clear finds that everything is there."""
    source, target = topic(suffix="source"), topic(suffix="target")
    kafka_broker.produce(source, [Record(value=b"%d" % i) for i in range(100)])
    namespace = kubernetes_cluster.new_namespace(f"etl-{uuid4().hex[:8]}")
    dags, reports, scratch = (tmp_path / name for name in ("dags", "reports", "scratch"))
    for folder in (dags, reports, scratch):
        folder.mkdir()
    reports.chmod(0o777)
    jars = ":".join(str(jar) for jar in connector_jars(None, lambda: find_spark_home("spark-submit")))
    conf = {
        **kubernetes_cluster.spark_conf(),
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.kubernetes.driver.master": "local[2]",
    }
    texts = {"source": source, "target": target, "reports": reports.as_uri()}
    (dags / "deferred.py").write_text(_DAG.format(**texts, conf=conf))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka_broker.bootstrap_servers}}
    extra = {"deploy-mode": "cluster", "namespace": namespace}
    spark = {"conn_type": "spark", "host": f"k8s://{kubernetes_cluster.api_url}", "extra": extra}
    home = AirflowHome(
        tmp_path / "home",
        dags,
        scratch,
        connections={"kafka_default": kafka, "spark_default": spark},
        settings={"KUBECONFIG": str(kubernetes_cluster.kubeconfig("airflow", namespace))},
    )
    home.migrate()

    def phases() -> list[str]:
        pods = kubernetes_cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return sorted(pod["status"]["phase"] for pod in pods)

    with AirflowStandalone(home) as airflow:
        seen = set[str]()
        first, second = deferred_runs.start(airflow), deferred_runs.start(airflow)
        for run in (first, second):
            deferred_runs.until(airflow, lambda run=run: deferred_runs.state(airflow, run, seen) == "success")  # type: ignore[misc]
            assert deferred_runs.result(airflow, run)["records_written"] == 100
        assert "deferred" in seen
        assert phases() == ["Succeeded", "Succeeded"]
        deferred_runs.clear(airflow, first)
        deferred_runs.until(airflow, lambda: deferred_runs.state(airflow, first, seen) != "success")
        deferred_runs.until(airflow, lambda: deferred_runs.state(airflow, first, seen) == "success")
        values = sorted(int(r.value or b"") for r in kafka_broker.consume(target))
        assert values == sorted([*range(100), *range(100)])

        third = deferred_runs.start(airflow, pace=1)
        deferred_runs.until(airflow, lambda: "Running" in phases())
        deferred_runs.until(airflow, lambda: deferred_runs.state(airflow, third, seen) == "deferred")
        deferred_runs.until(airflow, lambda: "Progress: " in deferred_runs.log(airflow, third))
        deferred_runs.fail(airflow, third)
        deferred_runs.until(airflow, lambda: "Running" not in phases())
    secrets = kubernetes_cluster.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    assert secrets == []
