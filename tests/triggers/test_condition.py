"""Promises of :class:`~airflow_provider_kafka_spark.triggers.condition.KafkaConditionTrigger`: many wait as one, and
one's end is not another's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_provider_kafka_spark.core.conditions.broker_snapshot import ConditionResult
from airflow_provider_kafka_spark.core.conditions.group_lag import GroupLag
from airflow_provider_kafka_spark.core.conditions.new_records import NewRecords
from airflow_provider_kafka_spark.core.conditions.timestamp_reached import TimestampReached
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    ConnectionNotFoundError,
    PlanError,
    ProtocolError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.triggers.condition import (
    KafkaConditionTrigger,
    event_of_error,
    event_of_result,
    result_of_event,
)
from airflow_provider_kafka_spark.triggers.shared_poll import open_pollers
from tests.bare_ranges import bare
from tests.triggers.conftest import Clients, in_thread, run, until

INTERVAL = 0.3


def trigger(condition: NewRecords | TimestampReached | GroupLag, **parameters: Any) -> KafkaConditionTrigger:
    """A trigger that came through the database, as all do."""
    made = KafkaConditionTrigger(
        **{
            "conn_id": "kafka_default",
            "condition": condition.to_json(),
            "poll_interval": INTERVAL,
            "kafka_timeout": 20.0,
            **parameters,
        }
    )
    path, kwargs = made.serialize()
    assert path == "airflow_provider_kafka_spark.triggers.condition.KafkaConditionTrigger"
    again = KafkaConditionTrigger(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)
    return again


def new_records(name: str, **parameters: Any) -> NewRecords:
    return NewRecords.parse(**{"topics": [name], "since": "earliest", **parameters})


async def first_event(waiting: KafkaConditionTrigger) -> dict[str, Any]:
    events = waiting.run()
    event = await anext(events)
    assert isinstance(event, TriggerEvent)
    with pytest.raises(StopAsyncIteration):
        await anext(events)
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


@pytest.mark.broker
def test_two_hundred_wake_within_two_rounds_over_one_client(
    kafka: KafkaBroker, topic: TopicFactory, clients: Clients
) -> None:
    """And while they wait there is one round of requests per interval, not two hundred."""
    name, other = topic(2), topic(suffix="other")
    kafka.produce(other, [Record(value=b"v")])

    async def main() -> None:
        waiting = [asyncio.create_task(first_event(trigger(new_records(name)))) for _ in range(200)]
        await until(lambda: open_pollers() and open_pollers()["kafka_default"].rounds, "a first round")
        (poller,) = open_pollers().values()
        rounds, started = poller.rounds, time.monotonic()
        await until(lambda: time.monotonic() - started > 4 * INTERVAL, "four intervals to pass")
        assert poller.rounds - rounds <= 5
        await until(lambda: clients() == 1, "one client")
        assert not any(task.done() for task in waiting)

        await in_thread(kafka.produce, name, [Record(value=b"v", partition=1) for _ in range(3)])
        before = poller.rounds
        events = await asyncio.gather(*waiting)
        assert poller.rounds - before <= 2

        results = [event["result"] for event in events]
        assert all(result == results[0] for result in results)
        assert bare(results[0]["value"]) == [{"topic": name, "partition": 1, "from_offset": 0, "until_offset": 3}]
        assert results[0]["text"] == "3 new records in 1 of 2 partitions"
        # The last one out closes the client.
        assert open_pollers() == {}
        await until(lambda: clients() == 0, "the client to be closed")

    run(main)


@pytest.mark.broker
def test_one_that_ends_takes_nothing_from_the_others(kafka: KafkaBroker, topic: TopicFactory, clients: Clients) -> None:
    """One that is cancelled, a topic that is deleted, an offset beyond the end, an event loop that ended in the middle:
    only the query for it fails, and the next loop does not trip over it.
    """
    name, doomed = topic(), topic(suffix="doomed")

    async def first_round() -> None:
        await until(lambda: open_pollers() and open_pollers()["kafka_default"].rounds, "a first round")

    async def broken_off() -> None:
        waiting = asyncio.ensure_future(first_event(trigger(new_records(name))))
        await first_round()
        assert not waiting.done()

    async def main() -> None:
        cancelled = [asyncio.create_task(first_event(trigger(new_records(name)))) for _ in range(9)]
        good = asyncio.create_task(first_event(trigger(new_records(name))))
        deleted = asyncio.create_task(first_event(trigger(new_records(doomed))))
        await first_round()
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)
        assert all(task.cancelled() for task in cancelled)
        await until(lambda: clients() == 1, "one client")
        beyond = await first_event(trigger(new_records(name, since={name: {"0": 5}})))
        assert (beyond["status"], beyond["fault"]["code"]) == ("error", PlanError.code)
        await in_thread(kafka.delete_topic, doomed)
        gone = (await deleted)["fault"]
        assert (gone["code"], doomed in gone["message"]) == (UnknownTopicError.code, True)
        assert not good.done()
        await in_thread(kafka.produce, name, [Record(value=b"v")])
        assert (await good)["status"] == "met"

    run(broken_off)
    run(main)
    deadline = time.monotonic() + 10
    while clients() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert clients() == 0


@pytest.mark.broker
def test_a_broker_that_goes_and_comes_back_is_waited_for(
    connection: Callable[..., None], clients: Clients, capsys: pytest.CaptureFixture[str]
) -> None:
    """All keep waiting, with one line in the log of each for the whole outage, and the client is made anew. Nothing
    blocks the event loop meanwhile: everything else in the triggerer goes on.
    """
    outputs: list[str] = []

    async def main(broker: KafkaBroker) -> None:
        flaky = {"conn_id": "kafka_flaky", "kafka_timeout": 2.0}
        condition = new_records("orders")
        tasks = [asyncio.create_task(first_event(trigger(condition, **flaky))) for _ in range(3)]
        await until(lambda: open_pollers() and open_pollers()["kafka_flaky"].rounds > 1, "two rounds")
        await in_thread(broker.kill)
        outputs.append(capsys.readouterr().out)
        assert [task.result() for task in tasks if task.done()] == []
        poller = open_pollers()["kafka_flaky"]
        rounds, longest_of_windows = poller.rounds, list[float]()
        while poller.rounds <= rounds + 2:
            assert len(longest_of_windows) < 60, "some rounds without a broker"
            longest, started, last = 0.0, time.monotonic(), time.monotonic()
            while time.monotonic() - started < 1.0:
                await asyncio.sleep(0.01)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            longest_of_windows.append(longest)
        # Airflow warns of 0.2 s. A machine that stands still does not do so in every window.
        assert min(longest_of_windows) < 0.2
        # Each of those rounds had a client of its own, and closed it.
        await until(lambda: clients() <= 1, "no client but the one in use")
        assert not any(task.done() for task in tasks)
        outputs.append(capsys.readouterr().out)
        assert outputs[-1].count("The broker does not answer") <= 3
        await in_thread(broker.restart)
        await in_thread(broker.produce, "orders", [Record(value=b"v")])
        assert [event["status"] for event in await asyncio.gather(*tasks)] == ["met"] * 3

    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    with KafkaBroker(properties=session) as broker:
        broker.create_topic("orders")
        connection("kafka_flaky", extra={"bootstrap.servers": broker.bootstrap_servers})
        run(lambda: main(broker), seconds=240)
    said = "".join([*outputs, capsys.readouterr().out])
    # A broker that is just starting on a slow machine may be an outage more.
    assert said.count("The broker does not answer") == said.count("The broker answers again") >= 3


@pytest.mark.broker
def test_a_connection_that_cannot_be_used_ends_its_own_triggers(
    secured_broker: KafkaBroker, connection: Callable[..., None]
) -> None:
    """At once, without a secret, and not those of others; so does a condition of another version."""
    right_login = secured_broker.sasl_client_config("copier")
    connection("kafka_wrong", extra={**right_login, "sasl.password": "s3cr3t-and-wrong"})
    connection("kafka_right", extra=right_login)

    async def main() -> None:
        started = time.monotonic()
        wrong = [trigger(new_records("orders"), conn_id="kafka_wrong") for _ in range(3)]
        nowhere = trigger(new_records("orders"), conn_id="nowhere")
        right = trigger(new_records("orders"), conn_id="kafka_right")
        other = KafkaConditionTrigger("kafka_default", {"kind": "other"}, INTERVAL, 20.0)
        assert "s3cr3t" not in repr(wrong[0].serialize())
        *refused, missing, unknown, met = await asyncio.gather(*map(first_event, [*wrong, nowhere, other, right]))
        assert [event["fault"]["code"] for event in refused] == [BrokerAuthenticationError.code] * 3
        assert "s3cr3t" not in json.dumps(refused)
        assert time.monotonic() - started < 15
        assert missing["fault"]["code"] == ConnectionNotFoundError.code
        assert "'nowhere' does not exist" in missing["fault"]["message"]
        assert unknown["fault"]["code"] == ProtocolError.code
        assert met["status"] == "met"

    run(main)


def test_verdicts_and_errors_travel_as_events() -> None:
    offsets, of_leader = {"offsets": {"a": {"0": 1}}}, {TopicPartition("a", 0): 4}
    result = ConditionResult(True, "text", [{"topic": "a"}], offsets, ("warning",), of_leader, of_leader)

    assert result_of_event(json.loads(json.dumps(event_of_result(result)))) == result
    with pytest.raises(BrokerAuthenticationError, match="refused"):
        result_of_event(json.loads(json.dumps(event_of_error(BrokerAuthenticationError("refused")))))


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        True,
        "met",
        {"status": "odd"},
        {"status": "met"},
        {"status": "met", "result": {"met": True, "text": "", "value": 1, "xcoms": {}, "warnings": None}},
        {"status": "error"},
        {"status": "error", "fault": {"code": "KS000", "message": "odd"}},
    ],
)
def test_any_other_event_is_an_error(event: Any) -> None:
    with pytest.raises(ProtocolError, match="on workers and triggerers"):
        result_of_event(event)
