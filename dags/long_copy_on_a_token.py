"""Copy a whole topic, by a Spark job that logs in with a delegation token of its own.

What: the worker makes a token with the connection's login, Spark gets that token and nothing else, the worker renews it
while the job runs, and expires it when the job is done or has failed.

Why: the password or keytab stays on the worker. A token that leaks with a driver's memory or a cluster's files is worth
nothing an hour after the job. ``min_token_lifetime`` refuses a job that the longest life of a token would not cover,
before it is submitted.

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
