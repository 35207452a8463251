"""Replay exact offset ranges.

What: copy the cancelled orders of some ranges of ``orders`` to ``orders_replay`` again. The target's name is computed
from each record's topic.

Why: a consumer was wrong about known offsets of last night, and only those records are replayed. The header
``x-kafka-spark-source`` of each record says where it came from.

Prerequisites: the connections ``kafka_default`` and ``spark_default``, and both topics.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

with DAG("replay_offset_ranges", schedule=None, doc_md=__doc__, tags=["kafka", "spark"]):
    ReplayOffsetRangesOperator(
        task_id="replay",
        offset_ranges=[
            "orders:0:100:600",
            "orders:0:1500:1600",
            "orders:1:0:250",
            {"topic": "orders", "partition": 2, "from_offset": 4000, "until_offset": 4750},
            {"topic": "orders", "partition": 3, "from_offset": 4990, "until_offset": 5000},
        ],
        where="get_json_object(cast(value as string), '$.status') = 'cancelled'",
        target_topic_expr="concat(topic, '_replay')",
        retries=2,
    )
