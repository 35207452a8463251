"""What Airflow calls a hook: for a Kafka connection, for a Spark job, and for delegation tokens."""

from airflow_provider_kafka_spark.toolchain.requirements import check_requirements

# First: what is too old fails with errors about names that only newer versions have.
check_requirements()
