"""What ``spark-submit`` is started with: arguments, environment and files of a job with secrets, as they are when it
runs.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.client_config import translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JobReportMissingError
from airflow_provider_kafka_spark.core.handoff.java_properties import parse_properties
from airflow_provider_kafka_spark.core.handoff.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.protocol import JobRequest, Transform
from airflow_provider_kafka_spark.core.secrets import REDACTION
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import spark_submission
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar

PASSWORD = "pa55-of-kafka"
KEYTAB = b"\x05\x02a keytab"
LOGIN = {
    "bootstrap.servers": "b:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": PASSWORD,
}
#: Tells what it was started with, and what lies in the folders of its arguments that are its own, and shows that it is
#: gone afterwards.
SUBMIT = """#!/usr/bin/env python3
import json, os, pathlib, stat, sys
umask = os.umask(0o022)
words = [word for argument in sys.argv for word in argument.split(",")]
folder = pathlib.Path(next(w for w in words if "/airflow-kafka-spark-" in w and "=" not in w)).parent
found = filter(pathlib.Path.is_file, folder.iterdir())
files = {file.name: [stat.S_IMODE(file.stat().st_mode), file.read_bytes().hex()] for file in found}
submitted = {
    "folder": str(folder),
    "mode": stat.S_IMODE(folder.stat().st_mode),
    "files": files,
    "arguments": sys.argv[1:],
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "umask": umask,
}
pathlib.Path(__file__).with_name("submitted.json").write_text(json.dumps(submitted))
"""


@dataclass(frozen=True)
class Submitted:
    """What ``spark-submit`` was started with."""

    folder: Path
    folder_mode: int
    modes: dict[str, int]
    contents: dict[str, bytes]
    arguments: list[str]
    environment: dict[str, str]
    cwd: Path
    umask: int


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A Spark of the installed version with a ``spark-submit`` that only records its arguments."""
    folder = tmp_path / "spark"
    (folder / "bin").mkdir(parents=True)
    (folder / "jars").symlink_to(find_spark_home(environ={}).jars)
    submit = folder / "bin" / "spark-submit"
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(folder))
    return folder


def submit(
    home: Path,
    report_location: str | None = None,
    *,
    system_properties: Mapping[str, str] | None = None,
    kafka_connector: str | None = None,
    **options: Any,
) -> Submitted:
    request = JobRequest(
        run_id="0123456789abcdef",
        instance="instance",
        submission=1,
        plan_digest="digest",
        ranges=(),
        spans=(),
        transform=Transform(),
        source_options=translate("k", LOGIN).spark_options(),
        sink_options={},
        report_uri="report.json",
    )
    source = replace(translate("k", LOGIN), system_properties=system_properties or {})
    logins = JobCredentials(source, translate("k", LOGIN))
    hook = SparkJobHook(report_location=report_location, kafka_connector=kafka_connector, submit_options=options)
    with pytest.raises(JobReportMissingError):
        hook.run(request, "batch", lambda _: None, logins)
    submitted = json.loads((home / "bin" / "submitted.json").read_text())
    return Submitted(
        Path(submitted["folder"]),
        submitted["mode"],
        {name: mode for name, (mode, _) in submitted["files"].items()},
        {name: bytes.fromhex(content) for name, (_, content) in submitted["files"].items()},
        submitted["arguments"],
        submitted["environment"],
        Path(submitted["cwd"]),
        submitted["umask"],
    )


