"""Promises of :meth:`SparkJobHook.check`: what a submission needs is found before anything is planned or started."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_kafka_spark.core.errors import (
    ConnectionConfigError,
    JarError,
    JavaNotFoundError,
    JobReportMissingError,
    KafkaSparkError,
    OptionError,
    ReportLocationError,
    SparkSubmitNotFoundError,
)
from airflow_provider_kafka_spark.hooks import spark_job
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import spark_cluster
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY

Connection = Callable[..., None]


@pytest.fixture(autouse=True)
def local_spark(connection: Connection) -> None:
    """``spark_default`` leads to a local Spark."""
    connection("spark_default", conn_type="spark", host="local[2]")


@pytest.mark.parametrize(("key", "value"), [("spark.submit.deployMode", "cluster"), ("spark.master", "yarn")])
def test_conf_that_would_send_the_job_elsewhere(key: str, value: str) -> None:
    """It would be asked for, and stopped, where it is not."""
    fails(SparkJobHook(submit_options={"conf": {key: value}}), OptionError, f"conf must not set {key}=", "Set it there")


def fails(hook: SparkJobHook, kind: type[KafkaSparkError], *says: str) -> None:
    """Check that the hook raises a non-retriable error with all these fragments in its message."""
    with pytest.raises(kind) as raised:
        hook.check()
    assert not raised.value.retriable
    assert [fragment for fragment in says if fragment not in str(raised.value)] == [], str(raised.value)


def test_passes_where_all_is_there() -> None:
    """A local Spark with Java and the fetched connector is fit to submit to."""
    SparkJobHook().check()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java on the PATH the message says where it was sought and what to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    fails(SparkJobHook(), JavaNotFoundError, "Java 17 or newer", str(tmp_path), "Install one")


def test_a_wrong_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME decides, as for spark-submit: an empty one is named, although there is Java on the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    fails(SparkJobHook(), JavaNotFoundError, f"JAVA_HOME={str(tmp_path)!r}", "point JAVA_HOME at one")


def test_an_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java that is too old for this Spark is named with its release."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (tmp_path / "bin/java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    fails(SparkJobHook(), JavaNotFoundError, "Java 17 or newer", "got Java 11", str(tmp_path / "bin/java"))


@pytest.mark.parametrize("by", ["argument", "connection"])
def test_no_spark_submit(connection: Connection, by: str) -> None:
    """The binary that the operator or the connection names must be there."""
    if by == "connection":
        connection("spark_default", conn_type="spark", host="local", extra={"spark-binary": "spark3-submit"})
    hook = SparkJobHook(submit_options={"spark_binary": "spark3-submit"} if by == "argument" else {})

    fails(hook, SparkSubmitNotFoundError, "'spark3-submit'", "SPARK_HOME", "kafka-spark[spark4]")


def test_a_missing_spark_connection() -> None:
    """A connection that is missing does not silently become YARN."""
    fails(SparkJobHook("nowhere"), ConnectionConfigError, "'nowhere' does not exist", "AIRFLOW_CONN_NOWHERE")


@pytest.mark.parametrize("by", ["argument", "connection"])
def test_cluster_mode_without_report_location(connection: Connection, by: str) -> None:
    """In cluster mode the report needs a place that both sides reach, and the message gives an example."""
    extra = {"deploy-mode": "cluster"} if by == "connection" else {}
    connection("spark_default", conn_type="spark", host="yarn", extra=extra)
    hook = SparkJobHook(submit_options={"deploy_mode": "cluster"} if by == "argument" else {})

    fails(hook, ReportLocationError, "report_location", "got none", "'spark_default'", "s3a://")


def test_cluster_mode_with_report_location_in_the_connection(connection: Connection) -> None:
    """The connection may name the place for all its tasks."""
    extra = {"deploy-mode": "cluster", "report-location": "file:///reports"}
    connection("spark_default", conn_type="spark", host="yarn", extra=extra)

    SparkJobHook().check()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("spark.speculation", "true", id="speculation"),
        pytest.param("spark.speculation", True, id="speculation-as-boolean"),
        pytest.param("spark.task.maxFailures", "4", id="max-failures"),
        pytest.param("spark.task.maxFailures", 4, id="max-failures-as-number"),
        pytest.param("spark.yarn.maxAppAttempts", "2", id="yarn-attempts"),
    ],
)
def test_conf_that_would_write_twice(key: str, value: Any) -> None:
    """Whatever makes Spark run a writing task again is refused with the reason, where it has no transactions."""
    hook = SparkJobHook(submit_options={"conf": {key: value}}, delivery="at_least_once")

    fails(hook, OptionError, f"conf must not set {key}={str(value)!r}", "again", "Leave it out")


def test_conf_by_which_spark_submit_leaves_early() -> None:
    """The report would be looked for while the job still runs."""
    key, follows = "spark.yarn.submit.waitAppCompletion", "yarn_track_via_rm_api"
    fails(
        SparkJobHook(submit_options={"conf": {key: False}}), OptionError, f"must not set {key}=false", f"{follows}=True"
    )
    SparkJobHook(submit_options={"conf": {key: False}, follows: True}).check()


@pytest.mark.parametrize(
    ("master", "options", "wait_conf"),
    [
        pytest.param("yarn", {}, {}, id="client-mode"),
        pytest.param("yarn", {"deploy_mode": "cluster"}, {"spark.yarn.submit.waitAppCompletion": "true"}, id="yarn"),
        pytest.param("yarn", {"deploy_mode": "cluster", "yarn_track_via_rm_api": True}, {}, id="yarn-by-rest"),
        pytest.param("k8s://https://api:443", {"deploy_mode": "cluster"}, {}, id="kubernetes"),
    ],
)
def test_spark_submit_stays_until_the_end(
    connection: Connection, master: str, options: dict[str, Any], wait_conf: dict[str, str]
) -> None:
    """Whatever a properties file says, unless the Spark provider follows the job."""
    connection("spark_default", conn_type="spark", host=master)
    assert SparkJobHook(submit_options=options).cluster.deployment.wait_conf(options) == wait_conf


def test_cluster_mode_on_a_standalone_cluster(connection: Connection) -> None:
    """Spark takes no Python application there."""
    connection("spark_default", conn_type="spark", host="master", port=7077, extra={"deploy-mode": "cluster"})
    fails(SparkJobHook(), OptionError, "not for a standalone cluster", "'spark://master:7077'", "use 'client'")


def test_kubernetes_without_its_client(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes' own provider is not needed; the Spark provider alone would demand it."""
    monkeypatch.setattr(spark_cluster, "find_spec", lambda _: None)
    connection("spark_default", conn_type="spark", host="k8s://https://api:443", extra={"deploy-mode": "cluster"})
    fails(SparkJobHook(), ConnectionConfigError, "'k8s://https://api:443'", r"airflow-provider-kafka-spark[kubernetes]")


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_secret_among_the_drivers_java_options_is_refused(connection: Callable[..., None], name: str) -> None:
    """They are arguments of a JVM on the worker, which all its users can read. A file of options is none."""
    connection("spark_default", conn_type="spark", host="local[2]")

    def hook(options: str) -> SparkJobHook:
        return SparkJobHook(submit_options={"conf": {name: options}})

    for harmless in ("@/etc/spark/driver.options", "-Djava.security.auth.login.config=/etc/jaas.conf -Xss4m"):
        hook(harmless).check()
    with pytest.raises(OptionError, match=f"no secret in {name}.*'@' and its path") as error:
        hook("-Da=b -Djavax.net.ssl.keyStorePassword=hunter2").check()
    assert "hunter2" not in str(error.value)


