"""``python -m airflow_provider_kafka_spark.coverage TOPIC``: which offsets of a topic were copied, and which were not.

:func:`uncovered` tells the same to a DAG.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from airflow_provider_kafka_spark.command_line import parse_arguments
from airflow_provider_kafka_spark.core.broker_state import ClusterState
from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError
from airflow_provider_kafka_spark.core.known_topics import KnownTopics
from airflow_provider_kafka_spark.core.ledger import (
    ASSET_NAME,
    SOURCES_IN,
    Coverage,
    Delivery,
    Stretch,
    TaskRun,
    coverage,
    entries_in,
    picture,
    select,
)
from airflow_provider_kafka_spark.core.ledger import uncovered as gaps_of
from airflow_provider_kafka_spark.core.offset_range import OffsetRange, OffsetRanges, TopicPartition
from airflow_provider_kafka_spark.core.shown_text import one_line

COVERED_CODE, GAPS_CODE, INPUT_CODE, FAILED_CODE = 0, 1, 2, 3
DESCRIPTION = (
    "Say of a topic's offsets which were copied, twice, or not, by what Airflow has recorded of past runs. Airflow's "
    "API is asked with a login from the environment: AIRFLOW_API_TOKEN, or AIRFLOW_API_USERNAME and "
    "AIRFLOW_API_PASSWORD."
)
EPILOG = (
    "Exit code: 1 if there is a gap or something unfinished, 2 for bad input, 3 if Airflow or a broker does not "
    "answer, otherwise 0."
)
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "topic": {"metavar": "TOPIC", "help": "of the source"},
    "--target-topic": {"metavar": "TOPIC", "default": None, "help": "count copies to this topic only"},
    "--source": {
        "metavar": "SERVER",
        "default": None,
        "help": "first bootstrap server of the source, as host:port, or the id of its cluster; needed if topics of "
        "this name were copied from several clusters",
    },
    "--target": {
        "metavar": "SERVER",
        "default": None,
        "help": "likewise of the target; needed if the topic was copied to several clusters",
    },
    "--source-conn-id": {
        "metavar": "ID",
        "default": None,
        "help": "look at all offsets that the source has now, by this Kafka connection; otherwise from the lowest to "
        "the highest offset of the recorded runs",
    },
    "--window": {
        "metavar": "RANGE",
        "action": "append",
        "default": None,
        "help": "look at these offsets, such as orders:0:100:200; may be given several times",
    },
    "--target-conn-id": {
        "metavar": "ID",
        "default": None,
        "help": "ask this Kafka connection for the targets as they are now: what went to one that was deleted since is "
        "not counted; otherwise the latest recorded run says which they are",
    },
    "--since": {
        "metavar": "TIME",
        "default": None,
        "help": "count runs from this time on, ISO 8601, UTC without a zone",
    },
    "--until": {"metavar": "TIME", "default": None, "help": "count runs before this time"},
    "--url": {
        "metavar": "URL",
        "default": None,
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
    have delivered a part: clear its task, which delivers the rest, or wait for it, before its window is replayed.

    :param events: ``inlet_events[COPIES]``, or what is in their ``extra``; events of other makers do not count. Events
        of other assets are of runs that wrote something only, and have no offsets of the source if the run wrote to
        more than ten topics by ``target_topic_expr``.
    :param topic: of the source.
    :param source: first bootstrap server of its cluster, as ``host:port``, or the cluster's id; None if events are of
        one cluster only.
    :param target: likewise of the target.
    :param target_topic: count copies to this topic only.
    :param window: the offset ranges to look at, as a replay takes them; by default from the lowest to the highest
        offset of the events, so that only gaps between deliveries are found. If they are of a result, only copies of
        the same topic count, and not those of one of its name that was deleted.
    :return: each with the ``topic_id`` of the topic, as far as it is known, which a replay compares.
    :raises InvalidInputError: if ``source`` or ``target`` is needed and not given, or an event has not the offsets of
        the source.
    :raises OffsetRangeError: if the window is malformed.
    """
    extras = (event if isinstance(event, Mapping) else event.extra for event in events if _is_of_task(event))
    entries = [entry for extra in extras for entry in entries_in(extra)]
    without = next((entry for entry in entries if isinstance(entry, Mapping) and SOURCES_IN in entry), None)
    if without is not None:
        raise InvalidInputError(
            f"events must have the offsets of the source, as those of the asset {ASSET_NAME!r} have, such as "
            f"inlet_events[COPIES]; got one of the topic {one_line(str(without.get('target_topics')))} of a copy to "
            "many topics by target_topic_expr. Read the events of COPIES, and pass target_topic."
        )
    found = map(Delivery.parse, entries)
    given = None if window is None else list(window)
    topic_id = KnownTopics.of_ranges(given or ()).topic_ids.get(topic)
    selected = select(
        [d for d in found if d is not None],
        topic,
        source=source,
        target=target,
        target_topic=target_topic,
        topic_id=topic_id,
    )
    wanted = None if given is None else _of_topic(OffsetRanges.parse(given, merge_overlaps=True), topic)
    return _source_of(selected, topic, topic_id).dicts(gaps_of(coverage(selected, wanted)))


