"""Renew delegation tokens before they end, every night.

What: from 22:00 on it is waited until a token of the user ``etl`` has less than a day to live, and then those that do are renewed.

Why: Kafka's tokens end after a day unless somebody renews them, and jobs that log in with one live on when it is renewed. The sensor sleeps until the moment that matters and costs neither a
worker nor a JVM meanwhile. A night on which nothing is near its end is skipped. The log says when a token has reached its maximum time, which no renewal can change.

Prerequisites: the connection ``kafka_default``, whose login (SASL) is the owner or a renewer of the tokens, and the triggerer.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.delegation_token import RenewDelegationTokensOperator
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor

with DAG(
    "renew_tokens",
    schedule="0 22 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["kafka"],
):
    expiring = DelegationTokenExpirySensor(
        task_id="expiring",
        token_owner="User:etl",
        min_remaining=timedelta(days=1),
        deferrable=True,
        timeout=timedelta(hours=8).total_seconds(),
        soft_fail=True,
    )
    RenewDelegationTokensOperator(task_id="renew", token_ids=expiring.output, retries=3)  # type: ignore[arg-type]
