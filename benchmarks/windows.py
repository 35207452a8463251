"""Windows by time out of a long log: the cut that a window begins and ends with is searched in 100,000,000 offsets."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_provider_kafka_spark.core.topics.bounds import AtTimestamp, Bound
from airflow_provider_kafka_spark.core.topics.broker_state import Selection
from airflow_provider_kafka_spark.core.topics.resolve import ReadRules, resolve_window, timestamps_in
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from benchmarks.environment import connect_to
from benchmarks.long_log import batch_of, extend
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Section, median_and_range, rounds_text
from benchmarks.topics import WrongCopyError

_BATCH, _BATCHES = 10_000, 10_000
_HOURS = 720
_HOUR_MS = 3_600_000
#: Each batch has records of less than five minutes.
_BATCH_MS = _HOURS * _HOUR_MS // _BATCHES
_LIMIT_SECONDS = 1_800.0
_IN_ORDER, _AHEAD_FIRST = "in-order", "ahead-first"
_NAMES = {
    _IN_ORDER: "in order of time",
    _AHEAD_FIRST: "the same after one record whose time lies in the future",
}


def measure(rounds: int, windows: int = 90) -> Section:
    """Plan windows of a backfill by the hour, each by itself as a task does, and compare each with what it has.

    :param windows: how many of the hours, at even distances.
    """
    emit(f"Windows: {windows} of {_HOURS} hours, {_BATCHES * _BATCH:,} records, {rounds} rounds")
    with TemporaryDirectory(prefix="long-log-") as name:
        properties = {"log.dirs": name, "log.retention.ms": "-1"}
        with KafkaBroker(properties=properties) as broker:
            connect_to(broker.bootstrap_servers)
            first_ms = int(time.time() * 1000) // _HOUR_MS * _HOUR_MS - (_HOURS + 1) * _HOUR_MS
            for topic in _NAMES:
                _fill(broker, topic, Path(name), first_ms)
            hours = range(0, _HOURS, _HOURS // windows)
            variants = [
                Variant(text, partial(_plan, topic, first_ms, hours), warm_up=False) for topic, text in _NAMES.items()
            ]
            alternate(variants, rounds, _LIMIT_SECONDS)
    return Section(
        "Windows by time",
        f"{len(hours)} windows of an hour out of {_BATCHES * _BATCH:,} offsets, in zstd batches of {_BATCH:,} records. "
        "Each is planned by itself, as a task does it (a new `KafkaHook`, its `state()`, `resolve_window`), and has "
        f"exactly the hour's records. Median of {rounds_text(rounds)}.",
        ["The log", "Seconds", "Range", "ms for a window"],
        [[v.name, *median_and_range(v), f"{v.median * 1000 / len(hours):.0f}"] for v in variants],
    )


def _fill(broker: KafkaBroker, topic: str, log_folder: Path, first_ms: int) -> None:
    config = {"segment.bytes": str(2**31 - 1), "message.timestamp.after.max.ms": str(2**63 - 1)}
    broker.create_topic(topic, 1, config=config)
    if topic == _AHEAD_FIRST:
        broker.produce(topic, [Record(value=b"ahead", timestamp=first_ms * 1000)])
    one_batch = {"compression.type": "zstd", "linger.ms": 5_000, "batch.num.messages": _BATCH, "batch.size": 10**6}
    broker.produce(topic, batch_of(_BATCH, first_ms, _BATCH_MS), one_batch)
    extend(broker, topic, log_folder, _BATCHES - 1, _BATCH_MS)
    ((_, end),) = broker.offsets(topic).values()
    emit(f"  {topic}: {end:,} offsets")


def _plan(topic: str, first_ms: int, hours: range) -> float:
    """Plan windows one after the other, and return the seconds that all took."""
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

    started = time.perf_counter()
    for hour in hours:
        begin_ms = first_ms + hour * _HOUR_MS
        starting, ending = (Bound.everywhere(AtTimestamp(ms)) for ms in (begin_ms, begin_ms + _HOUR_MS))
        with KafkaHook("kafka_default") as hook:
            cluster = hook.state([topic], timestamps_in(starting, ending))
            resolved = resolve_window(Selection([topic], None, None), starting, ending, cluster, ReadRules())
        ahead = topic == _AHEAD_FIRST
        wanted = [ahead + _first_at(h * _HOUR_MS) for h in (hour, hour + 1)]
        got = [(r.from_offset, r.until_offset) for r in resolved.ranges]
        if got != [(wanted[0], wanted[1])]:
            raise WrongCopyError(f"Hour {hour} of {topic!r} must be {wanted}; it is {got}.")
    return time.perf_counter() - started


def _first_at(after_ms: int) -> int:
    """The offset, in a log that begins with the hour, of the first record so many ms after its beginning."""
    batch, rest_ms = divmod(after_ms, _BATCH_MS)
    return batch * _BATCH + next((i for i in range(_BATCH) if i * _BATCH_MS // _BATCH >= rest_ms), _BATCH)
