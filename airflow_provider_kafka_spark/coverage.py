"""``python -m airflow_provider_kafka_spark.coverage TOPIC``: which offsets of a topic were copied, and which were not.

:func:`uncovered` tells the same to a DAG.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark import metrics
from airflow_provider_kafka_spark.command_line import Command
from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError, UnknownTopicError
from airflow_provider_kafka_spark.core.ledger.coverage import uncovered as missing_of
from airflow_provider_kafka_spark.core.ledger.entry import (
    ASSET_NAME,
    SOURCES_IN,
    Delivery,
    deliveries_of_event,
    entries_in,
)
from airflow_provider_kafka_spark.core.ledger.pairs import Choice, Pair, Place, pairs_of
from airflow_provider_kafka_spark.core.ledger.report import NOT_OVER, TO_DO, has, report_of_pair, text_of
from airflow_provider_kafka_spark.core.offsets.compact_rows import rows_in
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.shown_text import first_ten, one_line
from airflow_provider_kafka_spark.core.topics.broker_state import ClusterState, Selection
from airflow_provider_kafka_spark.core.topics.known_topics import KnownTopics

log = logging.getLogger(__name__)

COMPLETE_CODE, MISSING_CODE, INPUT_CODE, FAILED_CODE, NOT_OVER_CODE = 0, 1, 2, 3, 4
DESCRIPTION = (
    "Say of a topic's offsets which are covered, duplicated or missing, by what Airflow has recorded of past runs, for "
    "each pair of a source topic and a target topic. Airflow's API is asked with a login from the environment: "
    "AIRFLOW_API_TOKEN, or AIRFLOW_API_USERNAME and AIRFLOW_API_PASSWORD."
)
EPILOG = (
    "Exit code, the worst of all pairs: 1 if something is missing or has failed, 2 for bad input, also if nothing is "
    "recorded of the topic, 3 if Airflow or a broker does not answer, 4 if something is unfinished, waiting, unseen, "
    "was too much to read or cannot be read, otherwise 0: all that was looked at is in the target."
)
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "topic": {"metavar": "TOPIC", "help": "of the source"},
    "--target-topic": {"metavar": "TOPIC", "help": "count copies to this topic only"},
    "--source": {
        "metavar": "SERVER",
        "help": "count copies from this cluster only: a bootstrap server, as host:port, or the cluster's id",
    },
    "--target": {
        "metavar": "SERVER",
        "help": "likewise copies to this cluster",
    },
    "--source-conn-id": {
        "metavar": "ID",
        "help": "look at all offsets that the source has now, by this Kafka connection; otherwise at those that "
        "recorded runs name, and at the log as the last of them has seen it",
    },
    "--window": {
        "metavar": "RANGE",
        "action": "append",
        "help": "look at these offsets, such as orders:0:100:200; may be given several times",
    },
    "--target-conn-id": {
        "metavar": "ID",
        "help": "ask this Kafka connection for the targets as they are now: what went to one that was deleted since is "
        "not counted; otherwise the latest recorded run says which they are",
    },
    "--since": {
        "metavar": "TIME",
        "help": "count runs from this time on, ISO 8601, UTC without a zone",
    },
    "--until": {"metavar": "TIME", "help": "count runs before this time"},
    "--url": {
        "metavar": "URL",
        "help": "of Airflow's API server (default: AIRFLOW_API_URL, or base_url in Airflow's section api, or http://localhost:8080)",
    },
    "--json": {"action": "store_true", "help": "print JSON, with the ranges as offset_ranges takes them"},
}


def uncovered(
    events: Iterable[Any],
    topic: str,
    *,
    source: str | None = None,
    target: str | None = None,
    target_topic: str | None = None,
    window: Iterable[Any] | None = None,
) -> list[dict[str, Any]]:
    """The offsets of a topic that no event says were copied, ready for ``ReplayOffsetRangesOperator``.

    What went to a target that was deleted and recreated no longer counts once an event names the new one.

    Events are of runs that delivered everything. A run that failed, runs or waits for its retry has none, though it may
    have delivered a part: clear its task, which delivers the rest, or wait for it, before its window is replayed. Nor
    has a run that has not begun, such as one of a backfill in the queue: what it is going to copy is missing here. The
    command ``coverage`` and the page read the tasks too, and say that it is waiting.

    The number of missing offsets is sent as the metric ``kafka_spark.offsets_missing``.

    :param events: ``inlet_events[COPIES]``, or what is in their ``extra``; events of other makers do not count. Events
        of other assets are of runs that wrote something only, and have no offsets of the source if the run wrote to
        more than ten topics by ``target_topic_expr``.
    :param topic: of the source.
    :param source: a bootstrap server of its cluster, as ``host:port``, or the cluster's id; None if events are of
        one cluster only.
    :param target: likewise of the target.
    :param target_topic: where the copies went; None if they all went to one topic. Of a target to which nothing went
        yet, all of the window is missing, and the log says so.
    :param window: the offset ranges to look at, as a replay takes them; by default from the lowest to the highest
        offset of the events, so that only missing ranges between deliveries are found. If they are of a result, only
        copies of the same topic count, and not those of one of its name that was deleted.
    :return: each with the ``topic_id`` of the topic, as far as it is known, which a replay compares.
    :raises InvalidInputError: if there is no event of the topic or the target and no window, if no event has the
        source, if events are of several pairs of topics, or if one has not the offsets of the source.
    :raises OffsetRangeError: if the window is malformed.
    """
    found = [delivery for event in events if _is_of_task(event) for delivery in _deliveries_of(event)]
    given = None if window is None else list(rows_in(window))
    choice = Choice(topic, source, target, target_topic, may_be_new=given is not None)
    topic_id = KnownTopics.of_ranges(given or ()).topic_ids.get(topic)
    pairs = pairs_of(found, topic, topic_id=topic_id)[0]
    pair = choice.one_of(pairs)
    if pair is None and pairs:
        log.warning(
            "No event has a copy of %s to %s: all of the window is missing there. Events have %s.",
            topic,
            "/".join(filter(None, (target, target_topic))),
            ", ".join(first_ten([one_line(str(known)) for known in pairs])),
        )
    if pair is None and given is None:
        raise choice.unknown(name for delivery in found for name in delivery.topics)
    pair = pair or Pair("", topic, target or "", target_topic or "", topic_id=topic_id or "")
    wanted = None if given is None else _of_topic(OffsetRanges.parse(given, merge_overlaps=True), topic)
    missing = missing_of(pair.stretches(wanted))
    _send_missing(pair, missing.total)
    return KnownTopics({topic: pair.topic_id}).dicts(missing)


def _deliveries_of(event: Any) -> list[Delivery]:
    """:raises InvalidInputError: if its copy went to so many topics that only another event has its offsets."""
    extra, at = (event, None) if isinstance(event, Mapping) else (event.extra, getattr(event, "timestamp", None))
    for entry in entries_in(extra):
        if isinstance(entry, Mapping) and SOURCES_IN in entry:
            raise InvalidInputError(
                f"events must have the offsets of the source, as those of the asset {ASSET_NAME!r} have, such as "
                f"inlet_events[COPIES]; got one of the topic {one_line(str(entry.get('target_topics')))} of a copy to "
                "many topics by target_topic_expr. Read the events of COPIES, and pass target_topic."
            )
    found, skipped = deliveries_of_event(extra, at=at if isinstance(at, datetime) else None)
    if skipped:
        log.warning(
            "%d entries of an event are not read, since they are of another version of this package or malformed: what "
            "they say was copied counts as missing. Look at the event before you replay.",
            skipped,
        )
    return found


def _send_missing(pair: Pair, count: int) -> None:
    """For alarms: the answer to the last question about a pair. StatsD takes no colon."""
    source, target = (re.sub("[^a-zA-Z0-9._-]", "_", server) for server in (pair.source, pair.target))
    tags = {"source": source, "topic": pair.topic, "target": target, "target_topic": pair.target_topic}
    metrics.send(metrics.OFFSETS_MISSING, count, tags)


def _is_of_task(event: object) -> bool:
    """Whether a task has made it, as far as it is known: what is in ``extra`` does not say."""
    return isinstance(event, Mapping) or getattr(event, "source_task_id", None) is not None


def show(options: argparse.Namespace) -> int:
    """Print what is known of a topic's offsets.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    try:
        found = _find(options)
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {one_line(str(error))}\n")
        return INPUT_CODE if isinstance(error, InvalidInputError | UnknownTopicError) else FAILED_CODE
    sys.stdout.write(f"{json.dumps(found, indent=2) if options.json else text_of(found)}\n")
    if has(found, TO_DO):
        return MISSING_CODE
    return NOT_OVER_CODE if has(found, NOT_OVER) or found["cut"] else COMPLETE_CODE


