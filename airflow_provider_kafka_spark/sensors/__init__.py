"""Sensors that wait for Kafka."""

from airflow_provider_kafka_spark.toolchain.requirements import check_requirements

# First: what is too old fails with errors about names that only newer versions have.
check_requirements()
