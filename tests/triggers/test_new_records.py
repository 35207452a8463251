"""Promises of :class:`~airflow_provider_kafka_spark.triggers.new_records.KafkaNewRecordsTrigger`: every record
announced once, over restarts.

The triggerer's part is played by Airflow's own ``SharedStreamManager``; its asset state store is a dict, and that an
event was kept is confirmed by hand.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher
from airflow.sdk.execution_time.context import AssetStateStoreAccessors

from airflow_provider_kafka_spark.core.conditions.watch import WatchState
from airflow_provider_kafka_spark.core.errors import BoundError, InvalidInputError, OptionError
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.triggers import new_records
from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger
from tests.airflow_fakes import AssetStateStore
from tests.triggers.conftest import in_thread, run, until
from tests.triggers.triggerer import Triggerer


def ranges(event: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(r["partition"], r["from_offset"], r["until_offset"]) for r in event["ranges"]]


@pytest.mark.broker
def test_each_record_is_announced_once_over_restarts(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name, store = topic(2), AssetStateStore()

    async def main() -> None:
        await in_thread(kafka.produce, name, [Record(value=b"v", partition=0)] * 3)
        async with Triggerer(store, topics=[name]).running() as first:
            await until(lambda: first.events, "an event")
            first.confirm()
            await until(lambda: store.values["kafka-spark-watch"]["pending"] is None, "the note that it was kept")
            await in_thread(kafka.produce, name, [Record(value=b"v", partition=1)] * 2)
            await until(lambda: len(first.events) == 2, "another event")
            first.confirm()
            await until(lambda: store.values["kafka-spark-watch"]["number"] == 2, "the note that it was kept")
        await in_thread(kafka.produce, name, [Record(value=b"v", partition=1)] * 4)
        async with Triggerer(store, topics=[name]).running() as second:
            await until(lambda: second.events, "what came meanwhile")
        assert [ranges(e) for e in first.events + second.events] == [[(0, 0, 3)], [(1, 0, 2)], [(1, 2, 6)]]
        assert [e["number"] for e in first.events + second.events] == [1, 2, 3]

    run(main)


@pytest.mark.broker
def test_an_event_that_may_not_have_been_kept_is_made_again_unchanged(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """After an end in the middle the event is the very same, although more has arrived: never one that overlaps it. A
    watcher looks at once when it starts, and only then it waits for its interval.
    """
    name, store = topic(), AssetStateStore()

    async def main() -> None:
        await in_thread(kafka.produce, name, [Record(value=b"v")] * 3)
        async with Triggerer(store, topics=[name], poll_interval=3600).running() as first:
            await until(lambda: first.events, "an event")
        await in_thread(kafka.produce, name, [Record(value=b"v")] * 5)
        async with Triggerer(store, topics=[name], poll_interval=3600).running() as second:
            await until(lambda: second.events, "the same event")
            second.confirm()
            await until(lambda: len(second.events) == 2, "the next event")
        assert second.events[0] == first.events[0]
        assert ranges(second.events[1]) == [(0, 3, 8)]

    run(main)


@pytest.mark.broker
def test_nothing_is_announced_before_the_last_was_kept(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name, store = topic(), AssetStateStore()

    async def main() -> None:
        await in_thread(kafka.produce, name, [Record(value=b"v")])
        async with Triggerer(store, topics=[name]).running() as triggerer:
            await until(lambda: triggerer.events, "an event")
            await in_thread(kafka.produce, name, [Record(value=b"v")])
            async with Triggerer(AssetStateStore(), topics=[name], name="another").running() as another:
                await until(lambda: another.events, "another watcher to announce both")
            assert [ranges(e) for e in triggerer.events + another.events] == [[(0, 0, 1)], [(0, 0, 2)]]
            triggerer.confirm()
            await until(lambda: len(triggerer.events) == 2, "the next event")

    run(main)


@pytest.mark.broker
def test_latest_is_remembered_from_the_first_look_on(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """What arrives while there is no triggerer is announced, although nothing was announced before; a topic that does
    not exist yet is waited for.
    """
    name, store = topic(), AssetStateStore()
    later, other = f"{name}-later", AssetStateStore()

    async def main() -> None:
        await in_thread(kafka.produce, name, [Record(value=b"old")] * 3)
        async with Triggerer(store, topics=[name], since="latest").running() as first:
            await until(lambda: store.values, "the first look to be written down")
        await in_thread(kafka.produce, name, [Record(value=b"new")] * 2)
        async with Triggerer(store, topics=[name], since="latest").running() as second:
            await until(lambda: second.events, "an event")
        assert first.events == []
        assert ranges(second.events[0]) == [(0, 3, 5)]
        async with Triggerer(other, topics=[later], since="latest").running() as triggerer:
            await until(lambda: other.values, "a first look")
            await in_thread(kafka.create_topic, later)
            await in_thread(kafka.produce, later, [Record(value=b"v")])
            await until(lambda: triggerer.events, "an event")
            assert ranges(triggerer.events[0]) == [(0, 0, 1)]

    run(main)
    kafka.delete_topic(later)


def test_its_form_in_the_database_is_stable_and_without_secrets() -> None:
    """Airflow distinguishes triggers by it."""
    moment = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
    trigger = KafkaNewRecordsTrigger(("orders",), since=moment, min_records=5, max_wait_for_min=60, poll_interval=10)

    path, kwargs = trigger.serialize()

    assert path == "airflow_provider_kafka_spark.triggers.new_records.KafkaNewRecordsTrigger"
    assert kwargs == {
        "topics": ["orders"],
        "topic_pattern": None,
        "since": {"timestamp": 1_795_176_000_000},
        "min_records": 5,
        "max_wait_for_min": 60.0,
        "isolation_level": "read_committed",
        "poll_interval": 10.0,
        "source_conn_id": "kafka_default",
        "kafka_timeout": 30.0,
        "name": "",
    }
    assert KafkaNewRecordsTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)
    assert Asset("orders", watchers=[AssetWatcher(name="orders", trigger=trigger)]).watchers


@pytest.mark.airflow
@pytest.mark.parametrize("since", ["latest", {"orders": {"0": 5, "1": 7}}, ["orders:0:0:5"]])
def test_reading_the_dag_file_again_leaves_the_watcher_in_place(since: Any) -> None:
    """Airflow compares a hash of what is in the file with one of what is in the database; a difference would start it
    anew each time.
    """
    from airflow.models.trigger import Trigger
    from airflow.serialization.decoders import smart_decode_trigger_kwargs
    from airflow.serialization.encoders import encode_trigger
    from airflow.triggers.base import BaseEventTrigger

    trigger = KafkaNewRecordsTrigger(["orders"], since=since, max_wait_for_min=5)
    encoded = json.loads(json.dumps(encode_trigger(trigger)))
    row = Trigger(**encoded)

    assert BaseEventTrigger.hash(row.classpath, row.kwargs) == BaseEventTrigger.hash(**encoded)
    kwargs = {key: smart_decode_trigger_kwargs(value) for key, value in row.kwargs.items()}
    assert KafkaNewRecordsTrigger(**kwargs).serialize() == trigger.serialize()


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"topics": None}, InvalidInputError),
        ({"since": "soon"}, BoundError),
        ({"poll_interval": 0}, OptionError),
        ({"kafka_timeout": -1}, OptionError),
        ({"source_conn_id": ""}, InvalidInputError),
    ],
)
def test_what_cannot_be_right_is_refused_when_the_dag_file_is_read(
    parameters: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        KafkaNewRecordsTrigger(**{"topics": ["a"], **parameters})


def test_outside_of_a_watcher_it_says_what_to_use() -> None:
    async def main() -> None:
        trigger = KafkaNewRecordsTrigger(["orders"], name="outside")
        with pytest.raises(InvalidInputError, match="KafkaNewRecordsSensor"):
            await anext(trigger.run())
        with pytest.raises(InvalidInputError, match="must belong to an AssetWatcher"):
            KafkaNewRecordsTrigger.create_shared_stream_producer(trigger.serialize()[1])

    run(main)


def test_two_watchers_have_two_streams_and_two_notebooks() -> None:
    """By their names, for one asset; by Airflow's row, for two assets that are watched with the same parameters."""
    one, other = (KafkaNewRecordsTrigger(["orders"], name=name) for name in ("one", "other"))
    assert one.shared_stream_key() != other.shared_stream_key()

    stores, rows = [AssetStateStore(), AssetStateStore()], [KafkaNewRecordsTrigger(["orders"]) for _ in range(2)]
    for number, (trigger, store) in enumerate(zip(rows, stores, strict=True)):
        trigger.trigger_id, trigger.asset_state_store = number, store  # type: ignore[assignment]
    assert rows[0].shared_stream_key() != rows[1].shared_stream_key()
    for trigger, store in zip(rows, stores, strict=True):
        producer: Any = KafkaNewRecordsTrigger.create_shared_stream_producer(trigger.serialize()[1])
        assert producer._store._store is store  # noqa: SLF001 - which asset's state it is


