"""Run an operator's ``execute`` as a task does, in a separate process that imports Airflow and the operator before the
clock starts.

``python -m benchmarks.airflow_task SPECIFICATION RESULT`` is that process.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from airflow_provider_kafka_spark.core.wire.protocol import CopyJob
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess

REPLAY, BATCH, AVAILABLE_NOW, AUDIT, SPARK_SUBMIT = "replay", "batch", "available-now", "audit", "spark-submit"
_POLL_SECONDS = 0.1
_numbers = count(1)


def execute_in_child(operator: str, arguments: Mapping[str, Any], folder: Path) -> float:
    """Seconds that ``execute`` took, as :func:`run_in_child` gives them."""
    seconds, _ = run_in_child(operator, arguments, folder)
    return seconds


def run_in_child(operator: str, arguments: Mapping[str, Any], folder: Path) -> tuple[float, Any]:
    """Seconds that ``execute`` took, from its call to its return, and what it returned.

    :param operator: one of the names above.
    :param arguments: of the operator.
    :param folder: for the log and what passes between the processes.
    :raises RuntimeError: if the task failed.
    """
    name = f"task-{next(_numbers)}"
    specification, result, log = (folder / f"{name}.{end}" for end in ("json", "result", "log"))
    specification.write_text(json.dumps({"operator": operator, "arguments": dict(arguments)}))
    command = [sys.executable, "-m", "benchmarks.airflow_task", str(specification), str(result)]
    checkout = Path(__file__).resolve().parents[1]
    with OwnedProcess(command, log, name=f"Airflow task ({operator})", cwd=checkout) as process:
        while process.running:  # the caller bounds this
            time.sleep(_POLL_SECONDS)
        if process.returncode != 0 or not result.exists():
            raise RuntimeError(f"The task {operator!r} failed with exit code {process.returncode}.\n{process.tail(60)}")
    seconds, returned = json.loads(result.read_text())
    return seconds, returned


def request_of(operator: str, arguments: Mapping[str, Any]) -> CopyJob:
    """The request that an operator would submit, with its defaults, without submitting it.

    :param operator: one of the names above.
    """
    from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook

    captured: list[CopyJob] = []

    def run(_hook: object, request: CopyJob, *_: object) -> None:
        # Nothing of the job may write between the lines of a measurement.
        captured.append(replace(request, progress_seconds=3600.0))
        raise _CapturedError

    with mock.patch.object(SparkJobHook, "run", run):
        try:
            build_operator(operator, arguments).execute(task_context())
        except _CapturedError:
            return captured[0]
    raise RuntimeError(f"The {operator} operator submitted nothing for {arguments}: there were no records to copy.")


def task_context() -> dict[str, Any]:
    """What ``execute`` uses of Airflow's context."""
    task_instance = SimpleNamespace(
        dag_id="benchmark",
        task_id="copy",
        run_id=f"manual__{next(_numbers)}_{time.time_ns()}",
        map_index=-1,
        try_number=1,
        xcom_push=lambda **_: None,
    )
    return {
        "ti": task_instance,
        "task_instance": task_instance,
        "task_state_store": _TaskStateStore(),
        "dag_run": SimpleNamespace(clear_number=0),
        "outlet_events": defaultdict(_outlet_event),
    }


def _outlet_event() -> SimpleNamespace:
    return SimpleNamespace(
        key=SimpleNamespace(name="copy", uri="kafka://benchmark/copy"), extra={}, add=lambda *_, **__: None
    )


def build_operator(kind: str, arguments: Mapping[str, Any]) -> Any:
    """Import and build the operator of that name."""
    if kind == REPLAY:
        from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

        return ReplayOffsetRangesOperator(task_id="copy", name="benchmark", **arguments)
    if kind == BATCH:
        from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

        return KafkaToKafkaBatchOperator(task_id="copy", name="benchmark", **arguments)
    if kind == AVAILABLE_NOW:
        from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator

        return KafkaToKafkaAvailableNowOperator(task_id="copy", name="benchmark", **arguments)
    if kind == AUDIT:
        from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator

        return AuditReplayOperator(task_id="audit", name="benchmark", **arguments)
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    return SparkSubmitOperator(task_id="copy", name="benchmark", **arguments)


def main(argv: Sequence[str]) -> None:
    """Execute what the first file says, and write the seconds and what was returned to the second."""
    specification, result = (Path(argument) for argument in argv)
    wanted = json.loads(specification.read_text())
    operator = build_operator(wanted["operator"], wanted["arguments"])
    context = task_context()
    started = time.perf_counter()
    returned = operator.execute(context)
    seconds = time.perf_counter() - started
    result.write_text(json.dumps([seconds, returned]))


class _CapturedError(Exception):
    """Ends ``execute`` where it would have submitted."""


class _TaskStateStore:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def set(self, key: str, value: Any, **_: Any) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


if __name__ == "__main__":
    main(sys.argv[1:])
