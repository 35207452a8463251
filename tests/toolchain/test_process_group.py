"""The end of a process that does not listen."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess

import pytest
from airflow.sdk.execution_time.supervisor import WatchedSubprocess

from airflow_provider_kafka_spark.toolchain import process_group


class Clock:
    """Of :mod:`time`; it goes on by what is slept."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.process
def test_what_ignores_the_request_is_killed_before_airflow_kills_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent = Clock(), list[tuple[int, float]]()

    def send(group: int, number: int) -> None:
        sent.append((number, clock.now))
        os.kill(-group, number)

    monkeypatch.setattr(process_group, "time", clock)
    monkeypatch.setattr(process_group.os, "killpg", send)
    deaf = ["sh", "-c", "trap '' TERM; echo ready; while true; do sleep 1; done"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        process_group.end_group(process.pid)

        assert process.wait(60) == -signal.SIGKILL
    of_airflow = inspect.signature(WatchedSubprocess.kill).parameters["escalation_delay"].default
    # How long it then takes to die, is the machine's matter.
    assert [number for number, _ in sent] == [signal.SIGTERM, signal.SIGKILL]
    assert sent[-1][1] <= of_airflow - 1