def _find(options: argparse.Namespace) -> dict[str, Any]:
    from airflow_provider_kafka_spark.state.ledger_api import LedgerApi

    # As a topic of a partition, its name is checked.
    topic = TopicPartition(options.topic, 0).topic
    since, until = _times(options)
    source, topic_id, window = _source(options, topic)
    if options.target_conn_id is not None and options.target is not None:
        raise InvalidInputError("--target-conn-id says the target; leave --target out.")
    recorded = LedgerApi.from_environment(options.url).recorded(since, until)
    target, target_ids = options.target, dict[Place, str | None]()
    if options.target_conn_id is not None:
        names = {pair.target_topic for pair in pairs_of(recorded.deliveries, topic)[0]}
        target, target_ids = _targets_of_broker(options.target_conn_id, names - {""})
    choice = Choice(topic, source, target, options.target_topic, is_option=True)
    pairs, outdated = pairs_of(
        recorded.deliveries, topic, topic_id=topic_id, target_ids=target_ids, waiting=recorded.waiting
    )
    chosen = choice.of(pairs)
    if not chosen and window is None:
        raise choice.unknown((name for d in recorded.deliveries for name in d.topics), _when(since, until))
    chosen = chosen or [Pair(source or "", topic, target or "", options.target_topic or "", topic_id=topic_id or "")]
    found = [(pair, pair.stretches(window)) for pair in chosen]
    metrics.begin()
    for pair, stretches in found:
        _send_missing(pair, missing_of(stretches).total)
    return {
        "topic": topic,
        "pairs": [report_of_pair(pair, stretches) for pair, stretches in found],
        "skipped_entries": recorded.skipped,
        "not_by_a_task": recorded.not_by_a_task,
        "outdated": outdated,
        "cut": recorded.cut,
    }


