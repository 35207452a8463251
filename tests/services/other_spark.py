"""Sparks of other versions, which cannot be in the tests' own environment: they share files with its Spark."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.toolchain.settings import cache_folder

#: SHA-256 of the source distributions, which have all jars, in the Python package index: the oldest Spark that is
#: tested, with Scala 2.12, and the newest one.
OTHER_SPARKS = {
    "3.5.7": "80e36514e0c5c126d35a26adf4f405cd4a69de96a8ea8a3c1e9a65fce2fb4eaa",
    "4.2.0": "5ad689d53570ee1674193fd4f9bda065f0db3be9363a27d2a3406cc457b70b61",
}
_INSTALL_SECONDS = 900


def spark_home_of(version: str) -> Path:
    """The folder for ``SPARK_HOME``; it is installed once.

    :raises LocalServiceError: if it cannot be installed
    """
    folder = (cache_folder() or Path(tempfile.gettempdir())) / f"spark-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    done, home = folder / "done", folder / "pyspark"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _install(folder, version)
            done.touch()
    return home


def _install(folder: Path, version: str) -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text(f"pyspark=={version} --hash=sha256:{OTHER_SPARKS[version]}\n")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    try:
        subprocess.run(
            [*command, "--target", str(folder), "--requirement", str(wanted)],
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = str(getattr(error, "stderr", "") or "")[-2_000:]
        raise LocalServiceError(
            f"Spark {version} must come from the Python package index; got {error}. Check the network.\n{output}"
        ) from error
