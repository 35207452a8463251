"""What ``spark-submit`` is started with: arguments, environment and files of a job with secrets, as they are when it
runs.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JobReportMissingError
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.hooks.spark_job import SparkJobHook
from airflow_provider_kafka_spark.submission import yarn_rest
from airflow_provider_kafka_spark.submission.yarn_applications import YarnApplications
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER
from airflow_provider_kafka_spark.toolchain.spark_home import find_spark_home
from airflow_provider_kafka_spark.toolchain.writer_jar import WriterJar
from tests.core.job_requests import job_request
from tests.web_server import serving

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
files = list(filter(pathlib.Path.is_file, folder.iterdir()))
submitted = {
    "folder": str(folder),
    "folder_mode": stat.S_IMODE(folder.stat().st_mode),
    "modes": {file.name: stat.S_IMODE(file.stat().st_mode) for file in files},
    "contents": {file.name: file.read_text("latin-1") for file in files},
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
    contents: dict[str, str]
    arguments: list[str]
    environment: dict[str, str]
    cwd: str
    umask: int


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A Spark of the installed version with a ``spark-submit`` that only records its arguments."""
    folder = tmp_path / "spark"
    (folder / "bin").mkdir(parents=True)
    (folder / "jars").symlink_to(find_spark_home().jars)
    submit = folder / "bin" / "spark-submit"
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(folder))
    return folder


Submit = Callable[..., Submitted]


