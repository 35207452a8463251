"""Promises of :meth:`SparkJobHook.check`: what a submission needs is found before anything is planned or started."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_kafka_spark.core.errors import (
    ConnectionConfigError,
    JarError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
    ReportLocationError,
)
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import report_storage, spark_cluster

Connection = Callable[..., None]


@pytest.fixture(autouse=True)
def local_spark(connection: Connection) -> None:
    """``spark_default`` leads to a local Spark."""
    connection("spark_default", conn_type="spark", host="local[2]")


def fails(hook: SparkJobHook, kind: type[KafkaSparkError], *says: str) -> None:
    """Check that the hook raises a non-retriable error with all these fragments in its message."""
    with pytest.raises(kind) as raised:
        hook.check()
    assert not raised.value.retriable
    assert [fragment for fragment in says if fragment not in str(raised.value)] == [], str(raised.value)


_CLUSTER = {"extra": {"deploy-mode": "cluster"}}
_WAITS = "spark.yarn.submit.waitAppCompletion"
Refusal = tuple[dict[str, Any], dict[str, Any], type[KafkaSparkError], list[str]]
#: By fields of the connection, and by submit options.
_REFUSED: dict[str, Refusal] = {
    "conf-has-the-mode": ({}, {"spark.submit.deployMode": "cluster"}, OptionError,
        ["conf must not set spark.submit.deployMode=", "Set it there"]),
    "conf-has-the-master": ({}, {"spark.master": "yarn"}, OptionError,
        ["conf must not set spark.master=", "Set it there"]),
    # The report would be looked for while the job still runs.
    "spark-submit-leaves-early": ({}, {_WAITS: False}, OptionError,
        [f"must not set {_WAITS}=false", "yarn_track_via_rm_api=True"]),
    "cluster-mode-on-standalone": ({"host": "master", "port": 7077, **_CLUSTER}, {}, OptionError,
        ["not for a standalone cluster", "'spark://master:7077'", "use 'client'"]),
    "extra-is-no-object": ({"extra": "[1, 2]"}, {}, ConnectionConfigError, ["'spark_default'", "a JSON object"]),
    "connector-is-no-text": ({"extra": {"kafka-connector": 5}}, {}, ConnectionConfigError,
        ["'spark_default'", "a text for 'kafka-connector'; got a int"]),
    "connector-by-coordinates": ({"extra": {"kafka-connector": "evil:evil:1.0"}}, {}, ConnectionConfigError,
        ["'spark_default'", "must be a folder or glob of jars"]),
    "connector-as-of-spark": ({"extra": {"kafka-connector": "org.apache.spark:evil:1"}}, {}, ConnectionConfigError,
        ["'spark_default'", "must be a folder or glob of jars"]),
    # It was taken as client mode.
    "another-deploy-mode": ({"extra": {"deploy-mode": "Cluster"}}, {}, ConnectionConfigError,
        ["'spark_default'", "'client' or 'cluster'"]),
}  # fmt: skip


@pytest.mark.parametrize("refusal", _REFUSED.values(), ids=_REFUSED)
def test_what_cannot_be_submitted(connection: Connection, refusal: Refusal) -> None:
    fields, conf, kind, says = refusal
    connection("spark_default", **{"conn_type": "spark", "host": "local[2]", **fields})

    fails(SparkJobHook(submit_options={"conf": conf}), kind, *says)


@pytest.mark.parametrize("place", ["properties file", "defaults", "variable"])
def test_a_mode_that_only_spark_would_see(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``spark-submit`` would follow it, and the worker would take the driver for its own."""
    file = tmp_path / "spark-defaults.conf"
    file.write_text("spark.submit.deployMode cluster\n")
    options: dict[str, Any] = {}
    if place == "properties file":
        options["properties_file"] = str(file)
    elif place == "defaults":
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    else:
        monkeypatch.setenv("DEPLOY_MODE", "cluster")
    fails(SparkJobHook(submit_options=options), OptionError, "deploy_mode must say", "Pass deploy_mode='cluster'")

    SparkJobHook(submit_options={**options, "deploy_mode": "client"}).check()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.speculation", "true"),
        ("spark.task.maxFailures", 4),
        ("spark.yarn.maxAppAttempts", "2"),
    ],
)
def test_conf_that_would_write_twice(key: str, value: Any) -> None:
    """Whatever makes Spark run a writing task again is refused with the reason, where it has no transactions. Where it
    writes exactly once, a task may run again: it goes on from its committed progress. Two at the same time would end
    each other.
    """
    conf = {"conf": {key: value}}
    hook = SparkJobHook(submit_options=conf, delivery="at_least_once")
    fails(hook, OptionError, f"conf must not set {key}={str(value)!r}", "again", "Leave it out")
    if "maxFailures" in key:
        SparkJobHook(submit_options=conf).check()
    if "speculation" in key:
        fails(SparkJobHook(submit_options=conf), OptionError, "Leave it out")


