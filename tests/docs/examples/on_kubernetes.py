from airflow.sdk import DAG

from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator

with DAG("on_kubernetes", schedule=None) as dag:
    copy = KafkaToKafkaBatchOperator(
        task_id="copy",
        topics=["orders"],
        target_topic="orders_copy",
        num_executors=2,
        deferrable=True,
        conf={
            "spark.kubernetes.container.image": "registry.example.com/spark-kafka:4.0.0",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        },
    )
