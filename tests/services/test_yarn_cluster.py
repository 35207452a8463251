"""Promises of :mod:`tests.services.yarn_cluster`; tests of copies on YARN prove that it runs applications."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from tests.services.yarn_cluster import YarnCluster

pytestmark = pytest.mark.spark

_OWNER = """
import time
from tests.services.yarn_cluster import YarnCluster
with YarnCluster() as cluster:
    print(cluster.web_address, flush=True)
    time.sleep(600)
"""


def test_a_cluster_that_does_not_run_has_no_configuration() -> None:
    """Using it outside of with is an error that says so."""
    with pytest.raises(LocalServiceError, match="YarnCluster must run"):
        _ = YarnCluster().conf_dir


def test_a_cluster_that_cannot_start_gives_the_reason() -> None:
    """A daemon that ends is noticed before the time-out, and its log is in the error."""
    with pytest.raises(LocalServiceError, match="NoSuchOption"):
        YarnCluster(jvm_options=["-XX:+NoSuchOption"]).start()


@pytest.mark.long
def test_the_cluster_dies_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an owner that is ended by SIGKILL leaves no daemon and no files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert _answers(address)
        owner.kill()
        owner.wait(10)
        deadline = time.monotonic() + 30
        while _answers(address) or list(tmp_path.glob("yarn-cluster-*")):
            assert time.monotonic() < deadline, "the cluster outlived its owner by 30 seconds"
            time.sleep(0.1)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/ws/v1/cluster/info", timeout=5):  # noqa: S310
            return True
    except OSError:
        return False
