"""The versioned JSON that the Airflow worker and the Spark driver exchange: one request, and one report in return."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.wire.protocol.report import *
from airflow_provider_kafka_spark.core.wire.protocol.request import *
from airflow_provider_kafka_spark.core.wire.protocol.submission import *
from airflow_provider_kafka_spark.core.wire.protocol.version import *