def _is_of_task(event: object) -> bool:
    """Whether a task has made it, as far as it is known: what is in ``extra`` does not say."""
    return isinstance(event, Mapping) or getattr(event, "source_task_id", None) is not None


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, and print a table or JSON.

    :return: the exit code.
    """
    return show(parse_arguments("coverage", DESCRIPTION, EPILOG, ARGUMENTS, argv))


def command(options: argparse.Namespace) -> None:
    """``airflow kafka-spark coverage``."""
    sys.exit(show(options))


def show(options: argparse.Namespace) -> int:
    """Print what is known of a topic's offsets.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    try:
        found = _find(options)
    except KafkaSparkError as error:
        sys.stderr.write(f"{type(error).__name__}: {one_line(str(error))}\n")
        return INPUT_CODE if isinstance(error, InvalidInputError) else FAILED_CODE
    sys.stdout.write(f"{json.dumps(found, indent=2) if options.json else _text(found)}\n")
    return GAPS_CODE if found["gaps"] or found["unfinished"] else COVERED_CODE


def _find(options: argparse.Namespace) -> dict[str, Any]:
    from airflow_provider_kafka_spark.state.ledger_api import LedgerApi

    # As a topic of a partition, its name is checked.
    topic = TopicPartition(options.topic, 0).topic
    since, until = (_time(getattr(options, name), f"--{name}") for name in ("since", "until"))
    window = None if options.window is None else _of_topic(OffsetRanges.parse(options.window), topic)
    source, topic_id = options.source, None
    if options.source_conn_id is not None:
        if window is not None or source is not None:
            raise InvalidInputError(
                "--source-conn-id says the source and its offsets; leave --window and --source out."
            )
        source, topic_id, window = _of_broker(options.source_conn_id, topic)
    if options.target_conn_id is not None and options.target is not None:
        raise InvalidInputError("--target-conn-id says the target; leave --target out.")
    api = LedgerApi(
        options.url or os.environ.get("AIRFLOW_API_URL") or _configured_url(),
        os.environ.get("AIRFLOW_API_TOKEN"),
        username=os.environ.get("AIRFLOW_API_USERNAME"),
        password=os.environ.get("AIRFLOW_API_PASSWORD"),
    )
    recorded = api.recorded(since, until)
    target, target_ids = options.target, None
    if options.target_conn_id is not None:
        of_topic = (d.of_topic(topic) for d in recorded.deliveries)
        names = {name for d in of_topic if d.has_offsets for name in d.targets_of(topic)}
        target, target_ids = _targets_of_broker(options.target_conn_id, names)
    deliveries = select(
        recorded.deliveries,
        topic,
        source=source,
        target=target,
        target_topic=options.target_topic,
        topic_id=topic_id,
        target_ids=target_ids,
    )
    stretches = coverage(deliveries, window)
    filtered = [s.offsets for s in stretches if s.filtered]
    return {
        "topic": topic,
        "target_topics": sorted({name for d in deliveries for name in d.targets_of(topic)}),
        "runs": len({(d.by, d.run_id) for d in deliveries}),
        "skipped_events": recorded.skipped,
        "cut": recorded.cut,
        "picture": picture(stretches),
        **stretches_of(stretches, deliveries),
        "gaps": _source_of(deliveries, topic, topic_id).dicts(gaps_of(stretches)),
        "filtered": [r.to_dict() for r in OffsetRanges(filtered).merge()],
    }


