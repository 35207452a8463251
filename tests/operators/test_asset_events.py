"""Promises of :mod:`airflow_provider_kafka_spark.operators.asset_events`, on Airflow's own accessors of events."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetAlias

from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.operators.asset_events import set_asset_event_extra
from tests.airflow_fakes import task_context

RESULT: dict[str, Any] = {
    "run_id": "51cde4972c7656f2",
    "records_written": 97,
    "ranges": [{"topic": "orders", "partition": 0, "from_offset": 100, "until_offset": 200}],
    "target_topics": ["eu", "us"],
    "target_ranges": [
        {"topic": "eu", "partition": 0, "from_offset": 0, "until_offset": 60},
        {"topic": "us", "partition": 0, "from_offset": 7, "until_offset": 44},
    ],
}
EXTRA: dict[str, Any] = {
    "run_id": "51cde4972c7656f2",
    "records_written": 97,
    "offset_ranges": ["orders:0:100:200"],
    "target_ranges": RESULT["target_ranges"],
}


def test_each_asset_gets_an_event_and_other_outlets_are_skipped() -> None:
    """An outlet may be any object of lineage; after the delivery none may fail the task."""
    context, asset = task_context(), Asset("copied")

    set_asset_event_extra(context, ["text", 7, asset], RESULT, lambda: "broker-1:9092")  # type: ignore[arg-type]

    assert list(context["outlet_events"]) == [asset]
    assert context["outlet_events"][asset].extra == EXTRA


def test_an_alias_stands_for_each_target_topic_with_its_own_ranges() -> None:
    context, alias = task_context(), AssetAlias("copies")

    set_asset_event_extra(context, [alias], RESULT, lambda: "broker-1:9092")  # type: ignore[arg-type]

    events = context["outlet_events"][alias].asset_alias_events
    assert [(e.source_alias_name, e.dest_asset_key.uri, e.extra) for e in events] == [
        ("copies", "kafka://broker-1:9092/eu", {**EXTRA, "target_ranges": [RESULT["target_ranges"][0]]}),
        ("copies", "kafka://broker-1:9092/us", {**EXTRA, "target_ranges": [RESULT["target_ranges"][1]]}),
    ]


def test_a_connection_that_is_gone_by_then_fails_nothing() -> None:
    """The records are delivered, and the other outlets get their events."""
    context, asset = task_context(), Asset("copied")

    def server() -> str:
        raise ConnectionConfigError("The connection is gone.")

    set_asset_event_extra(context, [AssetAlias("copies"), asset], RESULT, server)  # type: ignore[arg-type]

    assert context["outlet_events"][asset].extra == EXTRA
