"""Copies in pods of a real Kubernetes, from the submission to the proof; the other tests here are of the long ring.

What only this proves: a login that goes by a Secret, a driver that is found by its label when its worker has died, and
one that a trigger follows. It takes a control plane, which Go builds the first time, and two drivers.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_kafka_spark.core.spark.driver_pod import LABEL, DriverPod
from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import Try
from tests.kubernetes.copies import RECORDS, Copies
from tests.required_tools import needs_go
from tests.yarn.survivor import WorkerDied, die, event_of

pytestmark = [
    needs_go,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    # The control plane is built once.
    pytest.mark.timeout(2_700),
]


def test_a_login_by_a_secret_and_a_worker_that_dies(
    copies: Copies, with_login: KafkaBroker, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies before it has the driver's id; the retry takes the report of this driver. Meanwhile neither pods
    nor ConfigMaps nor events have the password, nor arguments and environments; the Secret has it, and is the pod's.
    Each record is there once, and nothing of the job is left but its pod.
    """
    with_login.create_topic(copies.source)
    with_login.produce(copies.source, [Record(value=b"%d" % i) for i in range(RECORDS)])
    asked: dict[str, Any] = {
        "source_conn_id": "source",
        "target_conn_id": "kafka_default",
        "offset_ranges": [f"{copies.source}:0:0:{RECORDS}"],
        "max_records_per_second": 20,
    }
    with monkeypatch.context() as patch:
        patch.setattr(RunStateStore, "started", die)
        with pytest.raises(WorkerDied):
            copies.run(**asked)
    first = copies.wait_for_driver()
    objects, (secret,) = _shown(copies), copies.items("secrets")

    result = copies.run(**asked)

    assert "airflow_provider_kafka_spark" in objects
    assert password not in objects
    assert password in base64.b64decode(secret["data"]["kafka-logins.properties"]).decode()
    assert [owner["kind"] for owner in secret["metadata"]["ownerReferences"]] == ["Pod"]
    assert copies.values() == list(range(RECORDS))
    assert (result["delivered_before"], result["records_written"], result["duplicates"]) == (0, RECORDS, 0)
    ended = [(pod.application_id, pod.phase) for pod in copies.drivers()]
    assert ended == [(first.application_id, "Succeeded")] == [(result["application_id"], "Succeeded")]
    assert (copies.items("secrets"), copies.reports()) == ([], [])


def _shown(copies: Copies) -> str:
    """What others may see of a job: on the cluster, and on this machine."""
    texts = [json.dumps(copies.items(kind)) for kind in ("pods", "configmaps", "services", "events")]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            texts.append(f"{process.cmdline()} {process.environ()}")
    return "\n".join(texts)


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