@pytest.mark.parametrize(
    ("master", "mode"),
    [("local[2]", None), ("spark://m:7077", None), ("yarn", "client"), ("yarn", "cluster")],
    ids=["local", "standalone", "yarn-client", "yarn-cluster"],
)
def test_logins_go_by_a_file_of_their_own(
    connection: Callable[..., None], home: Path, master: str, mode: str | None, tmp_path: Path
) -> None:
    """In a folder of mode 0700, in a file of mode 0600, which is gone afterwards; the request and with it Spark's
    options only refer to it.
    """
    connection("spark_default", conn_type="spark", host=master)
    (tmp_path / "reports").mkdir()

    submitted = submit(
        home, report_location=f"file://{tmp_path}/reports" if mode == "cluster" else None, deploy_mode=mode
    )

    name = "kafka-logins.properties"
    assert (submitted.folder_mode, submitted.modes["request.json"], submitted.modes[name]) == (0o700, 0o600, 0o600)
    assert [name for name, content in submitted.contents.items() if PASSWORD.encode() in content] == [name]
    path = str(submitted.folder / name) if master == "local[2]" else f"/proc/self/cwd/{name}"
    options = json.loads(submitted.contents["request.json"])["source_options"]
    key = "source.kafka.sasl.jaas.config"
    assert options["kafka.sasl.jaas.config"] == f"${{file:{path}:{key}}}"
    # No other file can be referred to.
    assert options["kafka.config.providers.file.param.allowed.paths"] == path
    files = [word for flag, word in pairwise(submitted.arguments) if flag == "--files"]
    assert [str(submitted.folder / name) in word.split(",") for word in files] == (
        [] if master == "local[2]" else [True]
    )
    # On a driver of this machine it is found by its name as on executors; and Spark's class path has a relative folder.
    assert submitted.cwd == submitted.folder
    assert PASSWORD not in json.dumps([submitted.arguments, submitted.environment])
    assert not submitted.folder.exists()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_relative_paths_are_those_of_the_worker(
    connection: Callable[..., None], home: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a class path is that of the driver, wherever it runs."""
    connection("spark_default", conn_type="spark", host="yarn")
    (tmp_path / "reports").mkdir()
    (tmp_path / "a.txt").touch()
    monkeypatch.chdir(tmp_path)

    submitted = submit(home, f"file://{tmp_path}/reports", deploy_mode=mode, files="a.txt", driver_class_path="x.jar")

    given = dict(pairwise(submitted.arguments))
    assert given["--files"].split(",")[0] == f"{tmp_path}/a.txt"
    here = "" if mode == "cluster" else f"{tmp_path}/"
    assert given["--driver-class-path"].split(":")[0] == f"{here}x.jar"


def test_a_local_driver_keeps_to_its_machine_and_folder(connection: Callable[..., None], home: Path) -> None:
    """Its UI and its ports are not on the network, nobody ends a job by the UI, and its blocks and crash report are
    nobody else's.
    """
    connection("spark_default", conn_type="spark", host="local[2]")

    submitted = submit(home)

    assert submitted.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert settings(submitted)["spark.ui.killEnabled"] == "false"
    assert settings(submitted)["spark.local.dir"] == str(submitted.folder)
    assert f"-XX:ErrorFile={submitted.folder}/hs_err_pid%p.log" in submitted.environment["SPARK_SUBMIT_OPTS"]


@pytest.mark.parametrize("given", ["worker", "env_vars", "nothing"])
def test_a_local_driver_imports_the_installed_package(
    connection: Callable[..., None], home: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Its modules are compiled already; those of a zip would be compiled at every start. The author's path is kept."""
    connection("spark_default", conn_type="spark", host="local[2]")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given != "nothing":
        monkeypatch.setenv("PYTHONPATH", "/of/the/worker")
    env_vars = {"PYTHONPATH": "/of/the/author"} if given == "env_vars" else {}

    submitted = submit(home, env_vars=env_vars)

    code, *others = submitted.environment["PYTHONPATH"].split(":")
    assert Path(code).parent == submitted.folder
    assert others == {"worker": ["/of/the/worker"], "env_vars": ["/of/the/author"], "nothing": []}[given]
    assert "--py-files" not in submitted.arguments


@pytest.mark.parametrize(
    ("master", "conf", "uses"),
    [
        pytest.param("local[2]", {}, True, id="local"),
        pytest.param("local[2]", {"spark.driver.userClassPathFirst": "true"}, False, id="author's-jars-first"),
        pytest.param("local-cluster[1,1,512]", {}, False, id="local-cluster"),
        pytest.param("spark://m:7077", {}, False, id="standalone"),
    ],
)
def test_a_local_driver_has_the_kept_writer_on_its_class_path(
    connection: Callable[..., None],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    master: str,
    conf: Mapping[str, str],
    uses: bool,
) -> None:
    """At the end; drivers with other processes compile it, and ship it to them."""
    connection("spark_default", conn_type="spark", host=master)
    jars = connector_jars(None)
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "cache"))
    writer = WriterJar(find_java(), find_spark_home(), ":".join(map(str, jars)))
    (tmp_path / "made.jar").touch()
    writer.keep(tmp_path / "made.jar")

    submitted = submit(home, kafka_connector=str(jars[0].parent), conf=conf)

    class_path = dict(pairwise(submitted.arguments)).get("--driver-class-path", "")
    assert class_path.endswith(f":{writer.path}") is uses
    assert (str(writer.path) in " ".join(submitted.arguments)) is uses


