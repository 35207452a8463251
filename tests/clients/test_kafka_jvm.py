"""The JVM of Kafka's Java client: what it inherits, and how the client reads logins."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import py4j.java_gateway
import py4j.protocol
import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from airflow_provider_kafka_spark.clients import kafka_jvm
from airflow_provider_kafka_spark.clients.connection.files import configure
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
from airflow_provider_kafka_spark.core.errors import (
    BrokerAuthenticationError,
    BrokerError,
    BrokerUnavailableError,
    ConnectionConfigError,
    JavaStartError,
    KafkaSparkError,
)
from airflow_provider_kafka_spark.core.spark.java_properties import format_properties
from airflow_provider_kafka_spark.core.spark.secret_references import by_reference
from tests.child_processes import children_with
from tests.required_tools import needs_clock, needs_kdc
from tests.services.identity_provider import IdentityProvider
from tests.services.kerberos import Kdc
from tests.waiting import until

pytestmark = pytest.mark.process


def test_it_inherits_nothing_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its connections nor its variables and settings; what Java needs, it has. Settings for all JVMs of the
    machine may make it log to the stream that has the port and the secret.
    """
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xlog:gc=info -Xlog:cds=info")
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_VAR_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("KRB5_CONFIG", "/krb5.conf")
    before = {child.pid for child in psutil.Process().children()}

    with KafkaJvm({"sasl.jaas.config": "s3cret"}, "a connection", timeout=10) as jvm:
        (child,) = (child for child in psutil.Process().children() if child.pid not in before)
        environ, command = child.environ(), " ".join(child.cmdline())
        assert jvm.java.java.lang.Math.abs(-3) == 3

    assert "GatewayServer" in command
    assert "s3cret" not in f"{environ} {command}"
    assert {"KRB5_CONFIG": "/krb5.conf", "PATH": os.environ["PATH"]}.items() <= environ.items()


def test_what_it_unpacks_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client unpacks native code into its temporary folder and loads it; the folder goes with the JVM."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        with KafkaJvm({}, "no connection", timeout=10) as jvm:
            temporary = Path(str(jvm.java.java.lang.System.getProperty("java.io.tmpdir")))
            assert (temporary.parent, temporary.stat().st_mode & 0o777) == (tmp_path, 0o700)
            jvm.java.net.jpountz.lz4.LZ4Factory.nativeInstance()
            (library,) = temporary.glob("liblz4*.so")
            assert library.stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)

    assert list(tmp_path.iterdir()) == []


def test_the_client_reads_what_options_refer_to(tmp_path: Path) -> None:
    """With every character, lines and quotes among them, and from a folder whose name has a space. Kafka's client
    itself keeps to the file of the job's logins: no other can be referred to.
    """
    secrets = {
        "kafka.sasl.jaas.config": 'M required password="a=b: #!\\"${x}\\\\ ünï 🔑 ";',
        "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nMII+/=\n-----END PRIVATE KEY-----\n",
        "kafka.ssl.key.password": "=leading",
    }
    file, other = tmp_path / "a folder" / "logins", tmp_path / "other"
    file.parent.mkdir()
    options, content = by_reference({"kafka.bootstrap.servers": "b:9092", **secrets}, str(file), "sink")
    file.write_text(format_properties(content))
    other.write_text("name=of-somebody-else")
    options["kafka.client.id"] = f"${{file:{other}:name}}"

    with KafkaJvm({}, "no connection", timeout=10) as jvm:
        properties = jvm.java.java.util.HashMap()
        for name, value in options.items():
            properties.put(name.removeprefix("kafka."), value)
        config = jvm.java.org.apache.kafka.clients.admin.AdminClientConfig(properties)
        read = {name: str(config.getPassword(name.removeprefix("kafka.")).value()) for name in secrets}
        client_id = config.getString("client.id")

    # Kafka trims values of any source.
    assert read == {name: value.strip() for name, value in secrets.items()}
    assert client_id == options["kafka.client.id"]