def test_a_trigger_of_two_assets_is_refused_by_name() -> None:
    """Airflow makes one row of it, and which asset's store has the state is not known."""

    async def main() -> None:
        trigger = KafkaNewRecordsTrigger(["orders"])
        trigger.trigger_id, trigger.asset_state_store = 1, AssetStateStoreAccessors([Asset("a"), Asset("b")])
        trigger.shared_stream_key()
        producer: Any = KafkaNewRecordsTrigger.create_shared_stream_producer(trigger.serialize()[1])
        with pytest.raises(InvalidInputError, match="a name of its own"):
            await anext(producer.open_stream())

    run(main)


def test_a_triggerer_that_stood_still_does_not_go_back() -> None:
    """Another one has announced more meanwhile, in the same asset's store."""
    states = {n: WatchState(n, {TopicPartition("orders", 0): n}, {"orders": "id"}, {}) for n in (7, 8, 12)}
    store: Any = AssetStateStore()
    notebook = new_records._WatchStateStore(store, "")  # noqa: SLF001 - what writes the state

    async def main() -> None:
        assert await notebook.write(states[7]) == states[7]
        assert await notebook.write(states[12]) == states[12]
        assert await notebook.write(states[8]) == states[12]
        assert await notebook.read() == states[12]

    run(main)
