"""Promises of :mod:`~airflow_provider_kafka_spark.core.spark.driver_pod`: what the API server says and is sent."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.spark.driver_pod import (
    FOLDER,
    LARGEST_SECRET,
    ApiAccess,
    DriverPod,
    check_secret_size,
    pod_conf,
)

_SUBMISSION = "spark.kubernetes.authenticate.submission."


def pod(status: dict[str, Any]) -> DriverPod:
    created = {"creationTimestamp": "2026-11-20T10:00:00Z"}
    metadata = {"name": "copy", "uid": "u-1", "labels": {"spark-app-selector": "spark-0a"}, **created}
    return DriverPod.of({"metadata": metadata, "status": status})


def container(phase: str, **state: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"state": state}]}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
NO_IMAGE = {"reason": "ImagePullBackOff", "message": "no such image"}
KILLED = {"exitCode": 137, "reason": "OOMKilled"}


@pytest.mark.parametrize(
    ("status", "described", "has_ended"),
    [
        pytest.param({}, "Pending", False, id="no-status-yet"),
        pytest.param(container("Running", running={}), "Running", False, id="up"),
        pytest.param(
            container("Pending", waiting=NO_IMAGE), "Pending (ImagePullBackOff, no such image)", False, id="no-image"
        ),
        pytest.param(
            {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
            "Pending (Unschedulable, 0/3 nodes)",
            False,
            id="no-node",
        ),
        pytest.param(container("Failed", terminated=KILLED), "Failed (OOMKilled, exit code 137)", True, id="killed"),
        pytest.param({"phase": "Unknown"}, "Unknown", False, id="node-is-lost"),
    ],
)
def test_the_state_of_a_pod(status: dict[str, Any], described: str, *, has_ended: bool) -> None:
    found = pod(status)

    assert (found.describe(), found.has_ended, found.application_id) == (described, has_ended, "spark-0a")
    assert found.created == datetime(2026, 11, 20, 10, tzinfo=timezone.utc).timestamp()


def test_a_pod_of_others_is_no_driver() -> None:
    with pytest.raises(KeyError):
        DriverPod.of({"metadata": {"name": "x", "uid": "u", "labels": None}})


def test_access_is_that_of_spark_submit() -> None:
    properties = {
        "spark.kubernetes.namespace": "etl",
        "spark.kubernetes.context": "prod",
        f"{_SUBMISSION}oauthToken": "hunter2",
        f"{_SUBMISSION}caCertFile": "/ca.pem",
    }

    access = ApiAccess.of("k8s://api.example.com:6443", properties)

    assert access == ApiAccess("https://api.example.com:6443", "etl", "prod", token="hunter2", ca_file="/ca.pem")
    assert ApiAccess.of("k8s://http://localhost:1", {}) == ApiAccess("http://localhost:1", "default")


def test_a_trigger_gets_no_token() -> None:
    access = ApiAccess("https://a", token="hunter2", token_file="/var/token")

    assert "hunter2" not in str(access.to_json())
    assert ApiAccess.from_json(access.to_json()) == ApiAccess("https://a", token_file="/var/token")
    # Stored by a newer version.
    assert ApiAccess.from_json({**access.to_json(), "proxy": "x"}).address == "https://a"


def test_driver_and_executors_have_the_same_secret() -> None:
    conf = pod_conf("kafka-spark-0a")

    assert conf["spark.kubernetes.driver.pod.name"] == "kafka-spark-0a"
    assert [conf[f"spark.kubernetes.{role}.secrets.kafka-spark-0a"] for role in ("driver", "executor")] == [FOLDER] * 2


def test_files_that_no_secret_holds_are_named() -> None:
    check_secret_size({"a": b"x" * LARGEST_SECRET})
    with pytest.raises(OptionError, match=r"1,048,576 bytes; they have 1,048,577, of which request.json has 1,048,576"):
        check_secret_size({"a": b"x", "request.json": b"x" * LARGEST_SECRET})
