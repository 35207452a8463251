"""Promises of ``SparkApplicationTrigger``: one request for all, an outage is no end, and a user's end is an end."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.wire.job_events import JobProgress
from airflow_provider_kafka_spark.submission.yarn_rest import COMMON_TAG
from airflow_provider_kafka_spark.triggers import spark_application
from airflow_provider_kafka_spark.triggers.spark_application import SparkApplicationTrigger, open_watches
from tests.triggers.conftest import until
from tests.web_server import serving

IDS = [f"application_1795447512433_{number:04}" for number in range(200)]


class Manager:
    """Answers as YARN's ResourceManager; ``tests/yarn`` has the real one."""

    def __init__(self) -> None:
        self.address = ""
        self.alive = dict.fromkeys(IDS, "RUNNING")
        self.requests: list[str] = []
        #: In place of an answer.
        self.says: tuple[int, str] | None = None
        self.state = "ACTIVE"

    def answer(self, method: str, path: str) -> tuple[int, str]:
        if path == "/ws/v1/cluster/info":
            return 200, json.dumps({"clusterInfo": {"haState": self.state}})
        self.requests.append(path if method == "GET" else f"{method} {path}")
        if method == "PUT":
            self.alive.pop(path.split("/")[-2], None)
            return self.says or (200, "{}")
        # Those of others too, and an empty list as null.
        found = [
            {"id": name, "state": state, "applicationTags": f"{COMMON_TAG},kafka-spark-x"}
            for name, state in self.alive.items()
        ]
        return self.says or (200, json.dumps({"apps": {"app": found} if found else None}))


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setattr(spark_application, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(spark_application, "_SETTLE_SECONDS", 0.0)
    manager = Manager()
    with serving(manager.answer) as manager.address:
        yield manager


async def fired(trigger: SparkApplicationTrigger) -> str:
    (event,) = [event async for event in trigger.run()]
    assert event.payload["application_id"] == trigger.application_id
    return str(event.payload["status"])


@pytest.mark.timeout(60)
def test_all_triggers_of_a_cluster_share_one_request(manager: Manager) -> None:
    """Each sees the end of its own application, and nothing is left open."""

    async def follow() -> None:
        waiting = [asyncio.ensure_future(fired(SparkApplicationTrigger(name, [manager.address]))) for name in IDS]
        await until(lambda: len(manager.requests) >= 3, "requests")
        (watch,) = open_watches().values()
        assert not any(task.done() for task in waiting)
        manager.alive = {IDS[0]: "RUNNING"}
        assert await asyncio.gather(*waiting[1:]) == ["ended"] * 199
        assert not waiting[0].done()
        manager.alive = {}
        assert await waiting[0] == "ended"
        assert len(manager.requests) == watch.looks < 30
        assert open_watches() == {}

    asyncio.run(follow())
    assert all("applicationTags=airflow-kafka-spark&states=NEW," in request for request in manager.requests)


@pytest.mark.timeout(60)
def test_progress_is_in_the_log(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each state of it once, and a file that says nothing of it does no harm."""
    monkeypatch.setattr(spark_application, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(spark_application, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(SparkApplicationTrigger, "log", logging.getLogger("trigger"))
    file = tmp_path / "report.json.progress"

    async def follow() -> None:
        trigger = SparkApplicationTrigger(IDS[0], [manager.address], report_uri=str(tmp_path / "report.json"))
        waiting = asyncio.ensure_future(fired(trigger))
        for content in ("", "{", "[1]", JobProgress(1, 4, 9.0).to_json(), JobProgress(2, 4, 12.0, 2.0).to_json()):
            file.write_text(content)
            seen = len(manager.requests)
            await until(lambda: len(manager.requests) >= seen + 4, "requests")  # noqa: B023 - called at once
        manager.alive = {}
        assert await waiting == "ended"

    with caplog.at_level("INFO"):
        asyncio.run(follow())

    said = [message.removeprefix("Progress: ") for message in caplog.messages if message.startswith("Progress: ")]
    assert said == ["25%: 1 of at most 4 records", "50%: 2 of at most 4 records, 2 records/s, about 1 s left"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("says", [(503, "busy"), (200, "<html>"), (200, "[]"), (200, '{"apps": {"app": [1]}}')])
def test_an_outage_is_no_end(manager: Manager, says: tuple[int, str]) -> None:
    """Also where a proxy answers in place of YARN."""

    async def follow() -> None:
        waiting = asyncio.ensure_future(fired(SparkApplicationTrigger(IDS[0], [manager.address])))
        await until(lambda: len(manager.requests) >= 1, "requests")
        manager.says = says
        seen = len(manager.requests)
        await until(lambda: len(manager.requests) >= seen + 3, "requests")
        assert not waiting.done()
        manager.alive, manager.says = {}, None
        assert await waiting == "ended"

    asyncio.run(follow())


@pytest.mark.timeout(60)
def test_after_a_long_outage_a_worker_decides(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_application, "MAX_OUTAGE_SECONDS", 0.5)
    manager.says = (503, "")

    assert asyncio.run(fired(SparkApplicationTrigger(IDS[0], [manager.address]))) == "unknown"


@pytest.mark.timeout(60)
def test_the_deadline_ends_the_wait_at_its_time(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at the next request."""
    monkeypatch.setattr(spark_application, "POLL_SECONDS", 3_600.0)
    trigger = SparkApplicationTrigger(IDS[0], [manager.address], deadline=time.time() + 0.3)

    assert asyncio.run(fired(trigger)) == "timed_out"
    assert manager.requests == []


@pytest.mark.timeout(60)
def test_a_triggerer_that_stops_ends_no_application(manager: Manager) -> None:
    """Only the order of a person does."""
    trigger = SparkApplicationTrigger(IDS[0], [manager.address])

    async def stop() -> None:
        waiting = asyncio.ensure_future(fired(trigger))
        await until(lambda: len(manager.requests) >= 1, "requests")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await trigger.cleanup()
        assert open_watches() == {}
        assert IDS[0] in manager.alive
        await trigger.on_kill()

    asyncio.run(stop())
    assert IDS[0] not in manager.alive
    assert f"PUT /ws/v1/cluster/apps/{IDS[0]}/state" in manager.requests


def test_an_order_that_yarn_does_not_take_is_only_logged(manager: Manager) -> None:
    manager.says = (403, "")

    asyncio.run(SparkApplicationTrigger(IDS[0], [manager.address]).on_kill())


@pytest.mark.timeout(60)
def test_another_resource_manager_becomes_the_active_one(manager: Manager) -> None:
    """While the task waits; it has the order of a person too."""
    other = Manager()
    other.state = "STANDBY"

    async def fail_over() -> str:
        trigger = SparkApplicationTrigger(IDS[0], [manager.address, other.address])
        waiting = asyncio.ensure_future(fired(trigger))
        await until(lambda: len(manager.requests) >= 1, "requests")
        manager.state, manager.says, other.state = "STANDBY", (503, ""), "ACTIVE"
        await until(lambda: len(other.requests) >= 1, "requests to the other one")
        await trigger.on_kill()
        return await waiting

    with serving(other.answer) as other.address:
        assert asyncio.run(fail_over()) == "ended"
    assert IDS[0] not in other.alive
    assert IDS[0] in manager.alive
