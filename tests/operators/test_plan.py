"""Promises of ``plan=``: exactly what another task has planned is carried out, or nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.clients.consumer_group import ConsumerGroup
from airflow_provider_kafka_spark.core.offset_range import TopicPartition
from airflow_provider_kafka_spark.core.protocol import PauseWhileLag
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.bounded_copy import BoundedCopyOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try, task_context
from tests.in_process_jobs import InProcessSpark

pytestmark = [pytest.mark.broker, pytest.mark.spark]

START = 1_795_165_200_000
Topics = tuple[str, str]


def numbered(first: int, last: int) -> list[Record]:
    """Two partitions, a record each second."""
    return [Record(value=b"%d" % i, partition=i % 2, timestamp=START + i * 1000) for i in range(first, last)]


@pytest.fixture
def topics(kafka: KafkaBroker, topic: TopicFactory) -> Topics:
    """A source with 20 records, and a target."""
    source, target = topic(2, suffix="source"), topic(2, suffix="target")
    kafka.produce(source, numbered(0, 20))
    return source, target


def execute(
    operator: BoundedCopyOperator, store: TaskStateStore | None = None, number: int = 1, clear_number: int = 0
) -> dict[str, Any]:
    ti = Try(try_number=number, max_tries=clear_number)
    result = operator.execute(task_context(store, clear_number=clear_number, ti=ti))  # type: ignore[arg-type]
    return json.loads(json.dumps(result))


def planned(topics: Topics, **parameters: Any) -> dict[str, Any]:
    given = {"topics": [topics[0]], "target_topic": topics[1], **parameters}
    return execute(KafkaToKafkaBatchOperator(task_id="plan", plan_only=True, **given))


def carry_out(plan: Any, store: TaskStateStore | None = None, **parameters: Any) -> dict[str, Any]:
    return execute(ReplayOffsetRangesOperator(task_id="copy", plan=plan, **parameters), store)


def values(kafka: KafkaBroker, topic: str) -> Counter[bytes]:
    return Counter(record.value or b"" for record in kafka.consume(topic))


@pytest.mark.parametrize(("kind", "as_text"), [(ReplayOffsetRangesOperator, False), (KafkaToKafkaBatchOperator, True)])
def test_exactly_the_plan_is_carried_out(
    kafka: KafkaBroker,
    topics: Topics,
    in_process_spark: InProcessSpark,
    kind: Callable[..., BoundedCopyOperator],
    as_text: bool,
) -> None:
    """With all parameters of the task that planned, and without what has come since."""
    plan = planned(
        topics,
        starting_timestamp=START + 4_000,
        exact_window=True,
        where="offset <> 5",
        columns={"value": "concat('<', string(value), '>')"},
        preserve_partition=True,
        preserve_order=False,
        max_records_per_partition=3,
        max_records_per_second="1000",
        include_headers=False,
        source_options={"kafka.fetch.min.bytes": 1},
    )
    # Late records have the offsets after the plan, and one is out of the window.
    kafka.produce(topics[0], numbered(2, 6))

    result = execute(kind(task_id="copy", plan=json.dumps(plan) if as_text else plan))

    assert [(r["partition"], r["from_offset"], r["until_offset"]) for r in result["ranges"]] == [(0, 2, 10), (1, 2, 10)]
    assert values(kafka, topics[1]) == Counter(b"<%d>" % i for i in range(4, 20) if i not in (10, 11))
    (request,) = in_process_spark.requests
    assert (request.plan_digest, request.preserve_order, len(request.spans)) == (plan["digest"], False, 6)
    assert request.pace is not None
    assert request.pace.records_per_second == 1000
    assert request.source_options["kafka.fetch.min.bytes"] == "1"


def test_the_pause_of_a_plan_is_carried_out(
    kafka: KafkaBroker, topics: Topics, in_process_spark: InProcessSpark
) -> None:
    """The one who approves has seen it; it may be given again."""
    group_id = f"consumers-{uuid4().hex[:8]}"
    with KafkaHook() as hook:
        ConsumerGroup(hook, group_id).commit({TopicPartition(topics[1], 0): 0})
    pause = {"pause_while_lag": {"group_id": group_id, "max_lag": "100"}, "max_pause": timedelta(minutes=2)}
    plan = planned(topics, **pause)
    assert group_id in plan["text"]

    carry_out(plan, **pause)

    (request,) = in_process_spark.requests
    assert request.pace is not None
    assert request.pace.pause == PauseWhileLag(group_id, 100, 120.0)
    with pytest.raises(AirflowFailException, match=r"max_pause is 60\.0 and was 120\.0"):
        carry_out(plan, max_pause=60)


def test_a_plan_is_text_for_the_one_who_approves(topics: Topics) -> None:
    plan = planned(topics, max_records_per_second=5, where="offset > 0", columns={"key": "value"})

    assert f"{topics[0]}[0]" in plan["text"]
    assert f"Digest: {plan['digest']}" in plan["text"]
    assert "Pace: at most 5 records/s, so 0:00:04 or more." in plan["text"]
    assert "Connections: from 'kafka_default' to 'kafka_default', exactly_once" in plan["text"]
    assert "Only records with: offset > 0" in plan["text"]
    assert plan["text"].endswith("Changed: key = value")


def test_what_somebody_enters_is_no_line_of_the_plan(topics: Topics) -> None:
    """The one who approves sees all of a filter, and nothing in it looks like a count, or ends the text."""
    where = "offset > 0 or value = 'x\n```\ntotal 1 ranges 5\u202e\r'" + " " * 300 + "or true"
    plan = planned(topics, where=where)

    at = plan["text"].index("Only records with: ")
    filter_lines = plan["text"][at:].splitlines()
    assert all(line.startswith("    ") for line in filter_lines[1:])
    assert max(map(len, filter_lines)) <= 100
    assert r"'x\n```\ntotal 1 ranges 5\u202e\r'" in filter_lines[0]
    assert filter_lines[-1].endswith("or true")
    (shown,) = (line for line in plan["markdown"].splitlines() if line.startswith("- Only records with: "))
    assert shown == "- Only records with: ````" + where.translate({10: r"\n", 13: r"\r", 0x202E: r"\u202e"}) + "````"


def test_parameters_that_are_those_of_the_plan_may_be_given_and_others_are_an_error(
    kafka: KafkaBroker, topics: Topics, in_process_spark: InProcessSpark
) -> None:
    shared: dict[str, Any] = {"target_topic": topics[1], "preserve_partition": "yes", "columns": '{"key": "value"}'}
    plan = planned(topics, **shared)
    others: list[tuple[dict[str, Any], str]] = [
        ({"where": "offset = 0"}, "where is 'offset = 0' and was None"),
        ({"target_topic": "another"}, "target_topic is 'another' and was"),
        ({"preserve_order": False}, "preserve_order is False and was True"),
        ({"offset_ranges": ["orders:0:0:1"]}, "offset_ranges must not be given"),
    ]
    for parameters, says in others:
        with pytest.raises(AirflowFailException, match=says):
            carry_out(plan, **parameters)
    assert in_process_spark.requests == []

    assert carry_out(plan, **shared, source_conn_id="kafka_default")["records_written"] == 20


def test_a_plan_that_no_longer_holds_copies_nothing(
    kafka: KafkaBroker, topics: Topics, in_process_spark: InProcessSpark
) -> None:
    """Neither does the same look without a copy."""

    def assert_refused(plan: Any, reason: str) -> None:
        for parameters in ({}, {"plan_only": True}):
            with pytest.raises(AirflowFailException, match=reason):
                carry_out(plan, **parameters)

    plan, permitting = planned(topics), planned(topics, fail_on_data_loss=False)
    kafka.delete_records(topics[0], {0: 2})
    assert_refused(plan, "no longer available")
    assert_refused(permitting, "2 of its records are gone")
    for recreated in reversed(topics):
        plan = planned(topics)
        kafka.delete_topic(recreated)
        kafka.create_topic(recreated, 2)
        kafka.produce(topics[0], numbered(0, 20))
        assert_refused(plan, "was deleted and recreated")
    assert in_process_spark.requests == []


def test_targets_of_a_map_are_created_by_the_one_who_carries_out(
    kafka: KafkaBroker, topics: Topics, topic: TopicFactory, in_process_spark: InProcessSpark
) -> None:
    """The plan names them, and creates none."""
    other = topic(suffix="other")
    kafka.produce(other, [Record(value=b"other", timestamp=START)])
    new = {topics[0]: f"{topics[0]}-new", other: f"{other}-new"}
    operator = KafkaToKafkaBatchOperator(
        task_id="plan", topics=[*new], topic_map=new, create_target_topics=True, plan_only=True
    )
    plan = execute(operator)
    assert not set(new.values()) & set(kafka.topics())

    result = carry_out(plan)

    assert result["target_topics"] == sorted(new.values())
    assert values(kafka, new[topics[0]]) == Counter(b"%d" % i for i in range(20))
    assert values(kafka, new[other]) == Counter([b"other"])
    # What somebody else creates meanwhile is taken as it is.
    assert carry_out(plan)["records_written"] == 21


def test_what_the_plan_lacked_is_in_the_result(
    kafka: KafkaBroker, topics: Topics, in_process_spark: InProcessSpark
) -> None:
    kafka.delete_records(topics[0], {0: 2})
    plan = planned(topics, starting_offsets={topics[0]: {"0": 1, "1": 0}}, fail_on_data_loss=False)

    result = carry_out(plan)

    assert (result["missing"], result["records_written"]) == (1, 18)
    assert result["missing_ranges"] == plan["missing_ranges"]


def test_a_retry_needs_the_plan_no_more(kafka: KafkaBroker, topics: Topics, in_process_spark: InProcessSpark) -> None:
    """It carries out what its first try was given, in the same layout; a clear takes what is given then."""
    layout: dict[str, Any] = {"preserve_order": False, "max_records_per_partition": 3}
    plan, store = planned(topics, columns={"value": "assert_true(partition < 1)"}, **layout), TaskStateStore()
    first = ReplayOffsetRangesOperator(task_id="copy", plan=plan)
    with pytest.raises(Exception, match="is not true"):
        execute(first, store)
    with pytest.raises(Exception, match="is not true"):
        execute(ReplayOffsetRangesOperator(task_id="copy", plan="gone"), store, number=2)
    kafka.produce(topics[0], numbered(20, 24))
    now = planned(topics, **layout)

    result = execute(ReplayOffsetRangesOperator(task_id="copy", plan=now), store, number=3, clear_number=2)

    one, two, three = in_process_spark.requests
    assert (one.ranges, one.spans, one.preserve_order) == (two.ranges, two.spans, two.preserve_order)
    assert len(three.spans) == 8
    assert result["records_written"] == 24
    # With other columns it is another copy: what the first tries wrote, nulls of one partition, stays.
    assert values(kafka, topics[1]) == Counter(b"%d" % i for i in range(24)) + Counter({b"": 10})


def test_a_plan_that_somebody_has_changed_gets_nothing_past_the_checks(
    topics: Topics, in_process_spark: InProcessSpark
) -> None:
    plan = planned(topics)
    good = plan["plan"]["parameters"]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"conf": {"spark.driver.extraJavaOptions": "-javaagent:/x"}}, "and no others; got conf"),
        ({"spark_binary": "/bin/sh"}, "and no others; got spark_binary"),
        ({"preserve_order": "perhaps"}, "preserve_order must be True or False"),
        ({"max_records_per_second": "fast"}, "max_records_per_second must be an integer"),
        ({"sink_options": {"kafka.interceptor.classes": "a.B"}}, "sink_options must name no classes"),
        ({"source_options": {"kafka.bootstrap.servers": "evil:9092"}}, "must not set"),
        ({"where": 5}, "where must be text"),
        ({"where": {}}, "where must be text"),
    ]
    for change, reason in changes:
        plan["plan"]["parameters"] = {**good, **change}
        with pytest.raises(AirflowFailException, match=reason):
            carry_out(plan)
    assert in_process_spark.requests == []


def test_what_is_no_plan_is_an_error() -> None:
    no_plans: list[Any] = [
        "orders",
        "{}",
        [1],
        {"state": "planned"},
        {"state": "planned", "plan": {"version": 1}},
        {"version": 1, "ranges": [], "run_id": "0123456789abcdef"},
    ]
    for plan in no_plans:
        with pytest.raises(
            AirflowFailException, match=r"plan must be a plan.*plan\.output|plan must be a plan as it w"
        ):
            carry_out(plan)
