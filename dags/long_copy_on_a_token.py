"""Copy a whole topic by a Spark job that logs in with its own delegation token.

What: the worker creates a token with the connection's login, and Spark gets only that token. The worker renews it while
the job runs, and expires it when the job has succeeded or failed.

Why: the password or keytab stays on the worker. A token that leaks from a driver's memory or a cluster's files ends
with the job, or within an hour if the worker dies. ``min_token_lifetime`` fails the task before submission if a token
cannot live so long.

Prerequisites: the connections ``kafka_default`` (a SASL listener that has SCRAM-SHA-512, of brokers with
``delegation.token.secret.key``) and ``spark_default``, and the topics ``orders`` and ``orders_copy``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

with DAG(
    "long_copy_on_a_token",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    doc_md=__doc__,
    tags=["kafka", "spark"],
):
    KafkaToKafkaBatchOperator(
        task_id="copy",
        topics=["orders"],
        target_topic="orders_copy",
        use_delegation_token=True,
        min_token_lifetime=timedelta(hours=6),
        retries=2,
        retry_delay=timedelta(minutes=5),
    )
