from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, task

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.job_bundle import JobBundle


@task(multiple_outputs=True)
def plan(folder: str, reports: str, **context: Any) -> dict[str, Any]:
    copy = KafkaToKafkaBatchOperator(task_id="copy", topics=["orders"], target_topic="orders_copy")
    bundle = copy.bundle(context, folder=folder, report_location=reports, spark_version="4.0.0", scala_version="2.13")
    bundle.write(folder)
    return bundle.to_json()


@task(trigger_rule="all_done_min_one_success")
def prove(planned: dict[str, Any], folder: str) -> dict[str, Any]:
    bundle = JobBundle.from_json(planned, folder)
    result = bundle.prove(bundle.read_report())
    bundle.remove(folder)
    return result


with DAG("run_by_spark_submit", schedule=None):
    folder = "{{ var.value.spark_jobs }}/{{ run_id.replace(':', '') }}"
    planned = plan(folder, "{{ var.value.spark_reports }}")
    submit = SparkSubmitOperator(
        task_id="submit",
        application=planned["script"],
        application_args=planned["arguments"],
        py_files="{{ ti.xcom_pull('plan', key='py_files') | join(',') }}",
        conf=planned["properties"],
        jars="{{ var.value.kafka_connector }}",
        retries=0,
    )
    submit >> prove(planned, folder)
