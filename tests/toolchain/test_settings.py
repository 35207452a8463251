"""Promises of :mod:`airflow_provider_kafka_spark.toolchain.settings`, with Airflow's real configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.toolchain.settings import (
    ALLOW_CLIENT_CLASSES,
    CACHE_FOLDER,
    CLASS_ARCHIVE,
    DEPLOYMENT,
    HTTP_HOSTS,
    MAVEN_REPOSITORY,
    TOKEN_ENDPOINT_HOSTS,
    VARIABLE_PREFIX,
    Setting,
    cache_folder,
    deployment,
    maven_repository,
    token_endpoint_hosts,
)

_SETTINGS = {
    cache_folder: CACHE_FOLDER,
    maven_repository: MAVEN_REPOSITORY,
    CLASS_ARCHIVE.flag: CLASS_ARCHIVE,
    ALLOW_CLIENT_CLASSES.flag: ALLOW_CLIENT_CLASSES,
    token_endpoint_hosts: TOKEN_ENDPOINT_HOSTS,
    deployment: DEPLOYMENT,
}
_IMPORT = f"from {Setting.__module__} import *"
_PRINT = "print(cache_folder(), maven_repository(), CLASS_ARCHIVE.flag())"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(VARIABLE_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def airflow_cfg(tmp_path: Path) -> dict[str, str]:
    """The variable for another process to read an ``airflow.cfg`` that sets all options."""
    (tmp_path / "airflow.cfg").write_text(
        "[kafka_spark]\ncache_folder = /from/cfg\nmaven_repository = https://cfg.example.com\nclass_archive = False\n"
    )
    return {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONFIG": str(tmp_path / "airflow.cfg")}


def run(code: str, environment: Mapping[str, str]) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_a_setting_the_defaults_apply() -> None:
    assert (cache_folder(), maven_repository(), CLASS_ARCHIVE.flag()) == (None, None, True)
    assert (ALLOW_CLIENT_CLASSES.flag(), token_endpoint_hosts(), deployment()) == (False, None, None)


def test_hosts_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENDPOINT_HOSTS.variable, " ID.example.com,10.0.0.1 ")

    assert token_endpoint_hosts() == {"id.example.com", "10.0.0.1"}


@pytest.mark.process
def test_airflow_cfg_is_read_after_variables(airflow_cfg: Mapping[str, str]) -> None:
    environment = {"AIRFLOW__KAFKA_SPARK__CACHE_FOLDER": "/from/variable"}
    code = f"import airflow, os; {_IMPORT}; {_PRINT}; os.environ.update({environment}); {_PRINT}"

    assert run(code, airflow_cfg).splitlines() == [
        "/from/cfg https://cfg.example.com False",
        "/from/variable https://cfg.example.com False",
    ]


def test_a_process_without_airflow_reads_variables_and_does_not_import_it(airflow_cfg: Mapping[str, str]) -> None:
    environment = {"AIRFLOW__KAFKA_SPARK__CACHE_FOLDER": "/new", "AIRFLOW__KAFKA_SPARK__CLASS_ARCHIVE": "off"}
    code = f"import sys; {_IMPORT}; {_PRINT}; print('airflow' in sys.modules)"

    assert run(code, {**airflow_cfg, **environment}).splitlines() == ["/new None False", "False"]


@pytest.mark.process
def test_airflow_lists_the_section(airflow_cfg: Mapping[str, str]) -> None:
    """With the descriptions of the metadata, which Airflow checks against its schema."""
    arguments = ["config", "list", "--section", "kafka_spark", "--include-descriptions", "--show-values"]
    code = f"import sys; sys.argv[1:] = {arguments}; from airflow.__main__ import main; main()"

    listed = run(code, airflow_cfg)

    assert "cache_folder = /from/cfg" in listed
    assert "# URL of a mirror of Maven Central" in listed


@pytest.mark.parametrize("value", ["true", "T", "1", "on", "", "False", "f", "0", "OFF"])
def test_a_boolean_is_written_as_in_airflow(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(CLASS_ARCHIVE.variable, value)

    assert CLASS_ARCHIVE.flag() == (value in ("true", "T", "1", "on", ""))


@pytest.mark.parametrize(
    ("read", "value", "rule", "got"),
    [
        (cache_folder, "cache", "an absolute path, such as /", "'cache'"),
        (maven_repository, "repo.example.com/maven2", "an https or file URL, such as", "no URL"),
        (maven_repository, "http://user:secret@repo", f"unless {HTTP_HOSTS} has its host", "the scheme 'http'"),
        # A password that stands in a URL is not shown.
        (maven_repository, "ftp://user:secret@repo", "an https or file", "the scheme 'ftp'"),
        (CLASS_ARCHIVE.flag, "maybe", "True or False", "'maybe'"),
        (ALLOW_CLIENT_CLASSES.flag, "maybe", "True or False", "'maybe'"),
        (token_endpoint_hosts, "https://id/token", "host names without", "'https://id/token'"),
        (deployment, "my production", "1 to 100 letters, digits, '.', '_' and '-'", "'my production'"),
        (deployment, "p" * 300, "1 to 100 letters", f"'{'p' * 50}...'"),
    ],
)
def test_a_wrong_value_is_named(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], object], value: str, rule: str, got: str
) -> None:
    monkeypatch.setenv(_SETTINGS[read].variable, value)

    with pytest.raises(OptionError) as raised:
        read()

    message = str(raised.value)
    assert message.startswith(f"{_SETTINGS[read]} must be ")
    assert rule in message
    assert f"got {got}. Correct" in message
    assert "secret" not in message
    assert len(message) < 400


@pytest.mark.parametrize("value", ["http://repo/maven2", "http://user:secret@REPO:8081/maven2"])
def test_plain_http_is_for_hosts_that_are_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, value)
    monkeypatch.setenv(HTTP_HOSTS.variable, "other, Repo")

    assert maven_repository() == value

    monkeypatch.setenv(HTTP_HOSTS.variable, "other,po,repo.example.com,")
    with pytest.raises(OptionError):
        maven_repository()
