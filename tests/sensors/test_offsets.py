"""Promises of the sensors in :mod:`~airflow_provider_kafka_spark.sensors.offsets`: the same answer by poking and
deferred, and one clear error for each bad input.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.conditions.broker_snapshot import ConditionResult
from airflow_provider_kafka_spark.core.conditions.last_run import LastRun
from airflow_provider_kafka_spark.core.errors import (
    BrokerUnavailableError,
    ConcurrentRunsError,
    ConsumerGroupError,
    DataLossError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import TopicPartition
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaOffsetsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.state.last_run import LastRunStore
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.triggers.condition import KafkaConditionTrigger, event_of_error
from tests.airflow_fakes import TaskInstance, Variables, task_context, use_variables
from tests.bare_ranges import bare

INTERVAL = 0.2
#: The second line of a batch's file in a checkpoint of Spark's.
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def wait_in_triggerer(kind: type[KafkaOffsetsSensor], ti: TaskInstance | None = None, **parameters: Any) -> Any:
    """Have a sensor deferred, its trigger run as after a trip through the database, and the task resumed."""
    sensor = kind(task_id="wait", deferrable=True, poke_interval=INTERVAL, **parameters)
    context: Any = task_context(ti=ti)
    try:
        return sensor.execute(context)
    except TaskDeferred as deferred:
        _, kwargs = deferred.trigger.serialize()
        method = deferred.method_name

    async def event() -> Any:
        return await anext(KafkaConditionTrigger(**json.loads(json.dumps(kwargs))).run())

    payload = asyncio.run(asyncio.wait_for(event(), 60)).payload
    resumed = kind(task_id="wait", deferrable=True, poke_interval=INTERVAL, **parameters)
    return getattr(resumed, method)(context, event=payload)


def wait_by_poking(kind: type[KafkaOffsetsSensor], ti: TaskInstance | None = None, **parameters: Any) -> Any:
    sensor = kind(task_id="wait", deferrable=False, **{"poke_interval": INTERVAL, "timeout": 60, **parameters})
    context: Any = task_context(ti=ti)
    return sensor.execute(context)


def poke_once(kind: type[KafkaOffsetsSensor], **parameters: Any) -> Any:
    """One look: what was found, or False."""
    context: Any = task_context()
    return kind(task_id="wait", **parameters).poke(context)


@pytest.mark.broker
@pytest.mark.parametrize("wait", [wait_by_poking, wait_in_triggerer])
def test_what_is_new_is_ready_to_be_replayed(kafka: KafkaBroker, topic: TopicFactory, wait: Callable[..., Any]) -> None:
    name, target = topic(3), topic(suffix="target")
    kafka.produce(name, [Record(value=b"v", partition=i % 2) for i in range(20)])
    ti = TaskInstance()

    found = wait(KafkaNewRecordsSensor, ti, topics=[name], since={name: {"0": 7, "1": 10, "2": 0}})

    assert bare(found) == [{"topic": name, "partition": 0, "from_offset": 7, "until_offset": 10}]
    assert ti.pushed == {"offsets": {name: {"0": 10, "1": 10, "2": 0, "topic_id": found[0]["topic_id"]}}}
    context: Any = task_context()
    replay = ReplayOffsetRangesOperator(task_id="r", offset_ranges=found, target_topic=target, plan_only=True)
    assert replay.execute(context)["planned_records"] == 3
    # What was pushed is the next since: nothing is new to it, and then only what comes.
    assert poke_once(KafkaNewRecordsSensor, topics=[name], since=ti.pushed["offsets"]) is False
    kafka.produce(name, [Record(value=b"v", partition=2)])
    assert bare(wait(KafkaNewRecordsSensor, topics=[name], since=ti.pushed["offsets"])) == [
        {"topic": name, "partition": 2, "from_offset": 0, "until_offset": 1}
    ]


@pytest.mark.broker
@pytest.mark.parametrize("wait", [wait_by_poking, wait_in_triggerer])
def test_each_record_is_found_by_one_run(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, wait: Callable[..., Any]
) -> None:
    """A retry, a clear and a try that died after it had found records return the same ranges."""
    name, stored = topic(2), use_variables(monkeypatch, Variables())

    def found(run_id: str, since: object = "last_run") -> list[tuple[int, int, int]]:
        ti = TaskInstance(dag_id="dag", task_id="wait", run_id=run_id)
        ranges = wait(KafkaNewRecordsSensor, ti, topics=[name], since=since, timeout=20)
        assert ti.pushed["offsets"].keys() == {name}
        return [(r["partition"], r["from_offset"], r["until_offset"]) for r in ranges]

    def produce(count: int, partition: int) -> None:
        kafka.produce(name, [Record(value=b"v", partition=partition)] * count)

    produce(3, 0)
    first = found("first")
    produce(2, 0)
    produce(4, 1)
    second = found("second")
    produce(1, 1)

    assert (first, second) == ([(0, 0, 3)], [(0, 3, 5), (1, 0, 4)])
    assert (found("first"), found("second")) == (first, second)
    assert found("third") == [(1, 4, 5)]
    assert list(stored.values) == ["kafka_spark_last_run:dag:wait"]
    stored.values.clear()
    produce(1, 0)
    assert found("fourth", {"last_run": {"offsets": {name: {"0": 5, "1": 5}}}}) == [(0, 5, 6)]


@pytest.mark.broker
def test_a_mapped_sensor_goes_on_where_its_topics_ended(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list has grown at its front since the last run: a map index is only a place in it."""
    orders, payments, invoices = (topic(suffix=name) for name in ("orders", "payments", "invoices"))
    use_variables(monkeypatch, Variables())

    def found(run_id: str, *topics: str) -> list[list[tuple[int, int]]]:
        results = []
        for i, name in enumerate(topics):
            context: Any = task_context(ti=TaskInstance(run_id=run_id, map_index=i))
            looked: Any = KafkaNewRecordsSensor(task_id="wait", topics=[name], since="last_run").poke(context)
            results.append([(r["from_offset"], r["until_offset"]) for r in looked.xcom_value] if looked else [])
        return results

    for name in (orders, payments):
        kafka.produce(name, [Record(value=b"v")] * 3)
    assert found("first", orders, payments) == [[(0, 3)], [(0, 3)]]
    for name in (payments, invoices):
        kafka.produce(name, [Record(value=b"v")] * 2)

    assert found("second", invoices, orders, payments) == [[(0, 2)], [], [(3, 5)]]
    assert found("first", invoices, orders, payments)[1:] == [[(0, 3)], [(0, 3)]]


