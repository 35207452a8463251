"""What crosses a process border, or is kept for a retry, reads back. The codec has the rules of all fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.planned_copy import PlannedCopy
from airflow_provider_kafka_spark.core.runs.run_protocol import Mark
from airflow_provider_kafka_spark.core.streams.checkpoint import LatestSubmission, StreamManifest
from airflow_provider_kafka_spark.core.wire.codec import decode, decode_text, encode
from airflow_provider_kafka_spark.core.wire.protocol import AuditJob, CopyJob, JobReport, JobRequest, StreamJob
from airflow_provider_kafka_spark.core.wire.writer_messages import TaskFailure, TaskReport, WriterSettings
from tests.dataclass_values import values_of


def _of_a_task(message: Any) -> str:
    return json.dumps(encode(message, 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "write", "read"),
    [
        (ReplayPlan, lambda plan: json.dumps(plan.to_dict()), lambda text: ReplayPlan.from_dict(json.loads(text))),
        (PlannedCopy, lambda plan: json.dumps(encode(plan)), lambda text: decode(PlannedCopy, json.loads(text))),
        *((kind, JobRequest.to_json, JobRequest.from_json) for kind in (CopyJob, StreamJob, AuditJob)),
        (JobReport, JobReport.to_json, JobReport.from_json),
        (WriterSettings, WriterSettings.to_json, partial(decode_text, WriterSettings, version=1)),
        (TaskReport, _of_a_task, TaskReport.from_json),
        (TaskFailure, _of_a_task, TaskFailure.from_json),
        (Mark, Mark.to_json, Mark.from_json),
        (StreamManifest, StreamManifest.to_json, partial(StreamManifest.from_json, name="stream.json")),
        (LatestSubmission, LatestSubmission.to_json, partial(LatestSubmission.from_json, name="submission.json")),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
@settings(max_examples=10)
@given(data=st.data())
def test_it_reads_back(
    kind: type[Any], write: Callable[[Any], str], read: Callable[[str], Any], data: st.DataObject
) -> None:
    message = data.draw(values_of(kind))

    assert read(write(message)) == message
