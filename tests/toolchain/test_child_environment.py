"""What a process that this package starts inherits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from airflow_provider_kafka_spark.toolchain.child_environment import child_environment, unset_airflow_env

SECRET = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": '{"extra": {"sasl.password": "s3cret"}}',
    "AIRFLOW_VAR_API_KEY": "s3cret",
    "AIRFLOW__CORE__FERNET_KEY": "s3cret",
    "AIRFLOW__SECRETS__BACKEND_KWARGS": "s3cret",
    "_AIRFLOW__STARTUP_MSG": "s3cret",
}
NEEDED = {
    "PATH": "/usr/bin",
    "JAVA_HOME": "/jdk",
    "HADOOP_CONF_DIR": "/hadoop",
    "KRB5_CONFIG": "/krb5.conf",
    "SPARK_LOCAL_DIRS": "/scratch",
    "PYTHONPATH": "/code",
    "PYSPARK_PYTHON": "/python",
    "AIRFLOW_HOME": "/airflow",
    "AIRFLOW_CTX_DAG_ID": "copy",
}


def test_what_is_airflows_own_stays_with_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is needed, or may be."""
    monkeypatch.setattr(os, "environ", {**SECRET, **NEEDED})

    assert child_environment() == NEEDED


def test_a_command_that_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process is started by others, it has the same environment, and stays as it is if there is nothing."""
    print_names = [sys.executable, "-c", "import os; print(*os.environ)"]
    given = {**os.environ, **SECRET}
    monkeypatch.setattr(os, "environ", given)
    command = unset_airflow_env(print_names)

    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) & set(SECRET) == set()
    assert "PATH" in done.stdout.split()
    assert "s3cret" not in " ".join(command)
    monkeypatch.setattr(os, "environ", NEEDED)
    assert unset_airflow_env(["spark-submit", "--status"]) == ["spark-submit", "--status"]