@pytest.mark.broker
def test_the_first_run_may_begin_now(kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while it waits is found, and what comes before the next run. A topic that is created after the first
    look is all new, however often the sensor has looked before.
    """
    name, later = topic(), f"later-{uuid4().hex[:8]}"
    use_variables(monkeypatch, Variables())
    kafka.produce(name, [Record(value=b"v")] * 3)
    since = {"last_run": "latest"}

    def found(run_id: str) -> list[tuple[int, int]]:
        ranges = wait_in_triggerer(
            KafkaNewRecordsSensor, TaskInstance(run_id=run_id), topics=[name], since=since, timeout=20
        )
        return [(r["from_offset"], r["until_offset"]) for r in ranges]

    context: Any = task_context()
    assert KafkaNewRecordsSensor(task_id="task", topics=[name], since=since).poke(context) is False
    kafka.produce(name, [Record(value=b"v")] * 2)

    assert found("first") == [(3, 5)]
    kafka.produce(name, [Record(value=b"v")])
    assert found("second") == [(5, 6)]

    waits: dict[str, Any] = {"since": since, "missing_topic": "wait"}
    sensor = KafkaNewRecordsSensor(task_id="later", topic_pattern=f"{later}.*", **waits)
    context = task_context(ti=TaskInstance(task_id="later"))
    assert [sensor.poke(context) for _ in range(2)] == [False, False]
    kafka.produce(kafka.create_topic(f"{later}-orders"), [Record(value=b"v")] * 3)
    looked: Any = sensor.poke(context)
    assert [(r["from_offset"], r["until_offset"]) for r in looked.xcom_value] == [(0, 3)]


@pytest.mark.broker
def test_two_runs_at_a_time_do_not_find_the_same(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look at the same position; the later one finds nothing twice, and a retry of it goes on."""
    name, stored = topic(), use_variables(monkeypatch, Variables())
    kafka.produce(name, [Record(value=b"v")] * 3)
    stale = dict(stored.values)
    real = LastRunStore.load

    def poke(run_id: str) -> Any:
        sensor = KafkaNewRecordsSensor(task_id="wait", topics=[name], since="last_run")
        context: Any = task_context(ti=TaskInstance(run_id=run_id))
        return sensor.poke(context)

    def load_of_before(store: LastRunStore) -> LastRun:
        # Only the first look of a poke, as if the other run had come in between.
        monkeypatch.setattr(LastRunStore, "load", real)
        now, stored.values = stored.values, stale
        try:
            return real(store)
        finally:
            stored.values = now

    assert poke("first").xcom_value[0]["until_offset"] == 3
    monkeypatch.setattr(LastRunStore, "load", load_of_before)
    with pytest.raises(ConcurrentRunsError, match="max_active_runs=1"):
        poke("second")
    assert poke("second") is False
    kafka.produce(name, [Record(value=b"v")])
    assert poke("second").xcom_value[0]["from_offset"] == 3


def test_two_runs_that_store_in_the_same_moment_do_not_both_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them fails, also in a DAG of one run at a time: beside it, Airflow lets a backfill run."""

    class Overtaken(Variables):
        """What the next task has written is replaced by that of another one that has read the same."""

        def set(self, key: str, value: str, description: str | None = None) -> None:
            super().set(key, value.replace('"first"', '"second"'), description)

    offsets = {"orders": {"0": 3, "topic_id": "a"}}
    ranges = [{"topic": "orders", "partition": 0, "from_offset": 0, "until_offset": 3, "topic_id": "a"}]
    found = ConditionResult(True, "3 new records", ranges, {"offsets": offsets})
    alone = DAG("dag", max_active_runs=1)
    for kind, dag in ((Variables, None), (Variables, alone), (Overtaken, None), (Overtaken, alone)):
        slept = list[float]()
        use_variables(monkeypatch, kind(), 1.0)
        monkeypatch.setattr("airflow_provider_kafka_spark.state.variables.time.sleep", slept.append)
        store = LastRunStore(task_context(ti=TaskInstance(run_id="first"), dag=dag), {})
        fails = kind is Overtaken
        with pytest.raises(ConcurrentRunsError, match="in the same moment") if fails else nullcontext():
            store.add(found)
        assert slept == [1.0]


@pytest.mark.broker
@pytest.mark.parametrize("wait", [wait_by_poking, wait_in_triggerer])
def test_records_that_come_while_it_waits_end_the_wait(
    kafka: KafkaBroker, topic: TopicFactory, wait: Callable[..., Any]
) -> None:
    """Aborted and uncommitted records do not; the sensor sees the first committed one."""
    name = topic()

    async def main() -> None:
        with kafka.open_transaction(name, [Record(value=b"open")]) as transaction:
            waiting = asyncio.create_task(
                asyncio.to_thread(wait, KafkaNewRecordsSensor, topics=[name], since="earliest")
            )
            with KafkaHook() as hook:
                # Written, and not stable.
                assert (await asyncio.to_thread(hook.state, [name])).topic(name).partitions[0].last_stable == 0
            assert not waiting.done()
            await asyncio.to_thread(transaction.commit)
        assert bare(await waiting) == [{"topic": name, "partition": 0, "from_offset": 0, "until_offset": 2}]

    asyncio.run(main())


@pytest.mark.broker
def test_since_a_group_a_timestamp_or_a_checkpoint(kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> None:
    name, group = topic(), f"group-{uuid4().hex[:8]}"
    start = int(time.time() * 1000) - 100_000
    kafka.produce(name, [Record(value=b"v", timestamp=start + i * 1000) for i in range(20)])
    with KafkaHook() as hook:
        ConsumerGroup(hook, group).commit({TopicPartition(name, 0): 15})
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for number, end in ((0, 4), (1, 12)):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{METADATA}\n{{"{name}":{{"0":{end}}}}}')
    # The second batch was begun, and not finished.
    (tmp_path / "commits" / "0").write_text("v1\n{}")

    not_yet = {"checkpoint_location": str(tmp_path / "not yet"), "if_missing": "earliest"}
    sinces: list[tuple[Any, int]] = [(f"group:{group}", 15), (start + 8_500, 9), (str(tmp_path), 4), (not_yet, 0)]
    for since, first in sinces:
        expected = [{"topic": name, "partition": 0, "from_offset": first, "until_offset": 20}]
        assert bare(wait_by_poking(KafkaNewRecordsSensor, topics=[name], since=since)) == expected
        assert bare(wait_in_triggerer(KafkaNewRecordsSensor, topics=[name], since=since)) == expected


@pytest.mark.broker
def test_fewer_records_are_enough_after_the_longest_wait(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Counted from the timestamp of the first new record, which the broker knows: in every mode alike."""
    name, now = topic(), int(time.time() * 1000)
    kafka.produce(name, [Record(value=b"v", timestamp=now - 100_000), Record(value=b"v", timestamp=now - 50_000)])
    common: dict[str, Any] = {"topics": [name], "min_records": 100}

    old = {**common, "since": {name: {"0": 1}}, "max_wait_for_min": timedelta(seconds=30)}
    assert poke_once(KafkaNewRecordsSensor, **old)
    young = {**common, "since": {name: {"0": 1}}, "max_wait_for_min": 300}
    assert poke_once(KafkaNewRecordsSensor, **young) is False
    assert poke_once(KafkaNewRecordsSensor, **common, since="earliest", max_wait_for_min=60)
    assert bare(wait_in_triggerer(KafkaNewRecordsSensor, **old)) == [
        {"topic": name, "partition": 0, "from_offset": 1, "until_offset": 2}
    ]
    # It comes true by waiting alone.
    soon = (time.time() * 1000 - (now - 50_000)) / 1000 + 2
    started = time.monotonic()
    assert wait_in_triggerer(KafkaNewRecordsSensor, **{**old, "max_wait_for_min": soon})
    assert time.monotonic() - started > 0.5


@pytest.mark.broker
def test_a_window_is_complete_when_every_partition_is_behind_it(
    kafka: KafkaBroker, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    name, now = topic(3), int(time.time() * 1000)
    at = now - 60_000
    kafka.produce(name, [Record(value=b"v", partition=0, timestamp=at + i * 1000) for i in range(-5, 5)])
    kafka.produce(name, [Record(value=b"v", partition=1, timestamp=at - 5000)])

    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=at) is False
    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=at, idle_after=3600) is False
    found = wait_in_triggerer(
        KafkaTimestampReachedSensor, topics=[name], timestamp=at, idle_after=timedelta(seconds=30)
    )

    # As ending_offsets of a copy takes it.
    assert found[name].pop("topic_id")
    assert found == {name: {"0": 5, "1": 1, "2": 0}}
    said = capsys.readouterr().out
    assert f"{name}[1] (newest record" in said
    assert f"{name}[2] (empty" in said
    assert f"{name}[0] (" not in said