@pytest.fixture
def submit(connection: Callable[..., None], home: Path, tmp_path: Path) -> Submit:
    """Submit a job: ``submit(master, deploy_mode=None, **options)``."""

    def run(
        master: str,
        deploy_mode: str | None = None,
        *,
        system_properties: Mapping[str, str] | None = None,
        kafka_connector: str | None = None,
        extra: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Submitted:
        connection("spark_default", conn_type="spark", host=master, extra=dict(extra or {}))
        (tmp_path / "reports").mkdir()
        request = job_request(source_options=translate("k", LOGIN).spark_options())
        source = replace(translate("k", LOGIN), system_properties=system_properties or {})
        hook = SparkJobHook(
            report_location=f"file://{tmp_path}/reports" if deploy_mode == "cluster" else None,
            kafka_connector=kafka_connector,
            submit_options={"deploy_mode": deploy_mode, **options},
        )
        with pytest.raises(JobReportMissingError):
            hook.run(request, lambda _: None, JobCredentials(source, translate("k", LOGIN)))
        submitted = json.loads((home / "bin" / "submitted.json").read_text())
        return Submitted(Path(submitted.pop("folder")), **submitted)

    return run


def settings(submitted: Submitted) -> dict[str, str]:
    return dict(word.split("=", 1) for flag, word in pairwise(submitted.arguments) if flag == "--conf")


def java_options(submitted: Submitted) -> dict[str, str]:
    return {name: value for name, value in settings(submitted).items() if name.endswith("JavaOptions")}


@pytest.mark.parametrize(
    ("master", "mode"),
    [("local[2]", None), ("spark://m:7077", None), ("yarn", "client"), ("yarn", "cluster")],
    ids=["local", "standalone", "yarn-client", "yarn-cluster"],
)
def test_a_job_keeps_to_its_folder(submit: Submit, master: str, mode: str | None) -> None:
    """In a folder of mode 0700, which is gone afterwards, logins are in a file of mode 0600; the request and with it
    Spark's options only refer to it. Others may not write what Spark writes, whatever the worker's umask, of which the
    rest stays. JVMs load native code from where they unpack it, which another user could replace in a folder for all.
    """
    is_local = master == "local[2]"
    before = os.umask(0o004)
    try:
        submitted = submit(master, mode)
    finally:
        os.umask(before)

    name, folder = "kafka-logins.properties", submitted.folder
    assert (submitted.folder_mode, folder.exists()) == (0o700, False)
    assert (submitted.modes["request.json"], submitted.modes[name]) == (0o600, 0o600)
    assert [name for name, content in submitted.contents.items() if PASSWORD in content] == [name]
    assert PASSWORD not in json.dumps([submitted.arguments, submitted.environment])
    path = str(folder / name) if is_local else f"/proc/self/cwd/{name}"
    options = json.loads(submitted.contents["request.json"])["source_options"]
    assert options["kafka.sasl.jaas.config"] == f"${{file:{path}:source.kafka.sasl.jaas.config}}"
    # No other file can be referred to.
    assert options["kafka.config.providers.file.param.allowed.paths"] == path
    files = [word for flag, word in pairwise(submitted.arguments) if flag == "--files"]
    assert [str(folder / name) in word.split(",") for word in files] == ([] if is_local else [True])
    # On a driver of this machine it is found by its name as on executors; and Spark's class path has a relative folder.
    assert submitted.cwd == str(folder)

    assert submitted.umask == 0o026
    assert {path for path, mode in submitted.modes.items() if mode & 0o022} == set()
    assert f"-Djava.io.tmpdir={folder}" in shlex.split(submitted.environment["SPARK_SUBMIT_OPTS"])
    if is_local:
        # A shell splits these at blanks, and knows no quotes.
        assert submitted.environment["SPARK_LAUNCHER_OPTS"].split()[-1] == "-Djava.io.tmpdir=."
    assert f"-XX:ErrorFile={folder}/hs_err_pid%p.log" in submitted.environment["SPARK_SUBMIT_OPTS"]
    # Nobody ends a job by the UI. A local driver's ports are not on the network; executors elsewhere call their driver,
    # and have disks of their own.
    assert settings(submitted)["spark.ui.killEnabled"] == "false"
    assert submitted.environment.get("SPARK_LOCAL_IP") == ("127.0.0.1" if is_local else None)
    assert settings(submitted).get("spark.local.dir") == (str(folder) if is_local else None)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_relative_paths_are_those_of_the_worker(
    submit: Submit, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a class path is that of the driver, wherever it runs."""
    (tmp_path / "a.txt").touch()
    monkeypatch.chdir(tmp_path)

    given = dict(pairwise(submit("yarn", mode, files="a.txt", driver_class_path="x.jar").arguments))

    assert given["--files"].split(",")[0] == f"{tmp_path}/a.txt"
    here = "" if mode == "cluster" else f"{tmp_path}/"
    assert given["--driver-class-path"].split(":")[0] == f"{here}x.jar"


@pytest.mark.parametrize(
    ("worker", "env_vars", "kept"),
    [
        pytest.param("/of/the/worker", {}, ["/of/the/worker"], id="worker"),
        pytest.param("/of/the/worker", {"PYTHONPATH": "/of/the/author"}, ["/of/the/author"], id="author"),
        pytest.param(None, {}, [], id="nothing"),
    ],
)
def test_a_local_driver_imports_the_installed_package(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, worker: str | None, env_vars: dict[str, str], kept: list[str]
) -> None:
    """Its modules are compiled already; those of a zip would be compiled at every start. The author's path is kept."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if worker is not None:
        monkeypatch.setenv("PYTHONPATH", worker)

    submitted = submit("local[2]", env_vars=env_vars)

    code, *others = submitted.environment["PYTHONPATH"].split(":")
    assert (Path(code).parent, others) == (submitted.folder, kept)
    assert "--py-files" not in submitted.arguments


@pytest.mark.parametrize(
    ("master", "conf", "uses"),
    [
        pytest.param("local[2]", {}, True, id="local"),
        pytest.param("local[2]", {"spark.driver.userClassPathFirst": "true"}, False, id="author's-jars-first"),
        pytest.param("local-cluster[1,1,512]", {}, False, id="local-cluster"),
    ],
)
def test_a_local_driver_has_the_kept_writer_on_its_class_path(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, conf: Mapping[str, str], uses: bool
) -> None:
    """At the end; drivers with other processes compile it, and ship it to them."""
    jars = connector_jars(None)
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "cache"))
    writer = WriterJar(find_java(), find_spark_home(), ":".join(map(str, jars)))
    (tmp_path / "made.jar").touch()
    writer.keep(tmp_path / "made.jar")

    submitted = submit(master, kafka_connector=str(jars[0].parent), conf=conf)

    class_path = dict(pairwise(submitted.arguments)).get("--driver-class-path", "")
    assert class_path.endswith(f":{writer.path}") is uses
    assert (str(writer.path) in " ".join(submitted.arguments)) is uses


