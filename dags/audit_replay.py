"""Replay, audit what arrived, and replay what is missing.

What: replay two ranges of ``orders`` to ``orders_replay``, read the target back, and replay what it does not have. The
last audit is of both replays, and fails if a record is still missing, duplicated or different.

Why: somebody asks whether all of it is there, once; or a target has lost records since.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("audit_replay", schedule=None, doc_md=__doc__, tags=["kafka", "spark"]):
    replay = ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=["orders:0:0:30", "orders:1:10:20"],
        target_topic="orders_replay",
        retries=2,
    )
    audit = AuditReplayOperator(task_id="audit", of=replay.output, fail_on_finding=False, retries=2)
    repair = ReplayOffsetRangesOperator(
        task_id="repair",
        offset_ranges=audit.output["missing_ranges"],
        target_topic="orders_replay",
        retries=2,
    )
    AuditReplayOperator(task_id="audit_again", of=[replay.output, repair.output], retries=2)
