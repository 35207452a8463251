"""Login handlers of managed Kafka among the submit options."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JarError, OptionError
from airflow_provider_kafka_spark.submission.spark_cluster import SparkCluster

_MSK = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098"
_GOOGLE = "bootstrap.demo.europe-west1.managedkafka.my-project.cloud.goog:9092"
_GOOGLES_CLASS = "com/google/cloud/hosted/kafka/auth/GcpLoginCallbackHandler.class"


def _config(servers: str) -> KafkaClientConfig:
    extra = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    return translate("managed", extra)


def _cluster(kafka_connector: str | None = None, **submit_options: Any) -> SparkCluster:
    return SparkCluster(
        "spark_default", kafka_connector=kafka_connector, report_location=None, submit_options=submit_options
    )


def _jar(path: Path, *entries: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            archive.writestr(entry, b"")
    return path


@pytest.fixture(autouse=True)
def _local(connection: Callable[..., None]) -> None:
    connection("spark_default", conn_type="spark", host="local[2]")


@pytest.mark.parametrize("name", ["a b", "a#b"])
def test_a_folder_of_which_spark_makes_no_address(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One sentence before anything is planned, in place of what the JVM says."""
    monkeypatch.setattr("tempfile.tempdir", f"/scratch/{name}")

    with pytest.raises(OptionError, match=f"must have no blank.*{name}.*Set TMPDIR"):
        _cluster().check()


@pytest.mark.parametrize("kind", ["kafka", "kafka_spark"])
def test_a_kafka_connection_is_no_cluster(connection: Callable[..., None], kind: str) -> None:
    """It is refused before Spark starts."""
    connection("spark_default", conn_type=kind, extra={"bootstrap.servers": "b:9092"})

    with pytest.raises(ConnectionConfigError, match=r"must be the id of a Spark connection.*is of type"):
        _cluster().check()


@pytest.mark.parametrize(
    ("of_connection", "conf", "namespace"),
    [
        ("of-connection", {"spark.kubernetes.namespace": "of-task"}, "of-task"),
        ("of-connection", {}, "of-connection"),
        (None, {}, "of-file"),
    ],
)
def test_the_namespace_is_that_of_spark_submit(
    connection: Callable[..., None], tmp_path: Path, of_connection: str | None, conf: dict[str, str], namespace: str
) -> None:
    """Where the worker looks for the driver's pod. Airflow's Spark provider gives the connection's as an option."""
    (tmp_path / "properties").write_text("spark.kubernetes.namespace of-file\n")
    extra = {"deploy-mode": "cluster", **({"namespace": of_connection} if of_connection else {})}
    connection("spark_default", conn_type="spark", host="k8s://http://localhost", port=1, extra=extra)

    api = _cluster(properties_file=str(tmp_path / "properties"), conf=conf).kubernetes

    assert api is not None
    assert api.access.namespace == namespace


def test_on_one_machine_the_handler_comes_after_sparks_own_jars() -> None:
    """It has Netty in it: before Spark's own on the class path it would replace that of Spark."""
    options = _cluster().jars.options([_config(_MSK), _config(_MSK)])

    assert Path(options["jars"]).name == "aws-msk-iam-auth-2.3.5-all.jar"
    assert "msk" not in options["driver_class_path"]


def test_on_a_cluster_it_travels_with_the_connector(connection: Callable[..., None]) -> None:
    connection("spark_default", conn_type="spark", host="yarn")

    names = [Path(path).name for path in _cluster().jars.options([_config(_MSK)])["jars"].split(",")]

    assert "aws-msk-iam-auth-2.3.5-all.jar" in names
    assert any(name.startswith("spark-sql-kafka") for name in names)


@pytest.mark.parametrize("option", ["jars", "driver_class_path"])
def test_the_author_gives_it(tmp_path: Path, option: str) -> None:
    """One that is not fetched, or the error names it."""
    jar = _jar(tmp_path / "google.jar", _GOOGLES_CLASS)
    assert _cluster(**{option: str(jar)}).jars.handlers([_config(_GOOGLE)]) == []
    assert _cluster(**{option: f"{tmp_path}/*"}).jars.handlers([_config(_GOOGLE)]) == []

    other = _jar(tmp_path / "other" / "other.jar", "a/B.class")
    for cluster in (_cluster(), _cluster(**{option: str(other)})):
        with pytest.raises(JarError, match="GcpLoginCallbackHandler"):
            cluster.jars.handlers([_config(_GOOGLE)])


@pytest.mark.parametrize(
    "options",
    [
        {"jars": "s3a://bucket/google.jar"},
        {"packages": "com.google.cloud.hosted.kafka:managed-kafka-auth-login-handler:1.0.5"},
        {"conf": {"spark.jars": "/opt/google.jar"}},
    ],
)
def test_what_cannot_be_looked_into_is_left_to_the_job(options: dict[str, Any]) -> None:
    assert _cluster(**options).jars.handlers([_config(_GOOGLE)]) == []


def test_a_folder_must_have_it(tmp_path: Path) -> None:
    folder = tmp_path / "connector"
    _jar(folder / "spark-sql-kafka-0-10_2.13-4.0.0.jar")
    with pytest.raises(JarError, match=r"IAMClientCallbackHandler.*kafka_connector is"):
        _cluster(str(folder)).jars.handlers([_config(_MSK)])

    _jar(folder / "google.jar", _GOOGLES_CLASS)
    assert _cluster(str(folder)).jars.handlers([_config(_GOOGLE)]) == []
