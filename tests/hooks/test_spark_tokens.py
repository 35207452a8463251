"""When Spark itself may obtain delegation tokens, and how its settings are passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.hooks.kafka import KafkaHook
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.operators.token_policy import DelegationTokenPolicy
from airflow_provider_kafka_spark.submission.prepared_job import submit_options
from tests.airflow_fakes import TaskStateStore

_KERBEROS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.principal": "copier@EXAMPLE.COM",
    "sasl.kerberos.keytab": "/etc/copier.keytab",
}


def spark(monkeypatch: pytest.MonkeyPatch, host: str, **options: Any) -> SparkJobHook:
    conn_type = "spark"
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": conn_type, "host": host}))
    return SparkJobHook(submit_options=options)


@pytest.mark.parametrize("host", ["local[2]", "spark://master:7077"])
def test_where_spark_obtains_none(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with pytest.raises(OptionError, match=r"needs YARN or Kubernetes.*Use True"):
        DelegationTokenPolicy("spark").check(spark(monkeypatch, host).cluster, KafkaHook(), KafkaHook())


def test_a_proxy_user_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = spark(monkeypatch, "yarn", proxy_user="ann").cluster
    with pytest.raises(
        OptionError, match="'ann' cannot go together: a broker gives a delegation token only to the requesting"
    ):
        DelegationTokenPolicy("spark").check(cluster, KafkaHook(), KafkaHook())


def test_the_settings_reach_spark_and_the_login_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Source and target are one connection, so one cluster."""
    config = translate("kafka", {"bootstrap.servers": "b:9092", **_KERBEROS})
    monkeypatch.setattr(KafkaHook, "config", config)
    cluster, kafka = spark(monkeypatch, "yarn").cluster, KafkaHook()
    with DelegationTokenPolicy("spark").logins(TaskStateStore(), cluster, kafka, kafka) as found:
        logins = found
    assert not [name for name in (*logins.source_options(), *logins.sink_options()) if "sasl" in name]
    assert logins.files == ()
    hook = spark(
        monkeypatch,
        "yarn",
        deploy_mode="cluster",
        conf={"spark.kafka.clusters.kafka-0.sasl.token.mechanism": "SCRAM-SHA-256"},
    )
    (tmp_path / "request.json").touch()
    conf = submit_options(hook.cluster, tmp_path, tmp_path / "request.json", logins)["conf"]
    assert conf["spark.kafka.clusters.kafka-0.auth.bootstrap.servers"] == "b:9092"
    # What the author says counts.
    assert conf["spark.kafka.clusters.kafka-0.sasl.token.mechanism"] == "SCRAM-SHA-256"
