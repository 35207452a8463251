"""The asset events of a copy: the ledger of what was written, and what DAGs are scheduled by.

No event is made by an ``AssetAlias`` of this package: Airflow lets a task fail, whatever its retries, if another one
makes the same asset known to the same alias in the same moment.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_provider_kafka_spark.core.ledger.entry import ASSET_NAME, MORE, SOURCES_IN, is_entry
from airflow_provider_kafka_spark.core.offsets.compact_result import short_entry

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

#: Of a copy to more targets, whose sources are not told apart, the event of a topic does not have the source's offsets:
#: a thousand topics would have a thousand times all of them.
_MOST_TARGETS_WITH_SOURCES = 10

#: Keys that the event of a topic does not have: they are of all topics, and no DAG is scheduled by them.
_OF_THE_LEDGER = ("log", "empty_ranges")

#: The ledger. Every copy has it among its outlets, so Airflow makes it when it parses a DAG, and no task does.
COPIES = Asset(ASSET_NAME, uri="x-kafka-spark://copies")

#: The default of ``outlets``: of a mapped task Airflow looks at the default, before there is an operator.
LEDGER_OUTLETS: list[Any] = [COPIES]


def outlets_with_ledger(outlets: object) -> list[Any]:
    """An author's outlets, and the ledger.

    :param outlets: as given to an operator. An empty list stays empty: no events.
    """
    if outlets is None:
        return list(LEDGER_OUTLETS)
    given = list(outlets) if isinstance(outlets, list | tuple | set) else [outlets]
    return given if not given or COPIES in given else [*given, COPIES]


def newest(events: Any) -> Any:
    """Of events of the ledger, as Airflow gives them to a task: the newest 1,000, the newest first. A plan reads no
    others.
    """
    return events.ascending(False).limit(1_000)


def announce(context: Context, operator: Any, entry: Mapping[str, Any]) -> None:
    """Add what was delivered to the asset events of the running task.

    Airflow makes the events when the task succeeds: for each asset among its outlets; for an alias, those added here,
    one for each target topic. The asset of a topic is ``kafka://SERVER/TOPIC``, as in the Kafka provider. Where Airflow
    knows it, it becomes an outlet of the running task, unless an alias announces it. Nothing here fails a task that has
    delivered everything: an outlet that is not an asset is skipped.

    :param operator: its outlets are the running task's, unless a function calls it.
    :param entry: of the ledger.
    """
    by_uri = dict(parts_by_topic(entry))
    aliases, known = [], set()
    for outlet in operator.outlets:
        event = _event_at(context, outlet)
        if event is None:
            continue
        if isinstance(outlet, AssetAlias):
            aliases.append(event)
        else:
            known.add(event.key.uri)
            _add(event, by_uri.get(event.key.uri, entry))
    others = {uri: own for uri, own in by_uri.items() if uri not in known}
    for event in aliases:
        for uri, own in others.items():
            event.add(Asset(uri=uri), extra=short_entry(own))
    task = getattr(context["ti"], "task", operator)
    if COPIES in operator.outlets and COPIES in task.outlets and not aliases:
        # A new list: that of the DAG's task stays as it is.
        task.outlets = [*task.outlets, *_announced_topics(context, others)]


def record_without_records(context: Context, outlets: Iterable[object], entry: Mapping[str, Any]) -> list[Any]:
    """Add what was read without a record to write to the ledger, and to nothing that DAGs are scheduled by.

    :param entry: of the ledger.
    :return: the outlets that have events.
    """
    if COPIES not in outlets:
        return []
    _add(context["outlet_events"][COPIES], entry)
    return [COPIES]


def _event_at(context: Context, outlet: Any) -> Any:
    """The event of an outlet; None if it has none."""
    try:
        return context["outlet_events"][outlet]
    except TypeError:
        log.debug("The outlet %r is no asset.", outlet)
    except AirflowRuntimeError as error:
        log.warning("The outlet %r gets no asset event: %s", outlet, error)
    return None


def _announced_topics(context: Context, by_uri: Mapping[str, Mapping[str, Any]]) -> Iterator[Asset]:
    """The assets of topics that Airflow knows; each gets its event. The others have nobody who waits for an event."""
    for uri, own in by_uri.items():
        try:
            event: Any = context["outlet_events"][Asset.ref(uri=uri)]
        except Exception as error:  # noqa: BLE001 - whatever it was, everything is delivered
            if isinstance(error, AirflowRuntimeError) and error.error.error is ErrorType.ASSET_NOT_FOUND:
                continue
            log.warning(
                "DAGs that are scheduled by the assets of the target's topics may not be: Airflow could not be asked "
                "for %s: %r",
                uri,
                error,
            )
            return
        _add(event, own)
        # An author may have given it a name of its own.
        yield Asset(event.key.name, uri=event.key.uri)


def _add(event: Any, entry: Mapping[str, Any]) -> None:
    """A function may call several operators, and Airflow makes one event of an asset for all of them."""
    first, entry = event.extra, short_entry(entry)
    if is_entry(first) and first["run_id"] != entry["run_id"]:
        event.extra = {**first, MORE: [*first.get(MORE, ()), entry]}
    else:
        event.extra = entry


def parts_by_topic(entry: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The URI of each target topic, and what of the entry is of this topic: many topics have their own part each."""
    if not entry["target"]:
        log.warning("No topic gets an asset event: the target's connection is gone.")
        return
    parts = {
        "target_ranges": _grouped(entry["target_ranges"], lambda r: r["topic"]),
        "segments": _grouped(entry.get("segments", ()), lambda s: s["target_topic"]),
    }
    topic_map, ids = entry.get("topic_map", {}), entry.get("source_topic_ids", {})
    target_ids = entry.get("target_topic_ids")
    of_all = {name: value for name, value in entry.items() if name not in _OF_THE_LEDGER}
    if topic_map:
        parts |= {
            name: _grouped(entry.get(name, ()), lambda text: topic_map.get(text.rsplit(":", 3)[0]))
            for name in ("offset_ranges", "missing_ranges")
        }
    elif len(entry["target_topics"]) > _MOST_TARGETS_WITH_SOURCES:
        of_all |= {"offset_ranges": [], "missing_ranges": [], "source_topic_ids": {}, SOURCES_IN: ASSET_NAME}
    sources = _grouped(topic_map, topic_map.get)
    for topic in entry["target_topics"]:
        own = {**of_all, "target_topics": [topic]}
        own |= {name: of_topic.get(topic, []) for name, of_topic in parts.items() if name in entry}
        if target_ids is not None:
            own["target_topic_ids"] = {topic: target_ids[topic]} if topic in target_ids else {}
        if topic_map:
            own["topic_map"] = dict.fromkeys(sources.get(topic, ()), topic)
            own["source_topic_ids"] = {source: ids[source] for source in own["topic_map"] if source in ids}
        yield Asset(uri=f"kafka://{entry['target']}/{topic}").uri, own


def _grouped(items: Iterable[Any], topic_of: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        groups[topic_of(item)].append(item)
    return groups
