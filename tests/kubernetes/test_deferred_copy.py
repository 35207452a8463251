"""A deferred copy in a pod, which a trigger follows: no other test of the short rings has this trigger."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_kafka_spark.core.spark.driver_pod import LABEL, DriverPod
from tests.airflow_fakes import Try
from tests.kubernetes.copies import RECORDS, Copies
from tests.required_tools import needs_go
from tests.yarn.survivor import event_of

pytestmark = [
    needs_go,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    # The control plane is built once.
    pytest.mark.timeout(2_700),
]


def test_a_trigger_follows_the_driver(copies: Copies) -> None:
    """It sees the end, and the task takes the report of that job."""
    with pytest.raises(TaskDeferred) as left:
        copies.run(Try(), deferrable=True)
    trigger = left.value.trigger
    event = event_of(trigger)
    result = copies.run(Try(), event.payload, deferrable=True)

    assert type(trigger)(**trigger.serialize()[1]).serialize() == trigger.serialize()
    assert event.payload["status"] == "ended"
    assert copies.values() == list(range(RECORDS))
    assert [pod.application_id for pod in copies.drivers()] == [result["application_id"]]
    assert copies.items("secrets") == []


def test_what_others_have_put_into_the_namespace(copies: Copies) -> None:
    """A pod with this package's labels is no driver, and the driver runs nothing that is not the worker's."""
    labels = {"spark-role": "driver", LABEL: "foreign"}
    # It waits for a Secret.
    volumes = [{"name": "v", "secret": {"secretName": "none"}}]
    spec = {"containers": [{"name": "c", "image": "none"}], "volumes": volumes}
    pod = {"metadata": {"name": "foreign", "labels": labels}, "spec": spec}
    copies.cluster.post(f"/api/v1/namespaces/{copies.namespace}/pods", pod)
    api = copies.api()
    assert (api.alive(), api.drivers()) == ({}, [])

    (found,) = copies.items("pods")
    owner = DriverPod("foreign", found["metadata"]["uid"], "spark-1", "Pending")
    api.create_secret(owner, {"request.json": b"the worker's"})
    # As when the first answer was lost.
    api.create_secret(owner, {"request.json": b"the worker's"})
    with pytest.raises(RuntimeError, match="with other contents or another owner"):
        api.create_secret(owner, {"request.json": b"of somebody else"})
    with pytest.raises(RuntimeError, match="with other contents or another owner"):
        api.create_secret(replace(owner, uid="0"), {"request.json": b"the worker's"})
