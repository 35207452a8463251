"""Move topics, and the consumer group of them, to another cluster.

What: every run copies what ``orders`` and ``payments`` got to ``orders_v2`` and ``payments_v2`` at the new cluster, and
shows where the group ``billing`` would go on there. Set the Airflow variable ``cut_over`` to ``yes`` when producers and
consumers have stopped: the next run copies the rest, and commits the group's offsets at the new cluster.

Why: the consumers go on with the record at which they stopped, and the time without service is that of one short run.

Prerequisites: the connections ``kafka_default``, ``kafka_new`` and ``spark_default``, and the Airflow variable
``checkpoints``. The new topics are made like the old ones.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.consumer_group import TranslateGroupOffsetsOperator

start = datetime(2026, 1, 1, tzinfo=timezone.utc)
with DAG("move_to_another_cluster", schedule="@hourly", start_date=start, catchup=False, max_active_runs=1) as dag:
    dag.doc_md = __doc__
    moved = {"target_conn_id": "kafka_new", "topic_map": {"orders": "orders_v2", "payments": "payments_v2"}}
    copy = KafkaToKafkaAvailableNowOperator(
        task_id="copy",
        topics=["orders", "payments"],
        starting_offsets="earliest",
        checkpoint_location="{{ var.value.checkpoints }}/move_to_another_cluster",
        create_target_topics=True,
        preserve_partition=True,
        retries=2,
        **moved,
    )
    plan_only = "{{ var.value.get('cut_over', 'no') != 'yes' }}"
    copy >> TranslateGroupOffsetsOperator(task_id="move_billing", group_id="billing", plan_only=plan_only, **moved)