def _source(options: argparse.Namespace, topic: str) -> tuple[str | None, str | None, OffsetRanges | None]:
    """The ids of cluster and topic, and the offsets that are asked for, as far as they are said."""
    if options.source_conn_id is None:
        window = None if options.window is None else _of_topic(OffsetRanges.parse(options.window), topic)
        return options.source, None, window
    if options.window is not None or options.source is not None:
        raise InvalidInputError("--source-conn-id says the source and its offsets; leave --window and --source out.")
    return _of_broker(options.source_conn_id, topic)


def _of_topic(ranges: OffsetRanges, topic: str) -> OffsetRanges:
    others = sorted({r.topic for r in ranges} - {topic})
    if others:
        raise InvalidInputError(f"A window must be of the topic {topic!r}; got ranges of {', '.join(others[:5])}.")
    return ranges


def _of_broker(conn_id: str, topic: str) -> tuple[str, str | None, OffsetRanges]:
    """The ids of cluster and topic, and all offsets that the topic has now."""
    cluster = _state(conn_id, "--source-conn-id", [topic], must_exist=True)
    found = cluster.topic(topic)
    ranges = (
        OffsetRange(topic, number, p.log_start, max(p.log_start, min(p.last_stable, p.high_watermark)))
        for number, p in sorted(found.partitions.items())
    )
    return cluster.cluster_id, found.topic_id, OffsetRanges(ranges)


def _targets_of_broker(conn_id: str, topics: Iterable[str]) -> tuple[str, dict[Place, str | None]]:
    """The id of the cluster; and of each topic its id, as far as brokers return it, or None if it does not exist."""
    names = sorted(topics)
    cluster = _state(conn_id, "--target-conn-id", names)
    ids = {name: cluster.topics[name].topic_id if name in cluster.topics else None for name in names}
    known = {name: of for name, of in ids.items() if of or name not in cluster.topics}
    return cluster.cluster_id, {(cluster.cluster_id, name): of for name, of in known.items()}


def _state(conn_id: str, option: str, topics: Sequence[str], *, must_exist: bool = False) -> ClusterState:
    # Connections are those of Airflow's environment and database, as for its own commands.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    from contextlib import redirect_stdout

    from airflow_provider_kafka_spark.core.checks import check_connection_id
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

    check_connection_id(conn_id, option)
    with redirect_stdout(sys.stderr), KafkaHook(conn_id) as hook:
        found = hook.state(topics)
        if must_exist and set(topics) - found.topics.keys():
            # It says which name may be meant.
            Selection(topics).topic_names(hook.topic_names())
        return found


def _times(options: argparse.Namespace) -> tuple[datetime | None, datetime | None]:
    """:raises InvalidInputError: if no run can be of the time."""
    since, until = (_time(getattr(options, name), f"--{name}") for name in ("since", "until"))
    now = datetime.now(timezone.utc)
    if since is not None and since > now:
        raise InvalidInputError(f"--since must not lie in the future; got {since.isoformat()}. It is {_moment(now)}.")
    if since is not None and until is not None and since >= until:
        raise InvalidInputError(
            f"--since must be before --until; got {since.isoformat()} and {until.isoformat()}. Swap the two if they "
            "were mixed up."
        )
    return since, until


def _when(since: datetime | None, until: datetime | None) -> str:
    words = (f" {name} {_moment(time)}" for name, time in (("since", since), ("until", until)) if time is not None)
    return "".join(words)


def _moment(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidInputError(f"{name} must be a time, such as 2026-11-01T00:00:00Z; got {text!r}.") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


COMMAND = Command("coverage", DESCRIPTION, EPILOG, ARGUMENTS, show)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
