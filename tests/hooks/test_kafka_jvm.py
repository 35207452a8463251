"""The JVM of Kafka's Java client: what it inherits, and how the client reads logins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import py4j.java_gateway
import py4j.protocol
import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, ConnectionConfigError
from airflow_provider_kafka_spark.core.submission.java_properties import format_properties
from airflow_provider_kafka_spark.core.submission.secret_references import by_reference
from airflow_provider_kafka_spark.hooks.kafka_jvm import KafkaJvm
from tests.child_processes import children_with


def test_it_inherits_nothing_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its connections nor its variables and settings; what Java needs, it has."""
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_VAR_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("KRB5_CONFIG", "/krb5.conf")
    before = {child.pid for child in psutil.Process().children()}

    with KafkaJvm({"sasl.jaas.config": "s3cret"}, "a connection", timeout=10):
        (jvm,) = (child for child in psutil.Process().children() if child.pid not in before)
        process = Path(f"/proc/{jvm.pid}")
        environ, command = (process / "environ").read_bytes(), (process / "cmdline").read_bytes()

    assert b"GatewayServer" in command
    assert b"s3cret" not in environ + command
    assert {b"KRB5_CONFIG=/krb5.conf", f"PATH={os.environ['PATH']}".encode()} <= set(environ.split(b"\0"))


def test_the_client_reads_what_options_refer_to(tmp_path: Path) -> None:
    """With every character, lines and quotes among them, and from a folder whose name has a space."""
    secrets = {
        "kafka.sasl.jaas.config": 'M required password="a=b: #!\\"${x}\\\\ ünï 🔑 ";',
        "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nMII+/=\n-----END PRIVATE KEY-----\n",
        "kafka.ssl.key.password": "=leading",
    }
    file = tmp_path / "a folder" / "logins"
    file.parent.mkdir()
    options, content = by_reference({"kafka.bootstrap.servers": "b:9092", **secrets}, str(file), "sink")
    file.write_text(format_properties(content))

    with KafkaJvm({}, "no connection", timeout=10) as jvm:
        properties = jvm.java.java.util.HashMap()
        for name, value in options.items():
            properties.put(name.removeprefix("kafka."), value)
        config = jvm.java.org.apache.kafka.clients.admin.AdminClientConfig(properties)
        read = {name: str(config.getPassword(name.removeprefix("kafka.")).value()) for name in secrets}

    # Kafka itself trims what it is told, from wherever.
    assert read == {name: value.strip() for name, value in secrets.items()}


def test_what_the_jvm_itself_says_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """It logs to where the port and the secret come from, if somebody told all JVMs of the machine to."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xlog:gc=info -Xlog:cds=info")
    with KafkaJvm({}, "no connection", timeout=10) as jvm:
        assert jvm.java.java.lang.Math.abs(-3) == 3


def test_a_jvm_that_is_gone_is_named() -> None:
    """Whichever call it was."""
    with KafkaJvm({"bootstrap.servers": "127.0.0.1:1"}, "the broker", timeout=5) as jvm:
        client = jvm.admin()
        (child,) = children_with("py4j.GatewayServer")
        child.kill()
        child.wait(5)
        with pytest.raises(BrokerUnavailableError, match="no answer from Kafka's Java client"):
            jvm.admin()
        with (
            pytest.raises(BrokerUnavailableError, match="Describing the cluster got no answer"),
            jvm.naming("describing the cluster"),
        ):
            client.describeCluster()


def test_beside_pyspark_in_the_same_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark takes every exception for one of its own JVM, and stumbles over it."""

    def captured(*arguments: Any) -> Any:
        try:
            return py4j.protocol.get_return_value(*arguments)
        except Py4JJavaError:
            raise Py4JError("Method exceptionString([class SparkSession]) does not exist")  # noqa: B904 - as PySpark

    monkeypatch.setattr(py4j.java_gateway, "get_return_value", captured)
    with (
        KafkaJvm({"bootstrap.servers": "no port"}, "the broker", timeout=5) as jvm,
        pytest.raises(ConnectionConfigError, match=r"Invalid url in bootstrap\.servers"),
    ):
        jvm.admin()
