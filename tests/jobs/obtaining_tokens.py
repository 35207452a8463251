"""The batch job after what Spark does on YARN and Kubernetes: obtain Kafka's delegation tokens with its own Kerberos
login. Started by ``spark-submit``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.wire.protocol import JobReport, JobRequest
from airflow_provider_kafka_spark.jobs.batch import copy
from airflow_provider_kafka_spark.jobs.driver import run_job

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.jobs.spark_application import SparkApplication


def copy_on_tokens(spark: SparkApplication, request: JobRequest) -> JobReport:
    context: Any = spark.sparkContext
    jvm, conf = context._jvm, context._jsc.sc().conf()
    hadoop = context._jsc.hadoopConfiguration()
    tokens = jvm.org.apache.hadoop.security.Credentials()
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    if not provider.delegationTokensRequired(conf, hadoop):
        raise AssertionError("Spark sees no cluster that needs a token.")
    # What cannot be obtained is only logged.
    provider.obtainDelegationTokens(hadoop, conf, tokens)
    services = sorted(str(token.getService()) for token in jvm.java.util.ArrayList(tokens.getAllTokens()))
    sys.stdout.write(f"tokens: {services}\n")
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(tokens)
    return copy(spark, request)


if __name__ == "__main__":
    sys.exit(run_job(copy_on_tokens))
