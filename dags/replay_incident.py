"""Replay after an incident, from a form: plan, approval, replay of exactly that plan, audit.

What: the trigger form asks for clusters, topics, a window or exact ranges, keys and a pace. The plan starts no
Spark. ``approve`` shows it, and waits for a person under Required Actions; it fails if that person rejects it, or after
eight hours. ``replay`` carries it out. ``audit`` reads the target and fails if a record is not there once.

Why: nobody writes code in the middle of an incident, and somebody else sees what will be done before it is done.

Prerequisites: the connections that the form names, ``spark_default``, and the topics; the target exists.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task

from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.operators.sealed_plan import checked_plan

WHICH: dict[str, Any] = {"section": "A window of time, or ranges"}
MOMENT: dict[str, Any] = {"type": ["null", "string"], "format": "date-time", **WHICH}
HOW: dict[str, Any] = {"section": "What is copied, and how fast"}
FORM = {
    "source": Param("kafka_default", title="Connection to read from", type="string"),
    "topic": Param("orders", title="Topic to read", type="string"),
    "target": Param("kafka_default", title="Connection to write to", type="string"),
    "target_topic": Param("orders_replay", title="Topic to write to", type="string"),
    "start": Param(None, title="From", description="The first moment", **MOMENT),
    "end": Param(None, title="Until", description="The first moment after the window", **MOMENT),
    "ranges": Param([], title="Exact ranges", description="As orders:0:100:200", type=["null", "array"], **WHICH),
    "only_keys": Param([], title="Only these keys", description="One each line", type=["null", "array"], **HOW),
    "pace": Param(None, title="Records per second", type=["null", "integer"], minimum=1, **HOW),
    "delivery": Param("exactly_once", title="Delivery", enum=["exactly_once", "at_least_once"], **HOW),
}
MACROS = {"checked_plan": checked_plan}
APPROVERS = None  # Such as [HITLUser(id="2", name="lead")]; None is everybody, also the one who asked.
PLAN = "ti.xcom_pull('plan_window') or ti.xcom_pull('plan_ranges')"
SHOWN = f"checked_plan({PLAN}, ti)"  # Others may write XComs: nobody must approve what nobody has planned.
TOPICS = f"{SHOWN}.ranges | map(attribute='topic') | unique | join(', ')"


@task.branch
def window_or_ranges(params: dict[str, Any]) -> str:
    return "plan_ranges" if params["ranges"] else "plan_window"


TAGS = ["kafka", "spark", "kafka-spark-replay"]  # By the last one the coverage page finds it.

with DAG("replay_incident", params=FORM, user_defined_macros=MACROS, doc_md=__doc__, tags=TAGS):
    clusters = {"source_conn_id": "{{ params.source }}", "target_conn_id": "{{ params.target }}"}
    asked: dict[str, Any] = {"plan_only": True, "inlets": [COPIES], **clusters} | {
        "target_topic": "{{ params.target_topic }}",
        "keys": "{{ params.only_keys | tojson if params.only_keys else '' }}",
        "max_records_per_second": "{{ params.pace }}",
        "delivery": "{{ params.delivery }}",
    }
    window: dict[str, Any] = {"starting_timestamp": "{{ params.start }}", "ending_timestamp": "{{ params.end }}"}
    plan_window = KafkaToKafkaBatchOperator(task_id="plan_window", topics="{{ params.topic }}", **window, **asked)
    plan_ranges = ReplayOffsetRangesOperator(task_id="plan_ranges", offset_ranges="{{ params.ranges|tojson }}", **asked)
    approve = ApprovalOperator(
        task_id="approve",
        subject=f"Replay {{{{ {TOPICS} }}}} to {{{{ {SHOWN}.target_topics | join(', ') }}}}?",
        body="{{ " + SHOWN + ".markdown }}",
        assigned_users=APPROVERS,
        response_timeout=timedelta(hours=8),
        fail_on_reject=True,
        trigger_rule="none_failed_min_one_success",
    )
    replay = ReplayOffsetRangesOperator(task_id="replay", plan="{{ (" + PLAN + ") | tojson }}", retries=2)
    AuditReplayOperator(task_id="audit", of=replay.output, retries=2, **clusters)
    window_or_ranges() >> [plan_window, plan_ranges] >> approve >> replay  # type: ignore[arg-type]
