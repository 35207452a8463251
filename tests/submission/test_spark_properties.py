"""Secret Spark properties go by a file that only this user reads, and mean the same as before."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.secrets import REDACTION
from airflow_provider_kafka_spark.core.spark.java_properties import parse_properties
from airflow_provider_kafka_spark.submission.spark_properties import secrets_by_file
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome, find_spark_home

SECRET = {
    "spark.hadoop.fs.s3a.secret.key": r"a=b: #!\n \"quoted\" ünï 🔑 end",
    "spark.hadoop.fs.s3a.access.key": "AKIA0123",
    "spark.openlineage.transport.auth.apiKey": "key-of-lineage",
    "spark.my.options": "-Djavax.net.ssl.keyStorePassword=hunter2",
    "spark.x.jaas.config": 'M required password="p w";',
}
PLAIN = {"spark.ui.enabled": "false", "spark.executor.memory": "1g"}
#: They go by the file too, since they are long.
SECRET |= REDACTION


ARGUMENTS = [
    *("--master", "local[1]"),
    *(word for name, value in {**PLAIN, **SECRET}.items() for word in ("--conf", f"{name}={value}")),
    *("--name", "n"),
]


@pytest.fixture
def home() -> SparkHome:
    return find_spark_home()


def conf_of_a_driver(words: list[str], home: SparkHome, folder: Path) -> dict[str, str]:
    """Start a real one, and ask it."""
    script, answer = folder / "ask.py", folder / "answer.json"
    script.write_text(
        "import json, sys\n"
        "from pyspark import SparkContext\n"
        "with SparkContext.getOrCreate() as spark, open(sys.argv[1], 'w') as answer:\n"
        "    json.dump(dict(spark.getConf().getAll()), answer)\n"
    )
    more = {"SPARK_HOME": str(home.jars.parent), "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(folder)}
    subprocess.run(
        [str(home.submit), *words, str(script), str(answer)],
        env={**child_environment(), **more},
        capture_output=True,
        check=True,
    )
    found: dict[str, str] = json.loads(answer.read_text())
    return found


@pytest.mark.spark
def test_spark_reads_what_was_meant(tmp_path: Path, home: SparkHome) -> None:
    """With every character, and beside it what is no secret, and what the machine's defaults say."""
    (tmp_path / "spark-defaults.conf").write_text("spark.of.defaults yes\nspark.hadoop.fs.s3a.access.key no\n")

    found = conf_of_a_driver(secrets_by_file(ARGUMENTS, tmp_path, home, {}), home, tmp_path)

    expected = {**PLAIN, **SECRET, "spark.of.defaults": "yes"}
    assert {name: found.get(name) for name in expected} == expected


def test_only_what_is_secret_moves(tmp_path: Path, home: SparkHome) -> None:
    """To a file of mode 0600; the rest of the arguments stays as it was."""
    words = secrets_by_file(ARGUMENTS, tmp_path, home, {})

    file = tmp_path / "spark.conf"
    plain = [word for name, value in PLAIN.items() for word in ("--conf", f"{name}={value}")]
    options = ["--properties-file", str(file), "--load-spark-defaults"]
    assert words == ["--master", "local[1]", *plain, "--name", "n", *options]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_secrets_nothing_changes(tmp_path: Path, home: SparkHome) -> None:
    words = ["--conf", "spark.app.name=copy", "--properties-file", "mine.conf"]

    assert secrets_by_file(words, tmp_path, home, {}) == words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", ["environment", "home", "none", "author"])
def test_where_one_file_only_is_read_the_other_is_in_it(tmp_path: Path, home: SparkHome, by: str) -> None:
    """An older Spark has the machine's defaults from where ``spark-submit`` would read them; in their place, the
    author's own file counts for every Spark.
    """
    file = tmp_path / "conf" / ("mine.conf" if by == "author" else "spark-defaults.conf")
    file.parent.mkdir()
    if by != "none":
        file.write_text("spark.other yes\\")
    given = ["--properties-file", str(file)] if by == "author" else []
    environ = {"SPARK_CONF_DIR": str(file.parent)} if by == "environment" else {}
    used = home if by == "author" else replace(home, spark_version="3.5.7", jars=tmp_path / "jars")

    words = secrets_by_file([*given, "--conf", "spark.my.password=p"], tmp_path, used, environ)

    assert words == ["--properties-file", str(tmp_path / "spark.conf")]
    other = {} if by == "none" else {"spark.other": "yes"}
    assert parse_properties((tmp_path / "spark.conf").read_text()) == {**other, "spark.my.password": "p"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("none.conf", r"none\.conf", id="missing"),
        pytest.param("pipe", "pipe must be a regular file", id="named-pipe"),
        pytest.param("/dev/zero", "/dev/zero must be a regular file", id="device"),
        pytest.param(".", "must be a regular file", id="folder"),
        pytest.param("a\0b", "null byte", id="no-path"),
    ],
)
def test_what_is_no_file_is_not_read(tmp_path: Path, home: SparkHome, name: str, says: str) -> None:
    """A template may name any; a named pipe without a writer would hold the task up."""
    os.mkfifo(tmp_path / "pipe")
    words = ["--properties-file", str(tmp_path / name), "--conf", "spark.my.password=p"]

    with pytest.raises(OptionError, match=f"{says}.*Correct properties_file"):
        secrets_by_file(words, tmp_path, home, {})
