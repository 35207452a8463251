"""Promises of :mod:`airflow_provider_kafka_spark.operators.asset_events`, on Airflow's own accessors of events."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias

from airflow_provider_kafka_spark.core.ledger import ALIAS
from airflow_provider_kafka_spark.operators.asset_events import (
    outlets_with_ledger,
    record_without_records,
    set_asset_event_extra,
)
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from tests.airflow_fakes import task_context

ENTRY: dict[str, Any] = {
    "run_id": "51cde4972c7656f2",
    "records_written": 97,
    "offset_ranges": ["orders:0:100:200"],
    "target": "broker-1:9092",
    "target_topics": ["eu", "us"],
    "target_ranges": [
        {"topic": "eu", "partition": 0, "from_offset": 0, "until_offset": 60},
        {"topic": "us", "partition": 0, "from_offset": 7, "until_offset": 44},
    ],
}
IN_KAFKA = "kafka://broker-1:9092"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [AssetAlias(ALIAS)]),
        ([], []),
        (Asset("copied"), [Asset("copied"), AssetAlias(ALIAS)]),
        ([Asset("copied"), "text"], [Asset("copied"), "text", AssetAlias(ALIAS)]),
        ([AssetAlias("mine")], [AssetAlias("mine")]),
    ],
)
def test_every_copy_has_the_ledgers_alias_unless_its_author_has_one_or_wants_no_events(
    given: object, expected: list[object]
) -> None:
    assert outlets_with_ledger(given) == expected


def test_a_mapped_copy_has_it_before_there_is_an_operator() -> None:
    """Airflow looks at the outlets of the mapped task when it prepares each of its instances."""
    with DAG("mapped", schedule=None):
        mapped = ReplayOffsetRangesOperator.partial(task_id="replay", target_topic="copy").expand(
            offset_ranges=[["a:0:0:1"]]
        )

    assert mapped.outlets == [AssetAlias(ALIAS)]


def test_each_asset_gets_an_event_and_other_outlets_are_skipped() -> None:
    """An outlet may be any object of lineage; after the delivery none may fail the task."""
    context, asset = task_context(), Asset("copied")

    set_asset_event_extra(context, ["text", 7, asset], ENTRY)  # type: ignore[arg-type]

    assert list(context["outlet_events"]) == [asset]
    assert context["outlet_events"][asset].extra == ENTRY


def test_an_alias_stands_for_each_target_topic_with_its_own_ranges() -> None:
    context, alias = task_context(), AssetAlias("copies")

    set_asset_event_extra(context, [alias], ENTRY)  # type: ignore[arg-type]

    events = context["outlet_events"][alias].asset_alias_events
    assert [(e.source_alias_name, e.dest_asset_key.uri, e.extra) for e in events] == [
        ("copies", f"{IN_KAFKA}/eu", {**ENTRY, "target_ranges": [ENTRY["target_ranges"][0]]}),
        ("copies", f"{IN_KAFKA}/us", {**ENTRY, "target_ranges": [ENTRY["target_ranges"][1]]}),
    ]


def test_an_outlet_that_is_the_topics_own_asset_gets_no_second_event() -> None:
    """DAGs that are scheduled by it would run twice."""
    context, alias, asset = task_context(), AssetAlias(ALIAS), Asset(f"{IN_KAFKA}/eu")

    set_asset_event_extra(context, [asset, alias], ENTRY)  # type: ignore[arg-type]

    events = context["outlet_events"]
    assert events[asset].extra == ENTRY
    assert [e.dest_asset_key.uri for e in events[alias].asset_alias_events] == [f"{IN_KAFKA}/us"]


def test_a_connection_that_is_gone_by_then_fails_nothing() -> None:
    """The records are delivered, and the other outlets get their events."""
    context, asset, alias = task_context(), Asset("copied"), AssetAlias("copies")

    set_asset_event_extra(context, [alias, asset], {**ENTRY, "target": ""})  # type: ignore[arg-type]

    assert context["outlet_events"][asset].extra == {**ENTRY, "target": ""}
    assert context["outlet_events"][alias].asset_alias_events == []


def test_what_was_read_without_a_record_to_write_is_in_the_ledger_and_triggers_nothing() -> None:
    context, asset, alias = task_context(), Asset(f"{IN_KAFKA}/eu"), AssetAlias(ALIAS)

    assert record_without_records(context, [asset, alias], ENTRY) == [alias]  # type: ignore[arg-type]

    events = context["outlet_events"][alias].asset_alias_events
    assert [e.dest_asset_key.uri for e in events] == [
        "kafka-spark://broker-1:9092/eu",
        "kafka-spark://broker-1:9092/us",
    ]
    assert list(context["outlet_events"]) == [alias]
    assert record_without_records(context, [asset], ENTRY) == []  # type: ignore[arg-type]
