"""One copy in a pod of a real Kubernetes, from the submission to the proof; other tests of this folder are of the long
ring.

What only this proves: a login that goes by a Secret, and a driver that is found by its label when its worker has died.
It takes a control plane, which Go builds the first time, and one driver.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import psutil
import pytest

from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.kubernetes.copies import RECORDS, Copies, WorkerDied, die
from tests.required_tools import needs_go

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
