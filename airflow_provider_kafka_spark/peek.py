"""``airflow kafka-spark peek orders:0:100:110``: the first records of an offset range, as a consumer sees them.

``python -m airflow_provider_kafka_spark.peek`` is the same. Nothing is committed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, redirect_stdout
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.clients.record_headers import headers_of
from airflow_provider_kafka_spark.command_line import Command
from airflow_provider_kafka_spark.core.checks import check_connection_id, check_seconds
from airflow_provider_kafka_spark.core.errors import (
    InvalidInputError,
    KafkaSparkError,
    OffsetRangeError,
    UnknownTopicError,
)
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange
from airflow_provider_kafka_spark.core.shown_text import moment, one_line

if TYPE_CHECKING:
    from confluent_kafka import Message

    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

FOUND_CODE, NOTHING_CODE, INPUT_CODE, FAILED_CODE = 0, 1, 2, 3
_MOST_RECORDS, _MOST_BYTES, _MOST_HEADERS = 1_000, 10_000, 20
DESCRIPTION = (
    "Print the first records of an offset range: offset, time, key and headers, with --values also the value. Bytes "
    "that are no text are escaped, and so is what would change a terminal. Nothing is committed."
)
EPILOG = "Exit code: 0 if there are records, 1 if the range has none, 2 for bad input, 3 if the broker does not answer."
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "range": {"metavar": "RANGE", "help": "such as orders:0:100:110"},
    "--conn-id": {"metavar": "ID", "default": "kafka_default", "help": "Kafka connection (default: kafka_default)"},
    "--max": {"metavar": "N", "type": int, "default": 10, "help": f"records, up to {_MOST_RECORDS:,} (default: 10)"},
    "--max-bytes": {
        "metavar": "N",
        "type": int,
        "default": 200,
        "help": f"of each key, header and value, up to {_MOST_BYTES:,} (default: 200)",
    },
    "--values": {"action": "store_true", "help": "print the values too"},
    "--read-uncommitted": {"action": "store_true", "help": "also records of aborted and open transactions"},
    "--kafka-timeout": {
        "metavar": "SECONDS",
        "type": float,
        "default": 30.0,
        "help": "for each request to a broker (default: 30)",
    },
}


def peek(options: argparse.Namespace) -> int:
    """Print the records.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    count = 0
    try:
        for lines in _records(options):
            count += 1
            sys.stdout.write("".join(f"{line}\n" for line in lines))
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {one_line(str(error))}\n")
        return INPUT_CODE if isinstance(error, InvalidInputError | UnknownTopicError) else FAILED_CODE
    if not count:
        sys.stderr.write(f"{options.range} has no record: its offsets are markers of transactions, or compacted.\n")
    return FOUND_CODE if count else NOTHING_CODE


def _records(options: argparse.Namespace) -> Iterator[list[str]]:
    wanted = OffsetRange.parse(options.range)
    for name, most in (("max", _MOST_RECORDS), ("max_bytes", _MOST_BYTES)):
        if not 1 <= getattr(options, name) <= most:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInputError(f"{option} must be from 1 to {most:,}, such as 10; got {getattr(options, name)}.")
    check_connection_id(options.conn_id, "--conn-id")
    timeout = check_seconds(options.kafka_timeout, "--kafka-timeout")
    # Connections are those of Airflow's environment and database, as for its own commands.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    # Airflow logs to the standard output, which is for the records.
    with redirect_stdout(sys.stderr):
        from airflow_provider_kafka_spark.clients.record_reader import read_range
        from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

        with KafkaHook(options.conn_id, timeout, waits_for_start=False) as hook:
            there = _in_log(hook, wanted, read_committed=not options.read_uncommitted)
            level = "read_uncommitted" if options.read_uncommitted else "read_committed"
            settings = {"isolation.level": level, "fetch.wait.max.ms": 50, "auto.offset.reset": "earliest"}
            with closing(hook.new_consumer(**settings)) as consumer:
                messages = read_range(hook, consumer, there, "reading records")
                # All at once: what is printed goes to another stream than what is logged.
                found = [message for _, message in islice(messages, options.max)] if not there.is_empty else []
    for message in found:
        yield _lines(message, options.max_bytes, values=options.values)


def _in_log(hook: KafkaHook, wanted: OffsetRange, *, read_committed: bool) -> OffsetRange:
    """The part of a range that the log has.

    :raises UnknownTopicError: if there is no such topic or partition.
    :raises OffsetRangeError: if the log has nothing of it.
    """
    from airflow_provider_kafka_spark.core.topics.broker_state import Selection
    from airflow_provider_kafka_spark.core.topics.resolve import ReadRules

    cluster = hook.state([wanted.topic], operation="READ")
    if wanted.topic not in cluster.topics:
        # It says which name may be meant.
        Selection([wanted.topic]).topic_names(hook.topic_names())
    state = cluster.partition(wanted.topic_partition)
    end = ReadRules(read_committed=read_committed).end_of(state)
    start, until = max(wanted.from_offset, state.log_start), min(wanted.until_offset, end)
    if start > until or (start == until and not wanted.is_empty):
        raise OffsetRangeError(
            f"RANGE must be in the log, which has the offsets {state.log_start} to {end} of {wanted.topic_partition}; "
            f"got {wanted.format()}. What was before has aged out; what is after is not there yet, or in an open "
            "transaction."
        )
    return OffsetRange(wanted.topic, wanted.partition, start, until)


def _lines(message: Message, most: int, *, values: bool) -> list[str]:
    kind, ms = message.timestamp()
    time = moment(ms) if kind else "no time"
    value, key = message.value(), message.key()
    size = "null" if value is None else f"{len(value):,} bytes"
    headers = headers_of(message)
    lines = [f"{message.topic()}[{message.partition()}]@{message.offset()}  {time}  value {size}"]
    lines.append(f"  key {_shown(key, most)}")
    if headers is None:
        lines.append("  headers that are not shown: the name of one is not UTF-8")
        headers = []
    lines += [f"  header {_shown(name, most)} {_shown(content, most)}" for name, content in headers[:_MOST_HEADERS]]
    more = len(headers) - _MOST_HEADERS
    lines += [f"  and {more:,} more headers"] if more > 0 else []
    return [*lines, f"  value {_shown(value, most)}"] if values else lines


def _shown(content: str | bytes | None, most: int) -> str:
    """As a text in quotation marks; bytes that are none as ``\\\\xNN``."""
    if content is None:
        return "null"
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else bytes(content)
    text = one_line(data[:most].decode(errors="backslashreplace"))
    return f'"{text}"' + (f" ... ({len(data):,} bytes)" if len(data) > most else "")


COMMAND = Command("peek", DESCRIPTION, EPILOG, ARGUMENTS, peek)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