@pytest.mark.parametrize(
    ("master", "options", "wait_conf"),
    [
        ("yarn", {}, {}),
        ("yarn", {"deploy_mode": "cluster"}, {_WAITS: "true"}),
        ("yarn", {"deploy_mode": "cluster", "yarn_track_via_rm_api": True}, {}),
        ("k8s://https://api:443", {"deploy_mode": "cluster"}, {}),
    ],
)
def test_spark_submit_stays_until_the_end(
    connection: Connection, master: str, options: dict[str, Any], wait_conf: dict[str, str]
) -> None:
    """Whatever a properties file says, unless the Spark provider follows the job."""
    connection("spark_default", conn_type="spark", host=master)
    assert SparkJobHook(submit_options=options).cluster.deployment.wait_conf(options) == wait_conf


def test_kubernetes_without_its_client(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes' own provider is not needed; the Spark provider alone would demand it."""
    monkeypatch.setattr(spark_cluster, "find_spec", lambda _: None)
    connection("spark_default", conn_type="spark", host="k8s://https://api:443", extra={"deploy-mode": "cluster"})
    fails(SparkJobHook(), ConnectionConfigError, "'k8s://https://api:443'", r"airflow-provider-kafka-spark[kubernetes]")


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_secret_among_the_drivers_java_options_is_refused(name: str) -> None:
    """They are arguments of a JVM on the worker, which all its users can read. A file of options is none."""

    def hook(options: str) -> SparkJobHook:
        return SparkJobHook(submit_options={"conf": {name: options}})

    for harmless in ("@/etc/spark/driver.options", "-Djava.security.auth.login.config=/etc/jaas.conf -Xss4m"):
        hook(harmless).check()
    with pytest.raises(OptionError, match=f"no secret in {name}.*'@' and its path") as error:
        hook("-Da=b -Djavax.net.ssl.keyStorePassword=hunter2").check()
    assert "hunter2" not in str(error.value)


def test_what_is_no_fault(connection: Connection) -> None:
    """What we set anyway may be in the conf, a conf of other things is the author's own, the Spark provider may follow
    the job, ``provided`` fetches nothing, and the connection may name the place of reports for all its tasks.
    """
    SparkJobHook(
        submit_options={"conf": {"spark.task.maxFailures": 1, "spark.speculation": False, "a.b": None}}
    ).check()
    stays = {"conf": {_WAITS: False}, "yarn_track_via_rm_api": True}
    SparkJobHook(submit_options=stays).check()
    SparkJobHook(kafka_connector="provided").check()
    extra = {"deploy-mode": "cluster", "report-location": "file:///reports"}
    connection("spark_default", conn_type="spark", host="yarn", extra=extra)
    SparkJobHook().check()


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 3]"])
def test_a_local_master_with_attempts(connection: Connection, master: str) -> None:
    """``local[N,attempts]`` sets the attempts past the conf."""
    connection("spark_default", conn_type="spark", host=master)

    SparkJobHook().check()
    fails(SparkJobHook(delivery="at_least_once"), OptionError, repr(master), "'spark_default'", "Use 'local[N]'")


def test_a_connector_folder_in_the_connection(connection: Connection, tmp_path: Path) -> None:
    """The connection's Extra may name the jars, and is held to the same."""
    (tmp_path / "unrelated.jar").touch()
    connection("spark_default", conn_type="spark", host="local", extra={"kafka-connector": f"{tmp_path}/*.jar"})

    fails(SparkJobHook(), JarError, "unrelated.jar", "spark-sql-kafka-0-10")


def test_an_unreadable_jar(tmp_path: Path) -> None:
    """A jar that the worker cannot read is named."""
    # No file's mode stops root, which tests may run as; a link that leads nowhere stops everybody.
    jar = tmp_path / "spark-sql-kafka-0-10_2.13-4.0.0.jar"
    jar.symlink_to(tmp_path / "gone.jar")

    fails(SparkJobHook(kafka_connector=str(tmp_path)), JarError, "must be readable", str(jar), "permissions")


@pytest.mark.parametrize(
    ("conn_type", "host", "port", "master", "is_local"),
    [
        ("spark", "local", None, "local", True),
        ("spark", "local[2]", None, "local[2]", True),
        ("spark", "local-cluster[2,1,1024]", None, "local-cluster[2,1,1024]", False),
        ("spark", "localhost", 7077, "spark://localhost:7077", False),
        ("spark", "local-master", 7077, "spark://local-master:7077", False),
        ("spark", "spark://m1:7077,m2:7077", None, "spark://m1:7077,m2:7077", False),
        ("spark", "yarn", None, "yarn", False),
        ("k8s", "https://api", 443, "k8s://https://api:443", False),
    ],
)
def test_the_master_is_the_one_that_the_provider_submits_to(
    connection: Connection, conn_type: str, host: str, port: int | None, master: str, is_local: bool
) -> None:
    """So a standalone master whose name begins with "local" gets its jars and files sent."""
    connection("spark_default", conn_type=conn_type, host=host, **({"port": port} if port else {}))
    cluster = SparkJobHook().cluster
    assert (cluster.master, cluster.deployment.executors_on_worker) == (master, is_local)
    if conn_type == "spark":
        # On Kubernetes the provider wants a further package.
        assert SparkSubmitHook()._connection["master"] == master  # noqa: SLF001 - the provider's


