"""Promises of :mod:`airflow_provider_kafka_spark.submission.deployment`: what follows from a master and a mode."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.submission.deployment import deployment_of


@pytest.mark.parametrize(
    ("master", "is_cluster_mode", "driver_on_worker", "executors_on_worker", "shares_executors", "manager"),
    [
        pytest.param("local", False, True, True, False, None, id="local"),
        pytest.param("local-cluster[2,1,1024]", False, True, False, True, None, id="local-cluster"),
        pytest.param("spark://local:7077", False, True, False, True, None, id="standalone"),
        pytest.param("yarn", False, True, False, False, "YARN", id="yarn-client"),
        pytest.param("yarn", True, False, False, False, "YARN", id="yarn-cluster"),
        pytest.param("k8s://https://api:443", False, True, False, False, None, id="kubernetes-client"),
        pytest.param("k8s://https://api:443", True, False, False, False, "Kubernetes", id="kubernetes-cluster"),
        pytest.param("mesos://host:5050", True, False, False, False, None, id="another-cluster"),
    ],
)
def test_where_driver_and_executors_run(
    master: str,
    is_cluster_mode: bool,
    driver_on_worker: bool,
    executors_on_worker: bool,
    shares_executors: bool,
    manager: str | None,
) -> None:
    """And what can be asked for the application's end after the worker has died. A standalone cluster starts executors
    beside processes of other users.
    """
    kind = deployment_of(master, is_cluster_mode=is_cluster_mode)

    assert (kind.driver_on_worker, kind.executors_on_worker) == (driver_on_worker, executors_on_worker)
    assert (kind.shares_executors, kind.manager) == (shares_executors, manager)
