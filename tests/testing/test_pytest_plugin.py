"""Promises of :mod:`airflow_provider_kafka_spark.testing.pytest_plugin`, kept in a project like a user's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.testing.kafka_broker import BOOTSTRAP_VARIABLE, KafkaBroker

_CONFTEST = 'pytest_plugins = ["airflow_provider_kafka_spark.testing.pytest_plugin"]\n'
_TEST = """
import pytest
from airflow_provider_kafka_spark.testing.broker_client import Record

@pytest.mark.broker
@pytest.mark.parametrize("word", ["one/two"])
def test_it(kafka_broker, topic, word):
    name = topic(partitions=2, suffix="source")
    kafka_broker.produce(name, [Record(value=word.encode())])
    assert [record.value for record in kafka_broker.consume(name)] == [b"one/two"]
    print("made", name)
"""


@pytest.mark.broker
def test_a_users_test_gets_a_topic_that_is_gone_afterwards(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    """The fixtures work from one line in conftest.py, under strict markers, and clean up after themselves."""
    done = _run_users_tests(tmp_path, {BOOTSTRAP_VARIABLE: kafka_broker.bootstrap_servers})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "made test_it-one-two-source-" in done.stdout
    assert not [name for name in kafka_broker.topics() if name.startswith("test_it")]


@pytest.mark.process
def test_a_missing_java_is_a_failure(tmp_path: Path) -> None:
    """A suite on a machine without Java does not pass by testing nothing."""
    done = _run_users_tests(tmp_path, {"JAVA_HOME": str(tmp_path)}, without=[BOOTSTRAP_VARIABLE])
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "JavaNotFoundError" in done.stdout
    assert "skipped" not in done.stdout


def test_the_plugin_imports_neither_airflow_nor_a_kafka_client() -> None:
    """A project that merely has the plugin pays nothing for it."""
    code = (
        "import sys, airflow_provider_kafka_spark.testing.pytest_plugin; "
        "print({'airflow', 'confluent_kafka', 'pyspark'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def _run_users_tests(
    folder: Path, environment: dict[str, str], without: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_it.py").write_text(_TEST)
    package = Path(airflow_provider_kafka_spark.__file__).parents[1]
    merged = {**os.environ, "PYTHONPATH": str(package), **environment}
    for name in without or []:
        merged.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "--strict-markers", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder,
        env=merged,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
