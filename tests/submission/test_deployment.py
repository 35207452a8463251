"""Promises of :mod:`airflow_provider_kafka_spark.submission.deployment`: what follows from a master and a mode."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.submission.deployment import deployment_of


@pytest.mark.parametrize(
    ("master", "is_cluster_mode", "driver_on_worker", "executors_on_worker", "manager"),
    [
        pytest.param("local", False, True, True, None, id="local"),
        pytest.param("local-cluster[2,1,1024]", False, True, False, None, id="local-cluster"),
        pytest.param("spark://local:7077", False, True, False, None, id="standalone"),
        pytest.param("yarn", False, True, False, "YARN", id="yarn-client"),
        pytest.param("yarn", True, False, False, "YARN", id="yarn-cluster"),
        pytest.param("k8s://https://api:443", False, True, False, None, id="kubernetes-client"),
        pytest.param("k8s://https://api:443", True, False, False, "Kubernetes", id="kubernetes-cluster"),
        pytest.param("mesos://host:5050", True, False, False, None, id="another-cluster"),
    ],
)
def test_where_driver_and_executors_run(
    master: str, is_cluster_mode: bool, driver_on_worker: bool, executors_on_worker: bool, manager: str | None
) -> None:
    """And what can be asked for the application's end after the worker has died."""
    kind = deployment_of(master, is_cluster_mode=is_cluster_mode)

    assert (kind.driver_on_worker, kind.executors_on_worker, kind.manager) == (
        driver_on_worker,
        executors_on_worker,
        manager,
    )


@pytest.mark.parametrize(
    ("master", "shares"),
    [("spark://m:7077", True), ("local-cluster[1,1,512]", True), ("yarn", False), ("local", False)],
)
def test_where_executors_share_a_machine_with_others(master: str, shares: bool) -> None:
    """A standalone cluster starts executors beside processes of other users."""
    assert deployment_of(master, is_cluster_mode=False).shares_executors == shares
