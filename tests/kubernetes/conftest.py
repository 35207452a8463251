"""Copies in a namespace of their own, on the Kubernetes of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from tests.kubernetes.copies import RECORDS, Copies
from tests.services.kubernetes_cluster import KubernetesCluster


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
    kafka.produce(found.source, [Record(b"k", b"%d" % i, partition=i % 2) for i in range(RECORDS)])
    return found


@pytest.fixture
def password() -> str:
    return f"hunter2-{uuid4().hex}"


@pytest.fixture
def with_login(password: str, connection: Callable[..., None]) -> Iterator[KafkaBroker]:
    """A broker that asks for a login."""
    with KafkaBroker(sasl_users={"copier": password}) as broker:
        connection("source", extra=broker.sasl_client_config("copier", "SCRAM-SHA-512"))
        yield broker
