"""A copy on YARN whose worker dies and whose application does not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse
from uuid import uuid4

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.broker_client import Record
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.airflow_fakes import TaskInstance, TaskStateStore, task_context
from tests.services.yarn_cluster import YarnCluster


class WorkerDied(BaseException):
    """As when the process is killed: nothing that should run afterwards runs."""


class DiesWhenItRuns(TaskInstance):
    """With its worker, as soon as its application has a link."""

    def xcom_push(self, key: str, value: Any) -> None:
        super().xcom_push(key, value)
        raise WorkerDied


def die(*_: object) -> NoReturn:
    raise WorkerDied


def event_of(trigger: BaseTrigger) -> TriggerEvent:
    """What a triggerer sends when it runs this trigger."""

    async def events() -> list[TriggerEvent]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    return event


@dataclass
class Survivor:
    """100 records, and the tries of one task that copies them."""

    kafka: KafkaBroker
    yarn: YarnCluster
    source: str
    target: str
    parameters: dict[str, Any]
    store: TaskStateStore = field(default_factory=TaskStateStore)
    name: str = field(default_factory=lambda: f"survivor-{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.kafka.produce(self.source, [Record(value=b"%d" % i) for i in range(100)])

    def operator(self, **parameters: Any) -> ReplayOffsetRangesOperator:
        given: dict[str, Any] = {"offset_ranges": [f"{self.source}:0:0:100"], "target_topic": self.target}
        operator = ReplayOffsetRangesOperator(task_id="replay", **{**given, **self.parameters, **parameters})
        operator.name = self.name
        return operator

    def run(
        self,
        ti: TaskInstance | None = None,
        resumes: dict[str, Any] | None = None,
        clear_number: int = 0,
        **parameters: Any,
    ) -> dict[str, Any]:
        """One try; with the event of its trigger, the rest of one."""
        operator = self.operator(**parameters)
        ti = ti or TaskInstance()
        ti.task_id = operator.task_id
        context: Any = task_context(self.store, ti=ti, clear_number=clear_number)
        return operator.execute(context) if resumes is None else operator.resume(context, resumes)

    def values(self) -> list[int]:
        return sorted(int(r.value or b"") for r in self.kafka.consume(self.target))

    def reports(self) -> list[Path]:
        """What lies where drivers leave their reports."""
        return list(Path(urlparse(self.parameters["report_location"]).path).iterdir())

    def wait_for_end(self) -> None:
        deadline = time.monotonic() + 120
        while [app for app in self.applications() if app["state"] not in ("FINISHED", "KILLED")]:
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def applications(self) -> list[dict[str, Any]]:
        return [app for app in self.yarn.applications() if app["name"] == self.name]