@pytest.mark.broker
def test_only_a_record_of_a_credible_time_reaches_a_moment(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """The marker of a transaction has the time of its end, and a producer may write microseconds."""
    name = topic(config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    now = int(time.time() * 1000)
    kafka.produce_transaction(name, [Record(value=b"v", timestamp=now - 501_000)])
    kafka.produce(name, [Record(value=b"v", timestamp=now * 1000)])

    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=now) is False
    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=now, idle_after=3600) is False
    # The newest credible record is old.
    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=now - 500_000, idle_after=400)
    common = {"topics": [name], "since": {name: {"0": 2}}, "min_records": 5}
    assert poke_once(KafkaNewRecordsSensor, **common) is False
    # Nobody knows how old it is.
    assert poke_once(KafkaNewRecordsSensor, **common, max_wait_for_min=60)
    kafka.produce(name, [Record(value=b"v", timestamp=now)])
    assert poke_once(KafkaTimestampReachedSensor, topics=[name], timestamp=now)


@pytest.mark.broker
def test_a_group_has_caught_up(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """Looking commits nothing."""
    name, group = topic(2), f"group-{uuid4().hex[:8]}"
    kafka.produce(name, [Record(value=b"v", partition=i % 2) for i in range(40)])
    assert poke_once(ConsumerGroupLagSensor, topics=[name], group_id=group, max_lag=0) is False
    assert poke_once(KafkaNewRecordsSensor, topics=[name], since=f"group:{group}")
    assert kafka.committed(group, name) == {}
    with KafkaHook() as hook:
        ConsumerGroup(hook, group).commit({TopicPartition(name, 0): 15})
    common = {"topics": [name], "group_id": group}

    assert poke_once(ConsumerGroupLagSensor, **common, max_lag=24) is False
    assert poke_once(ConsumerGroupLagSensor, **common, max_lag=19, per_partition=True) is False
    for parameters in ({"max_lag": 25}, {"max_lag": 20, "per_partition": True}, {"max_lag": "25"}):
        assert wait_in_triggerer(ConsumerGroupLagSensor, **common, **parameters) == {name: {"0": 5, "1": 20}}


@pytest.mark.broker
def test_records_that_have_aged_out_fail_permanently(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    kafka.produce(name, [Record(value=b"v") for _ in range(20)])
    kafka.delete_records(name, {0: 10})

    with pytest.raises(AirflowFailException, match=r"DataLossError.*4 to 10"):
        wait_in_triggerer(KafkaNewRecordsSensor, topics=[name], since={name: {"0": 4}})
    permitted = wait_in_triggerer(KafkaNewRecordsSensor, topics=[name], since={name: {"0": 4}}, fail_on_data_loss=False)
    assert bare(permitted) == [{"topic": name, "partition": 0, "from_offset": 10, "until_offset": 20}]


_RECORDS = {"topics": ["orders"], "since": "earliest"}
_REACHED = {"topics": ["orders"], "timestamp": 1_795_176_000_000}
_LAG = {"topics": ["orders"], "group_id": "copy", "max_lag": 0}


@pytest.mark.broker
@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize(
    ("kind", "parameters", "fragment"),
    [
        (KafkaNewRecordsSensor, {"topics": ["no-such-topic"]}, "'no-such-topic' does not exist"),
        (KafkaNewRecordsSensor, {"since": "/no/such/checkpoint"}, "CheckpointMissingError"),
        (KafkaNewRecordsSensor, {"poke_interval": 0}, "poke_interval"),
        (KafkaNewRecordsSensor, {"kafka_timeout": 0}, "kafka_timeout"),
        (KafkaNewRecordsSensor, {"source_conn_id": " "}, "source_conn_id"),
        (KafkaNewRecordsSensor, {"source_conn_id": "wrong"}, "BrokerAuthenticationError"),
        (KafkaTimestampReachedSensor, {"timestamp": "yesterday"}, "timestamp must be ISO"),
        (ConsumerGroupLagSensor, {"max_lag": -1}, "max_lag"),
    ],
)
def test_bad_input_is_one_clear_error_at_once(
    kafka: KafkaBroker,
    secured_broker: KafkaBroker,
    connection: Callable[..., None],
    kind: type[KafkaOffsetsSensor],
    parameters: dict[str, Any],
    fragment: str,
    deferrable: bool,
) -> None:
    """Nothing is deferred for it, and nothing is tried again, or the task is skipped; ``core/conditions`` has the other
    rules.
    """
    connection("wrong", extra={**secured_broker.sasl_client_config("copier"), "sasl.password": "wrong"})
    good = {KafkaNewRecordsSensor: _RECORDS, KafkaTimestampReachedSensor: _REACHED, ConsumerGroupLagSensor: _LAG}[kind]
    given: dict[str, Any] = {"task_id": "wait", "deferrable": deferrable, **good, **parameters}
    context: Any = task_context()
    started = time.monotonic()
    with pytest.raises(AirflowFailException) as raised:
        kind(**given).execute(context)
    assert fragment in str(raised.value)
    assert time.monotonic() - started < 10
    if "'no-such-topic'" in fragment:
        with pytest.raises(AirflowSkipException):
            kind(**given, soft_fail=True).execute(context)


def test_a_deferred_wait_needs_an_end() -> None:
    """Airflow takes a time-out of 0 for none at all."""
    context: Any = task_context()
    with pytest.raises(AirflowFailException, match="timeout must be"):
        KafkaNewRecordsSensor(task_id="wait", deferrable=True, timeout=0, **_RECORDS).execute(context)


def test_a_dead_broker_is_asked_until_the_time_out_with_one_line_in_the_log(
    connection: Callable[..., None], closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    connection("kafka_default", extra={"bootstrap.servers": f"127.0.0.1:{closed_port}"})
    parameters: dict[str, Any] = {**_RECORDS, "kafka_timeout": 0.2, "poke_interval": 0.1}

    context: Any = task_context()
    with pytest.raises(AirflowSensorTimeout):
        KafkaNewRecordsSensor(task_id="wait", timeout=1, **parameters).execute(context)
    assert capsys.readouterr().out.count("The broker does not answer") == 1
    with pytest.raises(TaskDeferred) as deferred:
        KafkaNewRecordsSensor(task_id="wait", timeout=2, deferrable=True, **parameters).execute(context)
    assert deferred.value.timeout == timedelta(seconds=2)


@pytest.mark.broker
def test_reschedule_mode_frees_the_worker_between_looks(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    context: Any = task_context()
    sensor = KafkaNewRecordsSensor(task_id="wait", topics=[name], since="earliest", mode="reschedule")
    monkeypatch.setattr(TaskInstance, "get_first_reschedule_date", lambda *_: None, raising=False)

    with pytest.raises(AirflowRescheduleException):
        sensor.execute(context)


def test_an_event_of_the_trigger_is_judged_in_full() -> None:
    """Permanent errors fail the task permanently, and others may be retried."""
    sensor = KafkaNewRecordsSensor(task_id="wait", **_RECORDS)
    context: Any = task_context()

    with pytest.raises(AirflowFailException, match="ProtocolError"):
        sensor.execute_complete(context, None)
    with pytest.raises(AirflowFailException, match="DataLossError: gone"):
        sensor.execute_complete(context, event_of_error(DataLossError("gone")))
    for error in (ConsumerGroupError("later"), BrokerUnavailableError("later")):
        with pytest.raises(type(error)):
            sensor.execute_complete(context, event_of_error(error))


@pytest.mark.parametrize("rendered", ["s3://admin_conn@payroll/x", '{"checkpoint_location": "/etc"}'])
def test_only_the_dag_file_says_that_a_checkpoint_is_read(rendered: str) -> None:
    """An edited result of another task leads to no other storage, and to no connection of Airflow's."""
    sensor = KafkaNewRecordsSensor(task_id="wait", topics=["orders"], since="{{ params.since }}")
    context: Any = {**task_context(), "params": {"since": rendered}}
    sensor.render_template_fields(context)

    with pytest.raises(AirflowFailException, match="may not decide which storage is read"):
        sensor.poke(context)


def test_templated_fields_take_what_another_task_returns() -> None:
    """Nothing is looked at before ``execute``, so that an XComArg may stand there, and mapping sees every parameter."""
    with DAG("d"):
        before = BaseOperator(task_id="before")
        output: Any = before.output
        new = KafkaNewRecordsSensor(task_id="new", topics=output, since=output, min_records=output)
        reached = KafkaTimestampReachedSensor(task_id="reached", topics=output, timestamp=output)
        lag = ConsumerGroupLagSensor(task_id="lag", topics=output, group_id=output, max_lag=output)
        mapped = KafkaNewRecordsSensor.partial(
            task_id="mapped", topics=["a"], kafka_timeout=5, deferrable=True, missing_topic="wait", poke_interval=5
        ).expand(since=[{"a": {"0": 1}}, {"a": {"0": 2}}])
    assert [task.upstream_task_ids for task in (new, reached, lag)] == [{"before"}] * 3
    assert mapped.task_id == "mapped"
    common = {"source_conn_id", "isolation_level", "missing_topic", "kafka_timeout"}
    of_new = {"topics", "topic_pattern", "since", "min_records", "max_wait_for_min", "fail_on_data_loss"}
    assert set(new.template_fields) == common | of_new
    assert set(reached.template_fields) == common | {"topics", "timestamp", "idle_after"}
    assert set(lag.template_fields) == common | {"topics", "group_id", "max_lag", "per_partition"}
