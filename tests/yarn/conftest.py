"""Operators' parameters that lead to the YARN of the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.submission.spark_submission import SparkSubmission
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.services.yarn_cluster import YarnCluster
from tests.yarn.survivor import Survivor


@pytest.fixture
def on_yarn(
    kafka: KafkaBroker,
    yarn_cluster: YarnCluster,
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> dict[str, Any]:
    """In cluster mode; reports go to a folder of the test's own. ``kafka_default`` leads to a broker without logins."""
    for name, value in {**yarn_cluster.environment(), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn_cluster.web_address}
    connection("spark_default", conn_type="spark", host="yarn", extra=extra)
    reports = tmp_path / "reports"
    reports.mkdir()
    return {
        "report_location": reports.as_uri(),
        "conf": yarn_cluster.spark_conf(),
        "num_executors": 1,
        "driver_memory": "512m",
        "executor_memory": "512m",
    }


@pytest.fixture
def survivor(
    kafka: KafkaBroker,
    topic: TopicFactory,
    yarn_cluster: YarnCluster,
    on_yarn: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Survivor:
    monkeypatch.setattr(SparkSubmission, "end", lambda _: None)
    return Survivor(kafka, yarn_cluster, topic(suffix="source"), topic(suffix="target"), on_yarn)