def test_a_jvm_that_is_gone_is_named() -> None:
    """Whichever call it was."""
    with KafkaJvm({"bootstrap.servers": "127.0.0.1:1"}, "the broker", timeout=5) as jvm:
        client = jvm.admin()
        (child,) = children_with("py4j.GatewayServer")
        child.kill()
        # Not waited for, which would take its exit code.
        while child.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        with pytest.raises(BrokerUnavailableError, match="no answer from Kafka's Java client") as gone:
            jvm.admin()
        assert "its JVM has ended (SIGKILL)" in str(gone.value)
        assert "Errno" not in str(gone.value)
        with (
            pytest.raises(BrokerUnavailableError, match="Describing the cluster got no answer"),
            jvm.translate_errors("describing the cluster"),
        ):
            client.describeCluster()


def _kill_the_jvm() -> None:
    (child,) = children_with("py4j.GatewayServer")
    child.kill()
    child.wait(5)


def test_a_jvm_that_crashes_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its memory and its arguments would be in the worker's working folder."""
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        with KafkaJvm({}, "no connection", timeout=5):
            (child,) = children_with("py4j.GatewayServer")
            child.send_signal(signal.SIGSEGV)
            child.wait(30)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["while-it-cleans-up", "with-what-it-threw"])
def test_a_jvm_that_goes_after_an_exception_is_named(caplog: pytest.LogCaptureFixture, when: str) -> None:
    """And not again by the exception after which it cleans up, or which is in the JVM. What py4j logs of it is little,
    although it logs the exception that is being handled, whose text it asks of the JVM, about which it logs again.
    """
    logging.getLogger("py4j").setLevel(logging.INFO)
    caplog.set_level(logging.INFO)
    with KafkaJvm({}, "the broker", timeout=5) as jvm:
        number = jvm.java.java.lang.Integer
        if when == "with-what-it-threw":
            with pytest.raises(Py4JJavaError) as thrown:
                number.parseInt("x")
            _kill_the_jvm()
            with pytest.raises(BrokerUnavailableError, match="got no answer"), jvm.translate_errors("creating"):
                raise thrown.value
        else:
            words = r'NumberFormatException: For input string: "x"\.$'
            with pytest.raises(BrokerError, match=words) as first, jvm.translate_errors("creating"):
                number.parseInt("x")
            try:
                raise first.value
            except BrokerError:
                _kill_the_jvm()
                expiring = jvm.translate_errors("expiring")
                with pytest.raises(BrokerUnavailableError, match="Expiring got no answer"), expiring:
                    number.parseInt("1")
    assert 0 < len(caplog.records) < 10