def test_a_task_may_run_again_where_it_writes_exactly_once() -> None:
    """It goes on from its committed progress; two at the same time would end each other."""
    SparkJobHook(submit_options={"conf": {"spark.task.maxFailures": "4"}}).check()
    fails(SparkJobHook(submit_options={"conf": {"spark.speculation": "true"}}), OptionError, "Leave it out")


def test_conf_that_says_the_same_as_we_do() -> None:
    """What we set anyway may be in the conf, and a conf of other things is the author's own."""
    SparkJobHook(
        submit_options={"conf": {"spark.task.maxFailures": 1, "spark.speculation": False, "a.b": None}}
    ).check()


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 3]"])
def test_a_local_master_with_attempts(connection: Connection, master: str) -> None:
    """``local[N,attempts]`` sets the attempts past the conf."""
    connection("spark_default", conn_type="spark", host=master)

    SparkJobHook().check()
    fails(SparkJobHook(delivery="at_least_once"), OptionError, repr(master), "'spark_default'", "Use 'local[N]'")


def test_an_empty_connector_folder(tmp_path: Path) -> None:
    """A folder without the connector is named, with the forms that would do."""
    hook = SparkJobHook(kafka_connector=str(tmp_path))

    fails(hook, JarError, "kafka_connector", repr(str(tmp_path)), "Maven coordinate", "'provided'")


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


