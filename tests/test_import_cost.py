"""What a DAG file pays for: operators and sensors are imported at each parse."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.process
def test_operators_import_neither_spark_nor_kubernetes() -> None:
    """Where Kubernetes' provider is installed, the Spark provider imports its clients, which takes seconds."""
    program = (
        "import sys\n"
        "import airflow_provider_kafka_spark.operators.available_now, airflow_provider_kafka_spark.operators.replay\n"
        "import airflow_provider_kafka_spark.operators.consumer_group, airflow_provider_kafka_spark.operators.audit\n"
        "heavy = ('pyspark', 'kubernetes', 'airflow.providers.apache.spark.hooks')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