def test_what_java_says_is_a_sentence_before_the_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where PySpark, in the same process, takes every exception for one of its own JVM, and stumbles over it."""

    def captured(*arguments: Any) -> Any:
        try:
            return py4j.protocol.get_return_value(*arguments)
        except Py4JJavaError:
            raise Py4JError("Method exceptionString([class SparkSession]) does not exist")  # noqa: B904 - as PySpark

    with KafkaJvm({"bootstrap.servers": "127.0.0.1:1"}, "the broker", timeout=1) as jvm:
        for read in (py4j.java_gateway.get_return_value, captured):
            monkeypatch.setattr(py4j.java_gateway, "get_return_value", read)
            with pytest.raises(BrokerUnavailableError, match=r"Call: listNodes\. Is the broker up, and"):
                jvm.get(jvm.admin().describeCluster().clusterId(), "reading the cluster's id")
            words = r"Invalid url in bootstrap\.servers: .*\w\. Correct the property it names\.$"
            with pytest.raises(ConnectionConfigError, match=words):
                jvm.admin({"bootstrap.servers": "no port"})


@pytest.mark.parametrize(
    ("name", "value", "how"),
    [
        pytest.param("JVM_OPTIONS", ("-Xms900t", "-Xmx900t"), "it ended", id="ends"),
        pytest.param("START_SECONDS", 0.0, "it did not", id="too-slow"),
    ],
)
def test_a_jvm_that_does_not_start_may_do_so_later(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, how: str
) -> None:
    """The machine has no memory or no time for it now; that Java is there was looked at before."""
    monkeypatch.setattr(kafka_jvm, name, value)
    with pytest.raises(JavaStartError, match=how) as caught:
        KafkaJvm({}, "the broker", timeout=5).__enter__()
    assert caught.value.retriable
    assert not children_with("py4j.GatewayServer")


def _failed_login(extra: dict[str, Any], krb5_conf: Path | None = None) -> KafkaSparkError:
    config = configure("kafka_login", {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", **extra})
    system = {**config.system_properties, **({"java.security.krb5.conf": str(krb5_conf)} if krb5_conf else {})}
    # An identity provider is asked again for 10 seconds by default.
    java = {**config.java, "sasl.login.retry.backoff.ms": "50", "sasl.login.retry.backoff.max.ms": "200"}
    with (
        KafkaJvm(java, "the broker", timeout=15, system_properties=system) as jvm,
        pytest.raises(KafkaSparkError) as caught,
    ):
        jvm.admin()
    return caught.value


def test_an_identity_provider_that_is_away_may_come_back() -> None:
    """One that refuses the client does so again. The message is short, although Java's has a stack trace."""
    with IdentityProvider({"copier": "s3cret"}) as provider:
        extra = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.client.id": "copier",
            "sasl.oauthbearer.client.secret": "another",
        }
        refused = _failed_login(extra)
        provider.stop()
        away = _failed_login(extra)
    assert type(refused) is BrokerAuthenticationError
    assert "The identity provider gave no token" in str(refused)
    assert type(away) is BrokerUnavailableError
    assert "The identity provider does not answer" in str(away)
    assert "keytab" not in f"{refused}{away}"
    assert "\n" not in f"{refused}{away}"


def _by_keytab(kdc: Kdc, keytab: Path) -> dict[str, Any]:
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": kdc.principal("alice"),
        "sasl.kerberos.keytab": str(keytab),
    }


@needs_kdc
def test_a_kdc_that_is_away_may_come_back(tmp_path: Path) -> None:
    with Kdc() as kdc:
        (tmp_path / "alice.keytab").write_bytes(kdc.keytab("alice").read_bytes())
        (tmp_path / "krb5.conf").write_bytes(kdc.krb5_conf.read_bytes())
        extra = _by_keytab(kdc, tmp_path / "alice.keytab")
    error = _failed_login(extra, tmp_path / "krb5.conf")
    assert type(error) is BrokerUnavailableError
    assert "The Kerberos server (KDC)" in str(error)


@needs_kdc
@needs_clock
@pytest.mark.parametrize(
    "ahead",
    [
        timedelta(minutes=10),
        pytest.param(-timedelta(minutes=10), marks=pytest.mark.long),
        pytest.param(-timedelta(days=3), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_clocks_that_differ_are_named(ahead: timedelta) -> None:
    """Whether the KDC's clock is fast or slow; Kerberos permits five minutes."""
    with Kdc(clock_offset=ahead, preauthentication=True) as kdc:
        began = time.monotonic()
        error = _failed_login(_by_keytab(kdc, kdc.keytab("alice")), kdc.krb5_conf)
    assert time.monotonic() - began < 30
    assert type(error) is BrokerAuthenticationError
    assert "KrbException: Clock skew too great (37) - PREAUTH_FAILED. The clocks of this machine" in str(error)
    assert "Set the clocks of worker, broker and KDC by NTP." in str(error)


_WORKER = """
import time
from airflow_provider_kafka_spark.clients.kafka_jvm import KafkaJvm
with KafkaJvm({}, "no connection", timeout=10) as jvm:
    print(jvm.java.java.lang.ProcessHandle.current().pid(), flush=True)
    time.sleep(600)
"""


def test_the_jvm_of_a_killed_worker_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", _WORKER], stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            jvm = psutil.Process(int(worker.stdout.readline()))
            assert "py4j.GatewayServer" in jvm.cmdline()
        finally:
            worker.kill()
    until(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE, "the JVM has ended", 10.0)
