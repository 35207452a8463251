"""Promises of :mod:`~airflow_provider_kafka_spark.triggers.shared_poll` that the triggers' own tests do not show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import BrokerQuery
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, CheckpointError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
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
        async with shared_poller("kafka_down", 1) as poller, shared_poller("kafka_down", 2) as same:
            assert same is poller
            with pytest.raises(BrokerUnavailableError, match="within 2 s"):
                await poller.ask(BrokerQuery(("orders",)))

    run(main)