@pytest.mark.parametrize("by", ["conf", "defaults", "file-of-the-author"])
@pytest.mark.parametrize("address", ["worker", "env_vars", "nothing"])
def test_what_the_author_says_of_a_local_driver_counts(
    connection: Callable[..., None],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    by: str,
    address: str,
) -> None:
    """A larger disk for blocks, an address at which others reach the UI."""
    connection("spark_default", conn_type="spark", host="local[2]")
    options: dict[str, Any] = {"conf": {"spark.local.dir": "/large"}} if by == "conf" else {}
    file = tmp_path / ("spark-defaults.conf" if by == "defaults" else "mine.conf")
    file.write_text("spark.local.dir /large\n" if by != "conf" else "")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    if by == "file-of-the-author":
        options["properties_file"] = str(file)
    if address == "worker":
        monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    elif address == "env_vars":
        monkeypatch.setenv("SPARK_LOCAL_IP", "10.9.9.9")
        options["env_vars"] = {"SPARK_LOCAL_IP": "10.0.0.1"}

    submitted = submit(home, **options)

    assert settings(submitted).get("spark.local.dir") == ("/large" if by == "conf" else None)
    assert submitted.environment["SPARK_LOCAL_IP"] == ("127.0.0.1" if address == "nothing" else "10.0.0.1")


@pytest.mark.parametrize(
    ("master", "mode"),
    [("spark://m:7077", None), ("yarn", "client"), ("yarn", "cluster")],
    ids=["standalone", "yarn-client", "yarn-cluster"],
)
def test_a_cluster_reaches_its_driver(
    connection: Callable[..., None], home: Path, master: str, mode: str | None, tmp_path: Path
) -> None:
    """Executors elsewhere call it, and have disks of their own."""
    connection("spark_default", conn_type="spark", host=master)

    submitted = submit(home, report_location=f"file://{tmp_path}" if mode == "cluster" else None, deploy_mode=mode)

    assert "SPARK_LOCAL_IP" not in submitted.environment
    assert "spark.local.dir" not in settings(submitted)
    assert settings(submitted)["spark.ui.killEnabled"] == "false"
    assert f"-XX:ErrorFile={submitted.folder}/" in submitted.environment["SPARK_SUBMIT_OPTS"]


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_airflows_environment_stays_with_airflow(
    connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, home: Path, master: str
) -> None:
    """And that which Spark needs goes on, the author's own included."""
    connection("spark_default", conn_type="spark", host=master)
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_VAR_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        monkeypatch.setenv(name, "s3cret")
    for name in ("HADOOP_CONF_DIR", "KRB5_CONFIG", "SPARK_LOCAL_DIRS"):
        monkeypatch.setenv(name, "/needed")

    submitted = submit(home, env_vars={"MINE": "mine", "HADOOP_CONF_DIR": "/mine"})

    assert [
        name for name in submitted.environment if name.startswith(("AIRFLOW_CONN", "AIRFLOW_VAR", "AIRFLOW__"))
    ] == []
    assert "s3cret" not in json.dumps(submitted.environment)
    needed = {"HADOOP_CONF_DIR": "/mine", "KRB5_CONFIG": "/needed", "SPARK_LOCAL_DIRS": "/needed", "MINE": "mine"}
    assert {name: submitted.environment.get(name) for name in needed} == needed
    assert {"PATH", "HOME"} <= set(submitted.environment)


