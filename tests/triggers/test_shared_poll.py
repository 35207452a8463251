"""Promises of :mod:`~airflow_provider_kafka_spark.triggers.shared_poll` that the triggers' own tests do not show."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery, BrokerSnapshot
from airflow_provider_kafka_spark.core.conditions.since import Position
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, CheckpointError, CheckpointUnavailableError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.triggers import shared_poll
from airflow_provider_kafka_spark.triggers.shared_poll import shared_poller, until_next_tick
from tests.triggers.conftest import run


@pytest.mark.parametrize(
    ("now", "at_least", "wakes"),
    [
        pytest.param(100.0, 0.0, 100.5, id="on-a-tick"),
        pytest.param(100.05, 0.0, 100.5, id="soon-after-a-tick"),
        pytest.param(100.15, 0.0, 100.5, id="later"),
        pytest.param(100.3, 0.0, 100.5, id="soon-before-the-next"),
        pytest.param(100.2, 0.4, 101.0, id="a-tick-that-would-come-too-soon"),
    ],
)
def test_equal_intervals_wake_together_whenever_they_began(
    monkeypatch: pytest.MonkeyPatch, now: float, at_least: float, wakes: float
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(shared_poll, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(shared_poll, "asyncio", SimpleNamespace(sleep=sleep))

    run(lambda: until_next_tick(0.5, at_least=at_least))

    assert now + sum(slept) == pytest.approx(wakes)


@pytest.mark.broker
def test_an_answer_has_what_each_one_needs(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> None:
    """In one round; also for checkpoints, which are not read from the broker: a damaged one fails only the queries for
    it.
    """
    name = topic()
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
    (tmp_path / "offsets" / "0").write_text(f'v1\n{metadata}\n{{"{name}":{{"0":5}}}}')
    (tmp_path / "commits" / "0").write_text("v1\n{}")

    async def main() -> None:
        async with shared_poller("kafka_default", 20) as poller:
            good, bad, plain = await asyncio.gather(
                poller.ask(BrokerQuery((name,), checkpoint_location=str(tmp_path))),
                poller.ask(BrokerQuery((name,), checkpoint_location=str(tmp_path / "nowhere"))),
                poller.ask(BrokerQuery((name,))),
            )
            assert poller.rounds == 1
        assert good.checkpoint(str(tmp_path)).offsets == {TopicPartition(name, 0): 5}
        with pytest.raises(CheckpointError):
            bad.checkpoint(str(tmp_path / "nowhere"))
        assert {TopicPartition(name, 0)} == set(plain.partitions([name])) == set(bad.partitions([name]))

    run(main)


def test_the_longest_time_out_counts(connection: Callable[..., None], closed_port: int) -> None:
    connection("kafka_down", extra={"bootstrap.servers": f"127.0.0.1:{closed_port}"})

    async def main() -> None:
        async with shared_poller("kafka_down", 0.3) as poller, shared_poller("kafka_down", 1) as same:
            assert same is poller
            with pytest.raises(BrokerUnavailableError, match="within 1 s"):
                await poller.ask(BrokerQuery(("orders",)))

    run(main)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[KafkaHook]:
    """The client of each round; the brokers answer nothing in particular."""
    clients: list[KafkaHook] = []

    def fetch(hook: KafkaHook, queries: set[BrokerQuery]) -> BrokerSnapshot:
        clients.append(hook)
        return BrokerSnapshot(ClusterState("cluster", hook.conn_id, 0, {}))

    monkeypatch.setattr(shared_poll, "fetch_snapshot", fetch)
    return clients


def test_an_edited_connection_is_used_and_one_that_is_not_answered_for_is_kept(
    asked: list[KafkaHook], connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with shared_poller("kafka_default", 1) as poller:
            for servers in ("a:9092", "a:9092", "b:9092", None):
                if servers is None:
                    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT")
                else:
                    connection("kafka_default", extra={"bootstrap.servers": servers})
                await poller.ask(BrokerQuery(("orders",)))

    run(main)
    assert len({id(hook) for hook in asked}) == 1
    monkeypatch.setattr(shared_poll, "CONFIG_SECONDS", 0.0)
    asked.clear()
    run(main)
    assert [hook.config.bootstrap_servers for hook in asked] == ["a:9092", "a:9092", "b:9092", "b:9092"]
    assert len({id(hook) for hook in asked}) == 2


def test_a_storage_that_hangs_keeps_no_other_trigger(
    asked: list[KafkaHook], connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries for one that is being read wait for that read, however often they come."""
    connection("kafka_default", extra={"bootstrap.servers": "a:9092"})
    answers, reads = threading.Event(), list[str]()

    def read(location: str) -> Position:
        reads.append(location)
        answers.wait(60)
        return Position({})

    monkeypatch.setattr(shared_poll, "read_checkpoint", read)
    monkeypatch.setattr(shared_poll, "READ_SECONDS", 0.2)

    async def main() -> None:
        query = BrokerQuery(("orders",), checkpoint_location="/nfs/1")
        async with shared_poller("kafka_default", 1) as poller:
            for _ in range(2):
                (hanging, *_) = await asyncio.gather(*(poller.ask(query) for _ in range(50)))
                with pytest.raises(CheckpointUnavailableError, match=r"'/nfs/1' must answer within 0\.2 s"):
                    hanging.checkpoint("/nfs/1")
            await asyncio.wait_for(asyncio.gather(*(asyncio.to_thread(int) for _ in range(50))), 30)
            answers.set()

    try:
        run(main)
    finally:
        answers.set()
    assert reads == ["/nfs/1"]


@pytest.mark.parametrize("hangs", [True, False])
def test_a_client_that_is_not_closed_keeps_nobody_waiting(
    asked: list[KafkaHook], connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """Who waited for it gets its failure, and the next round has another client."""
    connection("kafka_default", extra={"bootstrap.servers": "a:9092"})
    ends, fetch = threading.Event(), shared_poll.fetch_snapshot

    def fetch_once(hook: KafkaHook, queries: set[BrokerQuery]) -> BrokerSnapshot:
        monkeypatch.setattr(shared_poll, "fetch_snapshot", fetch)
        raise BrokerUnavailableError("away")

    def close(hook: KafkaHook) -> None:
        if hangs:
            ends.wait(60)
        raise RuntimeError("not closed")

    monkeypatch.setattr(shared_poll, "fetch_snapshot", fetch_once)
    monkeypatch.setattr(shared_poll, "CLOSE_SECONDS", 0.2)

    async def main() -> None:
        async with shared_poller("kafka_default", 1) as poller:
            with monkeypatch.context() as patch:
                patch.setattr(KafkaHook, "close", close)
                with pytest.raises(BrokerUnavailableError, match="away"):
                    await poller.ask(BrokerQuery(("orders",)))
                await poller.ask(BrokerQuery(("orders",)))

    try:
        run(main, 30)
    finally:
        ends.set()
    assert len(asked) == 1
