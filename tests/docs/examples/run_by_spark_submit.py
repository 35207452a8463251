from contextlib import suppress
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator


@task(retries=2)
def copy(folder: str, reports: str, connector: str, **context: Any) -> dict[str, Any]:
    operator = KafkaToKafkaBatchOperator(task_id="orders", topics=["orders"], target_topic="orders_copy")
    bundle = operator.bundle(
        context, folder=folder, report_location=reports, spark_version="4.0.0", scala_version="2.13"
    )
    bundle.write(folder)
    hook = SparkSubmitHook(
        conf=dict(bundle.properties),
        application_args=list(bundle.arguments),
        py_files=",".join(bundle.py_files),
        jars=connector,
    )
    try:
        # The report of the job says whether it has failed, and why.
        with suppress(AirflowException):
            hook.submit(bundle.script)
        return bundle.prove(bundle.read_report())
    finally:
        bundle.remove(folder)


with DAG("run_by_spark_submit", schedule=None):
    copy(
        "{{ var.value.spark_jobs }}/{{ run_id.replace(':', '') }}",
        "{{ var.value.spark_reports }}",
        "{{ var.value.kafka_connector }}",
    )
