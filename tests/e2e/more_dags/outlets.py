"""Tasks with outlets of every kind: one that only plans, one without records, one that copies."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetAlias

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("outlets", schedule=None):
    plan = ReplayOffsetRangesOperator(
        task_id="plan",
        offset_ranges=["orders:0:0:10"],
        target_topic="orders_replay",
        plan_only=True,
        outlets=[Asset("planned"), AssetAlias("plans")],
    )
    empty = ReplayOffsetRangesOperator(
        task_id="empty", offset_ranges=[], target_topic="orders_replay", outlets=[Asset("empty"), AssetAlias("none")]
    )
    copy = ReplayOffsetRangesOperator(
        task_id="copy",
        offset_ranges=["orders:0:0:10"],
        target_topic="orders_replay",
        outlets=[
            Asset("copied"),
            AssetAlias("each"),
            "no asset",
            Asset.ref(name="unknown"),
            Asset.ref(name="planned"),
        ],
    )
    plan >> empty >> copy