def test_secret_properties_are_no_arguments(
    connection: Callable[..., None], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor are they in the log of the command: they go by a file of mode 0600."""
    connection("spark_default", conn_type="spark", host="yarn")
    caplog.set_level("INFO")

    conf = {"spark.hadoop.fs.s3a.access.key": "AKIA0123", "spark.executor.memory": "1g"}
    submitted = submit(home, conf=conf, env_vars={"AWS_SECRET_ACCESS_KEY": "aws-s3cret"})

    assert submitted.modes["spark.conf"] == 0o600
    assert b"spark.hadoop.fs.s3a.access.key=AKIA0123\n" in submitted.contents["spark.conf"]
    assert b"spark.yarn.appMasterEnv.AWS_SECRET_ACCESS_KEY=aws-s3cret\n" in submitted.contents["spark.conf"]
    for secret in ("AKIA0123", "aws-s3cret"):
        assert secret not in " ".join(submitted.arguments)
        assert secret not in caplog.text
    assert "spark.executor.memory=1g" in submitted.arguments


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_the_logged_command_is_short(
    connection: Callable[..., None], home: Path, capsys: pytest.CaptureFixture[str], master: str
) -> None:
    """Patterns of redaction go by the properties file, and of a list of jars there is the first."""
    connection("spark_default", conn_type="spark", host=master)

    submitted = submit(home)

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "Spark-Submit cmd" in line]
    assert "redaction" not in line
    # Nine paths of this machine, and what they stand for.
    assert len(line) < 1600
    assert line.count(".jar") == 1
    properties = parse_properties(submitted.contents["spark.conf"].decode())
    assert {name: properties.get(name) for name in REDACTION} == REDACTION


def test_a_keytab_of_the_spark_connection(connection: Callable[..., None], home: Path) -> None:
    """It is a file of mode 0600 in the job's folder, which is gone afterwards."""
    extra = {"keytab": base64.b64encode(KEYTAB).decode(), "principal": "ann@EXAMPLE.COM"}
    connection("spark_default", conn_type="spark", host="yarn", extra=extra)

    submitted = submit(home)

    assert (submitted.modes["spark.keytab"], submitted.contents["spark.keytab"]) == (0o600, KEYTAB)
    at = submitted.arguments.index("--keytab")
    assert submitted.arguments[at + 1] == str(submitted.folder / "spark.keytab")
    assert not submitted.folder.exists()


def test_a_keytab_that_is_none(connection: Callable[..., None], home: Path) -> None:
    connection("spark_default", conn_type="spark", host="yarn", extra={"keytab": "a"})

    with pytest.raises(ConnectionConfigError, match=r"'spark_default' must be base64"):
        submit(home)


@pytest.mark.parametrize("by", ["defaults", "file-of-the-author"])
def test_java_options_of_a_properties_file_stay(
    connection: Callable[..., None], home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    """What a login needs goes by the default options, which Spark puts before the extra ones, and the file's own
    default ones stay before it.
    """
    connection("spark_default", conn_type="spark", host="yarn")
    file = tmp_path / ("spark-defaults.conf" if by == "defaults" else "mine.conf")
    file.write_text("spark.driver.defaultJavaOptions  -Da=1 \\\n  -Db=2\nspark.executor.extraJavaOptions=-Dc=3\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    submitted = submit(
        home,
        system_properties={"allowed": "https://a/oauth2"},
        properties_file=None if by == "defaults" else str(file),
    )

    assert java_options(submitted) == {
        "spark.driver.defaultJavaOptions": "-Da=1 -Db=2 -Dallowed=https://a/oauth2",
        "spark.executor.defaultJavaOptions": "-Dallowed=https://a/oauth2",
    }


def test_java_options_of_conf_stay(
    connection: Callable[..., None], home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of the file are replaced by these, as the author requests."""
    connection("spark_default", conn_type="spark", host="yarn")
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.defaultJavaOptions -Da=1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    conf = {"spark.driver.extraJavaOptions": "-Dmine=1", "spark.executor.defaultJavaOptions": "-Dmine=2"}

    submitted = submit(home, system_properties={"allowed": "https://a/oauth2"}, conf=conf)

    assert java_options(submitted) == {
        "spark.driver.extraJavaOptions": "-Dmine=1 -Dallowed=https://a/oauth2",
        "spark.executor.defaultJavaOptions": "-Dmine=2 -Dallowed=https://a/oauth2",
    }


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_value_is_never_a_second_java_option(connection: Callable[..., None], home: Path, master: str) -> None:
    """Whatever its value and its source."""
    connection("spark_default", conn_type="spark", host=master)
    value = 'https://a/" -XX:OnError=id \\'

    submitted = submit(home, system_properties={"allowed": value})

    for options in (submitted.environment["SPARK_SUBMIT_OPTS"], *java_options(submitted).values()):
        assert [word for word in shlex.split(options) if "OnError" in word] == [f"-Dallowed={value}"]


def test_an_author_may_open_more_of_the_ui(connection: Callable[..., None], home: Path) -> None:
    connection("spark_default", conn_type="spark", host="local[2]")
    submitted = submit(home, conf={"spark.ui.threadDumpsEnabled": "true"})

    assert settings(submitted)["spark.ui.threadDumpsEnabled"] == "true"
    assert settings(submitted)["spark.ui.heapHistogramEnabled"] == "false"


_MASTERS = pytest.mark.parametrize(
    ("master", "mode"),
    [("local[2]", None), ("spark://m:7077", None), ("yarn", "client"), ("yarn", "cluster")],
    ids=["local", "standalone", "yarn-client", "yarn-cluster"],
)


@_MASTERS
def test_what_its_jvms_unpack_is_in_the_jobs_folder(
    connection: Callable[..., None], home: Path, tmp_path: Path, master: str, mode: str | None
) -> None:
    """They load native code from there, and another user could replace it in a folder for all."""
    connection("spark_default", conn_type="spark", host=master)

    submitted = submit(home, report_location=f"file://{tmp_path}" if mode == "cluster" else None, deploy_mode=mode)

    assert (submitted.folder_mode, submitted.folder.exists()) == (0o700, False)
    variables = ["SPARK_SUBMIT_OPTS", *(["SPARK_LAUNCHER_OPTS"] if master == "local[2]" else [])]
    for name in variables:
        assert f"-Djava.io.tmpdir={submitted.folder}" in shlex.split(submitted.environment[name])


@pytest.mark.parametrize("given", [None, "-Dmine=1", "-Djava.io.tmpdir=/mine"])
def test_an_executor_of_a_standalone_cluster_unpacks_into_its_own_folder(
    connection: Callable[..., None], home: Path, given: str | None
) -> None:
    """And not into that of the machine, unless the author names a folder: of two values Java takes the last."""
    connection("spark_default", conn_type="spark", host="spark://m:7077")
    name = "spark.executor.extraJavaOptions"

    submitted = submit(home, conf={name: given} if given else {})

    expected = (
        {name: f"-Djava.io.tmpdir=. {given}"} if given else {"spark.executor.defaultJavaOptions": "-Djava.io.tmpdir=."}
    )
    assert java_options(submitted) == expected


@_MASTERS
def test_others_may_not_write_what_spark_writes(
    connection: Callable[..., None], home: Path, tmp_path: Path, master: str, mode: str | None
) -> None:
    """Whatever the worker's umask, of which the rest stays."""
    connection("spark_default", conn_type="spark", host=master)
    before = os.umask(0o004)
    try:
        submitted = submit(home, report_location=f"file://{tmp_path}" if mode == "cluster" else None, deploy_mode=mode)
    finally:
        os.umask(before)

    assert submitted.umask == 0o026
    assert {path for path, mode in submitted.modes.items() if mode & 0o022} == set()


def settings(submitted: Submitted) -> dict[str, str]:
    return dict(word.split("=", 1) for flag, word in pairwise(submitted.arguments) if flag == "--conf")


def java_options(submitted: Submitted) -> dict[str, str]:
    return {name: value for name, value in settings(submitted).items() if name.endswith("JavaOptions")}


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        pytest.param({"hostname": "rm"}, "http://rm:8088", id="host"),
        pytest.param({"hostname": "rm", "webapp.address": "rm:8000"}, "http://rm:8000", id="address"),
        pytest.param(
            {"ha.rm-ids": "a, b", "hostname.a": "rm-a", "hostname.b": "rm-b"}, "http://rm-a:8088", id="several",
        ),
        pytest.param({"hostname": "rm", "/yarn.http.policy": "HTTPS_ONLY"}, "https://rm:8090", id="https"),
        pytest.param({}, None, id="nothing"),
    ],
)  # fmt: skip
def test_where_yarn_answers(tmp_path: Path, properties: dict[str, str], address: str | None) -> None:
    """As the Hadoop configuration of the worker has it."""
    items = {
        n.removeprefix("/") if n.startswith("/") else f"yarn.resourcemanager.{n}": v for n, v in properties.items()
    }
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in items.items())
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    assert spark_submission.resource_manager_address({"HADOOP_CONF_DIR": str(tmp_path)}) == address
