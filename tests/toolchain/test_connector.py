from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.toolchain.connector import PROVIDED, client_jars


@pytest.mark.parametrize("wanted", [None, PROVIDED])
def test_the_worker_has_a_java_client_of_its_own(wanted: str | None) -> None:
    """What the cluster provides is of no use to a worker, which makes and renews tokens itself."""
    names = " ".join(jar.name for jar in client_jars(wanted))
    assert "kafka-clients-" in names
    assert "jackson-databind-" in names