@pytest.mark.parametrize("by", ["conf", "defaults", "file-of-the-author"])
def test_what_the_author_says_of_a_local_driver_counts(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    """A larger disk for blocks, an address at which others reach the UI, and more of the UI."""
    options: dict[str, Any] = {"conf": {"spark.ui.threadDumpsEnabled": "true"}}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1" if by == "defaults" else "10.9.9.9")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    if by == "conf":
        options["conf"]["spark.local.dir"] = "/large"
    else:
        file = tmp_path / ("spark-defaults.conf" if by == "defaults" else "mine.conf")
        file.write_text("spark.local.dir /large\n")
        options["properties_file"] = str(file) if by == "file-of-the-author" else None
    if by != "defaults":
        options["env_vars"] = {"SPARK_LOCAL_IP": "10.0.0.1"}

    submitted = submit("local[2]", **options)

    assert settings(submitted).get("spark.local.dir") == ("/large" if by == "conf" else None)
    assert submitted.environment["SPARK_LOCAL_IP"] == "10.0.0.1"
    assert settings(submitted)["spark.ui.threadDumpsEnabled"] == "true"
    assert settings(submitted)["spark.ui.heapHistogramEnabled"] == "false"


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_airflows_environment_stays_with_airflow(submit: Submit, monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    """And that which Spark needs goes on, the author's own included."""
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_VAR_KEY", "AIRFLOW__CORE__FERNET_KEY"):
        monkeypatch.setenv(name, "s3cret")
    for name in ("HADOOP_CONF_DIR", "KRB5_CONFIG", "SPARK_LOCAL_DIRS"):
        monkeypatch.setenv(name, "/needed")

    environment = submit(master, env_vars={"MINE": "mine", "HADOOP_CONF_DIR": "/mine"}).environment

    assert [name for name in environment if name.startswith(("AIRFLOW_CONN", "AIRFLOW_VAR", "AIRFLOW__"))] == []
    assert "s3cret" not in json.dumps(environment)
    needed = {"HADOOP_CONF_DIR": "/mine", "KRB5_CONFIG": "/needed", "SPARK_LOCAL_DIRS": "/needed", "MINE": "mine"}
    assert {name: environment.get(name) for name in needed} == needed
    assert {"PATH", "HOME"} <= set(environment)


def test_secret_properties_are_no_arguments(submit: Submit, caplog: pytest.LogCaptureFixture) -> None:
    """Nor are they in the log of the command: they go by a file of mode 0600."""
    caplog.set_level("INFO")

    conf = {"spark.hadoop.fs.s3a.access.key": "AKIA0123", "spark.executor.memory": "1g"}
    submitted = submit("yarn", conf=conf, env_vars={"AWS_SECRET_ACCESS_KEY": "aws-s3cret"})

    assert submitted.modes["spark.conf"] == 0o600
    assert "spark.hadoop.fs.s3a.access.key=AKIA0123\n" in submitted.contents["spark.conf"]
    assert "spark.yarn.appMasterEnv.AWS_SECRET_ACCESS_KEY=aws-s3cret\n" in submitted.contents["spark.conf"]
    for secret in ("AKIA0123", "aws-s3cret"):
        assert secret not in " ".join(submitted.arguments)
        assert secret not in caplog.text
    assert "spark.executor.memory=1g" in submitted.arguments


def test_a_keytab_of_the_spark_connection(submit: Submit) -> None:
    """It is a file of mode 0600 in the job's folder, which is gone afterwards."""
    submitted = submit("yarn", extra={"keytab": base64.b64encode(KEYTAB).decode(), "principal": "ann@EXAMPLE.COM"})

    assert (submitted.modes["spark.keytab"], submitted.contents["spark.keytab"].encode("latin-1")) == (0o600, KEYTAB)
    assert dict(pairwise(submitted.arguments))["--keytab"] == str(submitted.folder / "spark.keytab")
    assert not submitted.folder.exists()


def test_a_keytab_that_is_none(submit: Submit) -> None:
    with pytest.raises(ConnectionConfigError, match=r"'spark_default' must be base64"):
        submit("yarn", extra={"keytab": "a"})


_ALLOWED = "-Dallowed=https://a/oauth2"
#: What a login needs goes by the default options, which Spark puts before the extra ones, and the file's own default
#: ones stay before it.
_OF_A_FILE = "spark.driver.defaultJavaOptions  -Da=1 \\\n  -Db=2\nspark.executor.extraJavaOptions=-Dc=3\n"
_WITH_A_FILE = {"driver.defaultJavaOptions": f"-Da=1 -Db=2 {_ALLOWED}", "executor.defaultJavaOptions": _ALLOWED}
#: Those of the file are replaced by these, as the author requests.
_REPLACED = "spark.executor.defaultJavaOptions -Da=1\n"
_CONF = {"driver.extraJavaOptions": "-Dmine=1", "executor.defaultJavaOptions": "-Dmine=2"}
_WITH_CONF = {name: f"{value} {_ALLOWED}" for name, value in _CONF.items()}


@pytest.mark.parametrize(
    ("file", "content", "conf", "expected"),
    [
        pytest.param("spark-defaults.conf", _OF_A_FILE, {}, _WITH_A_FILE, id="spark-defaults.conf"),
        pytest.param("mine.conf", _OF_A_FILE, {}, _WITH_A_FILE, id="mine.conf"),
        pytest.param("spark-defaults.conf", _REPLACED, _CONF, _WITH_CONF, id="conf"),
    ],
)
def test_java_options_of_the_author_stay(
    submit: Submit,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    file: str,
    content: str,
    conf: dict[str, str],
    expected: dict[str, str],
) -> None:
    (tmp_path / file).write_text(content)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    submitted = submit(
        "yarn",
        system_properties={"allowed": "https://a/oauth2"},
        properties_file=str(tmp_path / file) if file == "mine.conf" else None,
        conf={f"spark.{name}": value for name, value in conf.items()},
    )

    assert java_options(submitted) == {f"spark.{name}": value for name, value in expected.items()}


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_value_is_never_a_second_java_option(submit: Submit, master: str) -> None:
    """Whatever its value and its source."""
    value = 'https://a/" -XX:OnError=id \\'

    submitted = submit(master, system_properties={"allowed": value})

    for options in (submitted.environment["SPARK_SUBMIT_OPTS"], *java_options(submitted).values()):
        assert [word for word in shlex.split(options) if "OnError" in word] == [f"-Dallowed={value}"]


@pytest.mark.parametrize("given", [None, "-Djava.io.tmpdir=/mine"])
def test_an_executor_of_a_standalone_cluster_unpacks_into_its_own_folder(submit: Submit, given: str | None) -> None:
    """And not into that of the machine, unless the author names a folder: of two values Java takes the last."""
    name = "spark.executor.extraJavaOptions"

    submitted = submit("spark://m:7077", conf={name: given} if given else {})

    expected = (
        {name: f"-Djava.io.tmpdir=. {given}"} if given else {"spark.executor.defaultJavaOptions": "-Djava.io.tmpdir=."}
    )
    assert java_options(submitted) == expected


@pytest.mark.parametrize(
    ("properties", "addresses"),
    [
        pytest.param({"hostname": "rm"}, ["http://rm:8088"], id="host"),
        pytest.param({"hostname": "rm", "webapp.address": "rm:8000"}, ["http://rm:8000"], id="address"),
        pytest.param(
            {"ha.rm-ids": "a, b", "hostname.a": "rm-a", "hostname.b": "rm-b"}, ["http://rm-a:8088", "http://rm-b:8088"],
            id="several",
        ),
        pytest.param(
            {"hostname": "rm", "webapp.address": "${yarn.resourcemanager.hostname}:${port}", "/port": "8000"},
            ["http://rm:8000"], id="address-by-others",
        ),
        pytest.param({"hostname": "rm", "webapp.address": "${none}:8000"}, ["http://rm:8088"], id="address-by-nothing"),
        pytest.param({"hostname": "rm", "/yarn.http.policy": "HTTPS_ONLY"}, ["https://rm:8090"], id="https"),
        pytest.param({}, [], id="nothing"),
    ],
)  # fmt: skip
def test_where_yarn_answers(tmp_path: Path, properties: dict[str, str], addresses: list[str]) -> None:
    """As the Hadoop configuration of the worker has it."""
    items = {
        n.removeprefix("/") if n.startswith("/") else f"yarn.resourcemanager.{n}": v for n, v in properties.items()
    }
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in items.items())
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    assert yarn_rest.resource_manager_addresses({"HADOOP_CONF_DIR": str(tmp_path)}) == addresses


def test_the_active_one_of_several_resource_managers() -> None:
    """Also if one is down; and if none is active, one that answers may say why."""
    state = {"b": "STANDBY", "c": "ACTIVE"}

    def of(name: str) -> Callable[[str, str], tuple[int, str]]:
        return lambda *_: (200, json.dumps({"clusterInfo": {"haState": state[name]}}))

    nobody = "http://127.0.0.1:1"
    with serving(of("b")) as standby, serving(of("c")) as active:
        assert yarn_rest.active_address([nobody, standby, active]) == active
        state["c"] = "STANDBY"
        assert yarn_rest.active_address([nobody, standby, active]) == standby
    assert yarn_rest.active_address([nobody, active]) == nobody


@pytest.mark.parametrize(
    ("extra", "options", "needs"),
    [
        pytest.param({}, {}, "", id="none"),
        pytest.param({"keytab": "AA=="}, {}, "", id="a-keytab-without-a-principal"),
        pytest.param({"keytab": "AA==", "principal": "p"}, {}, "requests-kerberos", id="of-the-connection"),
        pytest.param({"principal": "p"}, {"keytab": "/k"}, "requests-kerberos", id="of-the-operator"),
        pytest.param({}, {"keytab": "/k", "use_krb5ccache": True}, "requests-kerberos", id="of-the-ticket-cache"),
        pytest.param({"keytab": "AA==", "principal": "p"}, {"yarn_rm_auth": "given"}, "given", id="given"),
    ],
)
def test_the_login_to_yarn_is_that_of_the_spark_provider(
    extra: dict[str, Any], options: dict[str, Any], needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address without a scheme is one of http."""
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)
    extra = {"yarn_resourcemanager_webapp_address": "rm:8088/", **extra}
    if needs == "requests-kerberos":
        with pytest.raises(RuntimeError, match=needs):
            yarn_rest.resource_manager_of(extra, options, {})
        return
    found = yarn_rest.resource_manager_of(extra, options, {})
    assert (found.addresses, found.auth or "") == (("http://rm:8088",), needs)


@pytest.mark.parametrize("path", ["", "/gateway", ":none"], ids=["an-outage", "with-a-path", "invalid"])
def test_no_text_has_the_login_of_yarns_address(path: str) -> None:
    """It is sent, but not as a part of the URL, which exceptions quote."""
    logins: list[str | None] = []
    with serving(lambda *_: (503, "standby"), logins) as address:
        named = f"{address.replace('//', '//ann:hun%40ter2@')}{path}"
        manager = yarn_rest.resource_manager_of({"yarn_resourcemanager_webapp_address": named}, {}, {})
        for ask in (manager.status, manager.applications, manager.kill):
            with pytest.raises(RuntimeError) as raised:
                ask("application_1_1")
            assert "ter2" not in str(raised.value)

    expected = f"Basic {base64.b64encode(b'ann:hun@ter2').decode()}"
    assert logins == ([] if path == ":none" else [expected] * 3)


def test_yarn_is_not_looked_for_after_a_job_of_another_master() -> None:
    assert YarnApplications(lambda: pytest.fail("It was looked for.")).page("local-1700000000000") is None