def test_a_connector_version_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A coordinate that the repository does not have is named, with the variable for a mirror."""
    coordinate = "org.apache.spark:spark-sql-kafka-0-10_2.13:9.9.9"
    (tmp_path / "repository").mkdir()
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, (tmp_path / "repository").as_uri())
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "cache"))

    fails(
        SparkJobHook(kafka_connector=coordinate), JarError, coordinate, "Check the version", MAVEN_REPOSITORY.variable
    )


def test_a_provided_connector_is_taken_at_its_word() -> None:
    """``provided`` fetches nothing."""
    SparkJobHook(kafka_connector="provided").check()


@pytest.mark.parametrize(
    ("connection_of", "master", "is_local"),
    [
        pytest.param({"conn_type": "spark", "host": "local"}, "local", True, id="local"),
        pytest.param({"conn_type": "spark", "host": "local[2]"}, "local[2]", True, id="local-2"),
        pytest.param(
            {"conn_type": "spark", "host": "local-cluster[2,1,1024]"},
            "local-cluster[2,1,1024]",
            False,
            id="local-cluster",
        ),
        pytest.param(
            {"conn_type": "spark", "host": "localhost", "port": 7077}, "spark://localhost:7077", False, id="localhost"
        ),
        pytest.param(
            {"conn_type": "spark", "host": "local-master", "port": 7077},
            "spark://local-master:7077",
            False,
            id="local-name",
        ),
        pytest.param(
            {"conn_type": "spark", "host": "spark://m1:7077,m2:7077"},
            "spark://m1:7077,m2:7077",
            False,
            id="two-masters",
        ),
        pytest.param({"conn_type": "spark", "host": "yarn"}, "yarn", False, id="yarn"),
        pytest.param(
            {"conn_type": "k8s", "host": "https://api", "port": 443}, "k8s://https://api:443", False, id="kubernetes"
        ),
    ],
)
def test_the_master_is_the_one_that_the_provider_submits_to(
    connection: Connection, connection_of: dict[str, Any], master: str, is_local: bool
) -> None:
    """So a standalone master whose name begins with "local" gets its jars and files sent."""
    connection("spark_default", **connection_of)
    cluster = SparkJobHook().cluster
    assert (cluster.master, cluster.deployment.executors_on_worker) == (master, is_local)
    if not master.startswith("k8s"):
        # On Kubernetes the provider wants a further package.
        assert SparkSubmitHook()._connection["master"] == master  # noqa: SLF001 - the provider's


_HISTORY = "http://history.example.com:18080"
_PAGE = f"{_HISTORY}/history/local-1/"
_LOG = "spark.eventLog.enabled"
_LOGS = {_LOG: "true"}
_OF_SPARK = "spark.yarn.historyServer.address"


@pytest.mark.parametrize(
    ("extra", "conf", "file", "page"),
    [
        pytest.param({"history-server": _HISTORY}, _LOGS, "", _PAGE, id="connection"),
        pytest.param({"history-server": f" {_HISTORY}/ "}, _LOGS, "", _PAGE, id="slash-at-the-end"),
        pytest.param({"history-server": _HISTORY}, {"spark.eventLog.enabled": True}, "", _PAGE, id="boolean"),
        pytest.param({"history-server": _HISTORY}, {}, "spark.eventLog.enabled true", _PAGE, id="log-by-file"),
        pytest.param({}, {**_LOGS, _OF_SPARK: "history.example.com:18080"}, "", _PAGE, id="sparks-own"),
        pytest.param({}, _LOGS, f"{_OF_SPARK} history.example.com:18080", _PAGE, id="sparks-own-by-file"),
        pytest.param({"history-server": _HISTORY}, {**_LOGS, _OF_SPARK: "other:1"}, "", _PAGE, id="connection-first"),
        pytest.param({"history-server": _HISTORY}, {}, "", None, id="no-event-log"),
        pytest.param({"history-server": _HISTORY}, {_LOG: "false"}, f"{_LOG} true", None, id="conf-first"),
        pytest.param({}, {**_LOGS, _OF_SPARK: "${hadoopconf-x.hostname}:18080"}, "", None, id="variable"),
        pytest.param({}, _LOGS, "", None, id="no-server"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize("address", ["javascript:alert(1)", "ftp://history", "http://a b"])
def test_a_history_server_that_is_no_web_address(connection: Connection, address: str) -> None:
    """It would be a link in Airflow's UI."""
    connection("spark_default", conn_type="spark", host="local[2]", extra={"history-server": address})
    hook = SparkJobHook(submit_options={"conf": _LOGS})

    fails(hook, ConnectionConfigError, "'history-server'", "'spark_default'", repr(address), "http or https address")


