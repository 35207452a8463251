"""Planning alone: from requested bounds to exact offsets, for topics of 1 and of 2,000 partitions."""

from __future__ import annotations

import time
from functools import partial

from airflow_provider_kafka_spark.core.copies.plan import make_plan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.topics.bounds import AtTimestamp, Bound, parse_bound
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, resolve_window, timestamps_in
from benchmarks.environment import connect_to
from benchmarks.orders import orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Section, median_and_range, rounds_text
from benchmarks.topics import WrongCopyError, fill, new_broker

_FEW, _MANY = 1, 2_000
_RECORDS_PER_PARTITION = 5
_HOUR_MS = 3_600_000
_LIMIT_SECONDS = 120.0
_TARGET = "planning-target"


def measure(rounds: int) -> Section:
    """Plan a copy of everything, and one of an hour, for few and for many partitions."""
    emit(f"Planning: {_FEW} and {_MANY:,} partitions, {rounds} rounds")
    with new_broker() as broker:
        connect_to(broker.bootstrap_servers)
        broker.create_topic(_TARGET, 1)
        for partitions in (_FEW, _MANY):
            count = partitions * _RECORDS_PER_PARTITION
            fill(broker, _source(partitions), partitions, orders(count, partitions), count)
        now_ms = int(time.time() * 1000)
        everything = parse_bound("earliest", "start"), parse_bound("latest", "end")
        last_hour = Bound.everywhere(AtTimestamp(now_ms - _HOUR_MS)), Bound.everywhere(AtTimestamp(now_ms))
        variants = [
            Variant(
                f"{partitions:,} {'partition' if partitions == 1 else 'partitions'}, {name}",
                partial(_plan, partitions, *bounds),
            )
            for partitions in (_FEW, _MANY)
            for name, bounds in (("everything", everything), ("the last hour by timestamp", last_hour))
        ]
        alternate(variants, rounds, _LIMIT_SECONDS)
    return Section(
        "Planning",
        "Asking the broker and making the plan, without Spark: a new `KafkaHook`, its `state()` of source and target, "
        f"resolving, and `make_plan`. Median of {rounds_text(rounds)}.",
        ["What is planned", "Seconds", "Range"],
        [[v.name, *median_and_range(v)] for v in variants],
    )


def _plan(partitions: int, starting: Bound, ending: Bound) -> float:
    """Plan once, and return the seconds that it took."""
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

    started = time.perf_counter()
    rules = ReadRules()
    with KafkaHook("kafka_default") as hook:
        selection = Selection([_source(partitions)], None, None)
        names = selection.topic_names(hook.topic_names())
        cluster = hook.state(names, timestamps_in(starting, ending))
        resolved = resolve_window(selection, starting, ending, cluster, rules)
        plan = make_plan(resolved, cluster, hook.state([_TARGET]), Target(_TARGET, None, False, False))
    seconds = time.perf_counter() - started
    wanted = partitions * _RECORDS_PER_PARTITION
    if plan.planned_records != wanted:
        raise WrongCopyError(f"The plan must hold {wanted:,} records; it holds {plan.planned_records:,}.")
    return seconds


def _source(partitions: int) -> str:
    return f"of-{partitions}"
