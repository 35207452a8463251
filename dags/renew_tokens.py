"""Renew delegation tokens long before they end, driven by a sensor.

What: a run waits until a token of the user ``etl`` has less than 12 hours to live, and then renews such tokens. The
next run starts within 6 hours.

Why: Kafka's tokens end after a day unless they are renewed, and jobs that use a renewed token continue. A renewal lasts
24 h, so the sensor sleeps for 12 h of them, which needs neither a worker nor a JVM. If a token comes within 12 h of its
end just after a run, the next run finds it at most 6 h later, with 6 h to spare. A refused login fails the run, which
leaves time to correct it. The log says when a token has reached its maximum time, which no renewal can change.

Prerequisites: the connection ``kafka_default``, whose login (SASL) is the owner or a renewer of the tokens, and the
triggerer.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.delegation_token import RenewDelegationTokensOperator
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor

with DAG(
    "renew_tokens",
    schedule="0 */6 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["kafka"],
):
    expiring = DelegationTokenExpirySensor(
        task_id="expiring", token_owner="User:etl", min_remaining=timedelta(hours=12), deferrable=True
    )
    RenewDelegationTokensOperator(task_id="renew", token_ids=expiring.output, retries=3)  # type: ignore[arg-type]