def stretches_of(stretches: Sequence[Stretch], deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """What ``--json`` prints of the coverage by some deliveries: each of them once, and in a stretch its place."""
    places = {id(d): place for place, d in enumerate(deliveries)}
    found = [(s, _stretch(s, places)) for s in stretches]
    return {
        "ledger": [{"run_id": d.run_id, "filtered": d.filtered, **_who(d.by)} for d in deliveries],
        "stretches": [printed for _, printed in found],
        "unfinished": [printed for s, printed in found if s.coverage is Coverage.UNFINISHED],
    }


def _of_topic(ranges: OffsetRanges, topic: str) -> OffsetRanges:
    others = sorted({r.topic for r in ranges} - {topic})
    if others:
        raise InvalidInputError(f"A window must be of the topic {topic!r}; got ranges of {', '.join(others[:5])}.")
    return ranges


def _of_broker(conn_id: str, topic: str) -> tuple[str, str | None, OffsetRanges]:
    """The ids of cluster and topic, and all offsets that the topic has now."""
    cluster = _state(conn_id, "--source-conn-id", [topic])
    found = cluster.topic(topic)
    ranges = (
        OffsetRange(topic, number, p.log_start, max(p.log_start, min(p.last_stable, p.high_watermark)))
        for number, p in sorted(found.partitions.items())
    )
    return cluster.cluster_id, found.topic_id, OffsetRanges(ranges)


def _targets_of_broker(conn_id: str, topics: Iterable[str]) -> tuple[str, dict[str, str | None]]:
    """The id of the cluster; and of each topic its id, as far as brokers return it, or None if it does not exist."""
    names = sorted(topics)
    cluster = _state(conn_id, "--target-conn-id", names)
    ids = {name: cluster.topics[name].topic_id if name in cluster.topics else None for name in names}
    return cluster.cluster_id, {name: of for name, of in ids.items() if of or name not in cluster.topics}


def _state(conn_id: str, option: str, topics: Sequence[str]) -> ClusterState:
    # Connections are those of Airflow's environment and database, as for its own commands.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    from contextlib import redirect_stdout

    from airflow_provider_kafka_spark.core.parameters import check_connection_id
    from airflow_provider_kafka_spark.hooks.kafka import KafkaHook

    check_connection_id(conn_id, option)
    with redirect_stdout(sys.stderr), KafkaHook(conn_id) as hook:
        return hook.state(topics)


def _source_of(deliveries: Iterable[Delivery], topic: str, topic_id: str | None) -> KnownTopics:
    """What the offsets of selected deliveries are of."""
    ids = (d.topic_ids[topic] for d in deliveries if topic in d.topic_ids)
    found = topic_id or next(ids, "")
    return KnownTopics({topic: found} if found else {})


def _configured_url() -> str:
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "http://localhost:8080")


def _time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidInputError(f"{name} must be a time, such as 2026-11-01T00:00:00Z; got {text!r}.") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _stretch(stretch: Stretch, places: Mapping[int, int]) -> dict[str, Any]:
    """:param places: of each entry in the ledger that is printed, by ``id``."""
    return {
        **stretch.offsets.to_dict(),
        "coverage": stretch.coverage.value,
        "entries": stretch.entries,
        "by": [places[id(d)] for d in stretch.by],
    }


def _who(by: TaskRun) -> dict[str, Any]:
    return {"dag_id": by.dag_id, "dag_run_id": by.run_id, "task_id": by.task_id, "map_index": by.map_index}


def _named(entry: Mapping[str, Any]) -> str:
    return one_line(str(TaskRun(entry["dag_id"], entry["dag_run_id"], entry["task_id"], entry["map_index"])))


def _text(found: Mapping[str, Any]) -> str:
    targets = ", ".join(map(one_line, found["target_topics"])) or "nowhere"
    lines = [f"{found['topic']} -> {targets}: {found['runs']:,} runs"]
    lines += [found["picture"]] if found["picture"] else ["Airflow has recorded no copy of this topic."]
    if found["gaps"]:
        gaps = [OffsetRange.parse(r) for r in found["gaps"]]
        lines.append(f"No run has copied {sum(r.size for r in gaps):,} offsets in {len(gaps):,} ranges:")
        lines += [f"  {r.format()}" for r in gaps[:20]] + ([f"  and {len(gaps) - 20:,} more"] if len(gaps) > 20 else [])
    if found["unfinished"]:
        lines.append("Runs that failed were to copy these; clear the task, which copies the rest:")
        lines += [
            f"  {s['topic']}:{s['partition']}:{s['from_offset']}:{s['until_offset']} by "
            + "; ".join(_named(found["ledger"][place]) for place in s["by"][:3])
            for s in found["unfinished"][:20]
        ]
    if found["filtered"]:
        size = sum(OffsetRange.parse(r).size for r in found["filtered"])
        lines.append(f"Of {size:,} covered offsets, all runs had a filter, and may have left records out on purpose.")
    if found["skipped_events"]:
        lines.append(f"{found['skipped_events']:,} asset events are not of this ledger and were not counted.")
    lines += [f"Note: {text}." for text in found["cut"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
