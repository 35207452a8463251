"""Replay many lists of ranges, each as a separate task.

What: dynamic task mapping starts one replay for each list in ``offset_ranges``. The lists can also be the output of an
earlier task.

Why: each replay is retried, cleared and reported alone, so a failed one does not repeat the others.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and the topics ``orders`` and ``orders_replay``.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("replay_expanded", schedule=None, doc_md=__doc__, tags=["kafka", "spark"]):
    ReplayOffsetRangesOperator.partial(
        task_id="replay",
        target_topic="orders_replay",
        preserve_partition=True,
        # Each one is a Spark application; this limits how many run at a time.
        max_active_tis_per_dagrun=1,
        retries=2,
    ).expand(
        offset_ranges=[
            ["orders:0:10:20", "orders:1:10:20"],
            ["orders:2:30:45"],
        ]
    )
