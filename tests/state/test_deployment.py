"""Promises of :mod:`airflow_provider_kafka_spark.state.deployment`: two deployments of Airflow are told apart."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.state.deployment import VARIABLE, deployment_name
from airflow_provider_kafka_spark.toolchain.settings import DEPLOYMENT
from tests.airflow_fakes import Variables, use_variables


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """Those of a new deployment, whose configuration has no name for it."""
    monkeypatch.delenv(DEPLOYMENT.variable)
    return use_variables(monkeypatch, Variables())


def test_a_deployment_without_a_name_gets_a_random_one_that_stays(
    variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers read it, and an upgrade keeps it. Another deployment has another one."""
    name = deployment_name()

    assert deployment_name() == name == variables.values[VARIABLE]
    use_variables(monkeypatch, Variables())
    assert deployment_name() != name


def test_the_name_in_the_configuration_counts(variables: Variables, monkeypatch: pytest.MonkeyPatch) -> None:
    variables.values[VARIABLE] = "random"
    monkeypatch.setenv(DEPLOYMENT.variable, "production")

    assert deployment_name() == "production"