_SERVER = "http://history.example.com:18080"
_HISTORY = {"history-server": _SERVER}
_PAGE = f"{_SERVER}/history/local-1/"
_LOG = "spark.eventLog.enabled"
_OF_SPARK = "spark.yarn.historyServer.address"


@pytest.mark.parametrize(
    ("extra", "conf", "file", "page"),
    [
        (_HISTORY, {_LOG: "true"}, "", _PAGE),
        ({"history-server": f" {_SERVER}/ "}, {_LOG: "true"}, "", _PAGE),
        (_HISTORY, {}, f"{_LOG} true", _PAGE),
        ({}, {_LOG: "true", _OF_SPARK: "history.example.com:18080"}, "", _PAGE),
        ({}, {_LOG: "true"}, f"{_OF_SPARK} history.example.com:18080", _PAGE),
        (_HISTORY, {_LOG: "true", _OF_SPARK: "other:1"}, "", _PAGE),
        (_HISTORY, {}, "", None),
        (_HISTORY, {_LOG: "false"}, f"{_LOG} true", None),
        ({}, {_LOG: "true", _OF_SPARK: "${hadoopconf-x.hostname}:18080"}, "", None),
        ({}, {_LOG: "true"}, "", None),
    ],
)
def test_the_page_of_an_application_that_has_ended(
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    extra: dict[str, str],
    conf: dict[str, Any],
    file: str,
    page: str | None,
) -> None:
    """It is on the history server, where one is named and Spark writes the log that it shows."""
    (tmp_path / "spark-defaults.conf").write_text(file)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    connection("spark_default", conn_type="spark", host="local[2]", extra=extra)

    assert SparkJobHook(submit_options={"conf": conf}).page_after_end("local-1") == page


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        *((address, repr(address)) for address in ("javascript:alert(1)", "ftp://h", "http://a b")),
        ("http://ann:hunter2@history", "'http://***@history'"),
    ],
)
def test_a_history_server_that_is_no_web_address(connection: Connection, address: str, shown: str) -> None:
    """It would be a link in Airflow's UI; a password is shown neither as a link nor in the error."""
    connection("spark_default", conn_type="spark", host="local[2]", extra={"history-server": address})
    hook = SparkJobHook(submit_options={"conf": {_LOG: "true"}})

    fails(hook, ConnectionConfigError, "'history-server'", "'spark_default'", shown)


class Storage:
    """Of a report: its reads raise what is given, in order, and nothing can be removed."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)

    def open(self, mode: str) -> io.BytesIO:
        assert mode == "rb"
        if self.failures:
            raise self.failures.pop(0)
        return io.BytesIO(b"the report")

    def unlink(self) -> None:
        raise PermissionError("denied")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    found = Storage()
    monkeypatch.setattr(report_storage, "shared_path", lambda _: found)
    monkeypatch.setattr(report_storage, "READ_AGAIN_SECONDS", 0)
    return found


def test_a_report_is_asked_for_again(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    """Later, one that cannot be read may be readable: all may be delivered, and the next try finds that out. One that
    cannot be removed is read all the same.
    """
    storage.failures = [OSError("reset"), OSError("reset")]
    assert report_storage.read_report("s3://reports/1.json") == "the report"
    report_storage.remove_shared_report("s3://reports/1.json")
    assert "could not be removed" in caplog.text
    storage.failures = [OSError("reset")] * 3
    with pytest.raises(JobReportMissingError, match=r"must be readable.*reset") as raised:
        report_storage.read_report("s3://reports/1.json")
    assert raised.value.retriable
    storage.failures = [ImportError("no s3fs")]
    with pytest.raises(ReportLocationError, match="Install the provider"):
        report_storage.read_report("s3://reports/1.json")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["named-pipe", "endless"])
def test_a_report_that_has_no_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Others may write to ``report_location``: the task neither hangs nor fills its memory."""
    monkeypatch.setattr(report_storage, "READ_AGAIN_SECONDS", 0)
    report = tmp_path / "1.json"
    if kind == "named-pipe":
        os.mkfifo(report)
    else:
        report.symlink_to("/dev/zero")

    with pytest.raises(JobReportMissingError, match="must be a regular file"):
        report_storage.read_report(f"file://{report}")
