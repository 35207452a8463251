"""Jobs with secrets that end in every way: what the test searches for secrets afterwards."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

EVENT_LOGS = os.environ.get("SECRETS_EVENT_LOGS", "/nowhere")
CHECKPOINTS = os.environ.get("SECRETS_CHECKPOINTS", "/nowhere")


#: Ten seconds for each record: a broker waits for more, then hands out one batch, which the test makes one record. Such
#: a job runs until the test has looked at it.
HELD = {
    "kafka.fetch.min.bytes": 1_000_000,
    "kafka.fetch.max.wait.ms": 10_000,
    "kafka.max.partition.fetch.bytes": 1,
}

COMMON: dict[str, Any] = {
    "target_topic": "copy",
    "kafka_timeout": 20,
    "conf": {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{EVENT_LOGS}",
        # Compressed, it could not be searched.
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        # A secret of the author's own, which does not go by argument either.
        "spark.hadoop.fs.s3a.secret.key": "{{ conn.s3.password }}",
    },
}
BATCH: dict[str, Any] = {"topics": ["orders"], "source_options": HELD, **COMMON}

with DAG("secrets", schedule=None, default_args={"retries": 0}):
    # By an identity provider to the source, by a certificate with an encrypted key to the target.
    KafkaToKafkaBatchOperator(task_id="good", source_conn_id="oauth", target_conn_id="mtls", **BATCH)
    KafkaToKafkaAvailableNowOperator(
        task_id="stream",
        source_conn_id="password",
        target_conn_id="mtls",
        topics=["orders"],
        starting_offsets="earliest",
        source_options=HELD,
        checkpoint_location=f"{CHECKPOINTS}/stream",
        **COMMON,
    )
    KafkaToKafkaBatchOperator(task_id="token", source_conn_id="password", use_delegation_token=True, **BATCH)
    # An executor fails in the middle.
    KafkaToKafkaBatchOperator(
        task_id="bad_sql",
        source_conn_id="in_environment",
        target_conn_id="mtls",
        topics=["orders"],
        where="cast(string(value) AS int) > 0",
        **COMMON,
    )
    # The worker is refused.
    KafkaToKafkaBatchOperator(task_id="wrong_password", source_conn_id="password", target_conn_id="wrong", **BATCH)
    # Spark is refused: the test revokes the client when the worker has logged in.
    KafkaToKafkaBatchOperator(task_id="revoked", source_conn_id="oauth_revoked", target_conn_id="password", **BATCH)
    # The test ends its worker by SIGKILL.
    killed = KafkaToKafkaBatchOperator(task_id="killed", source_conn_id="password", target_conn_id="mtls", **BATCH)
    killed >> KafkaToKafkaBatchOperator(
        task_id="later", source_conn_id="password", topics=["orders"], trigger_rule="all_done", **COMMON
    )