def test_the_password_of_a_history_server_is_not_shown(connection: Connection) -> None:
    """Neither as a link nor in the error."""
    extra = {"history-server": "http://ann:hunter2@history"}
    connection("spark_default", conn_type="spark", host="local[2]", extra=extra)
    hook = SparkJobHook(submit_options={"conf": _LOGS})

    fails(hook, ConnectionConfigError, "'history-server'", "'http://***@history'")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        pytest.param([1, 2], "a JSON object", id="list"),
        pytest.param({"kafka-connector": 5}, "a text for 'kafka-connector'; got a int", id="number"),
        pytest.param({"kafka-connector": "evil:evil:1.0"}, "must be a folder or glob of jars", id="another-module"),
        pytest.param({"kafka-connector": "org.apache.spark:evil:1"}, "must be a folder or glob of jars", id="of-spark"),
        pytest.param({"report-location": {}}, "a text for 'report-location'; got a dict", id="object"),
        pytest.param({"deploy-mode": ["cluster"]}, "a text for 'deploy-mode'; got a list", id="list-of-modes"),
        pytest.param({"deploy-mode": "Cluster"}, "'client' or 'cluster'", id="mode"),
    ],
)
def test_an_extra_that_is_not_understood(connection: Connection, extra: object, says: str) -> None:
    """Another deploy mode was taken as client mode."""
    connection("spark_default", conn_type="spark", host="local[2]", extra=json.dumps(extra))

    fails(SparkJobHook(), ConnectionConfigError, "'spark_default'", says)


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
    monkeypatch.setattr(spark_job, "shared_path", lambda _: found)
    monkeypatch.setattr(spark_job, "READ_AGAIN_SECONDS", 0)
    return found


def test_a_report_is_asked_for_again(storage: Storage) -> None:
    storage.failures = [OSError("reset"), OSError("reset")]
    assert spark_job.read_report("s3://reports/1.json") == "the report"


def test_a_report_that_cannot_be_read_may_be_readable_later(storage: Storage) -> None:
    """All may be delivered, and the next try finds that out."""
    storage.failures = [OSError("reset")] * 3
    with pytest.raises(JobReportMissingError, match=r"must be readable.*reset") as raised:
        spark_job.read_report("s3://reports/1.json")
    assert raised.value.retriable


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["named-pipe", "endless"])
def test_a_report_that_has_no_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Others may write to ``report_location``: the task neither hangs nor fills its memory."""
    monkeypatch.setattr(spark_job, "READ_AGAIN_SECONDS", 0)
    report = tmp_path / "1.json"
    if kind == "named-pipe":
        os.mkfifo(report)
    else:
        report.symlink_to("/dev/zero")

    with pytest.raises(JobReportMissingError, match="must be a regular file"):
        spark_job.read_report(f"file://{report}")


def test_a_report_without_its_storages_provider(storage: Storage) -> None:
    storage.failures = [ImportError("no s3fs")]
    with pytest.raises(ReportLocationError, match="Install the provider"):
        spark_job.read_report("s3://reports/1.json")


def test_a_report_that_cannot_be_removed_is_read_all_the_same(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    assert spark_job.read_report("s3://reports/1.json") == "the report"
    spark_job.remove_shared_report("s3://reports/1.json")
    assert "could not be removed" in caplog.text
