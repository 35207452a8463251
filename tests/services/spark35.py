"""A Spark 3.5 with Scala 2.12, which cannot be in the tests' own environment: it shares files with Spark 4."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.toolchain.settings import cache_folder

VERSION = "3.5.7"
#: Of the source distribution, which has all jars, in the Python package index.
_SHA256 = "80e36514e0c5c126d35a26adf4f405cd4a69de96a8ea8a3c1e9a65fce2fb4eaa"
_INSTALL_SECONDS = 900


def spark35_home() -> Path:
    """The folder for ``SPARK_HOME``; it is installed once.

    :raises LocalServiceError: if it cannot be installed
    """
    folder = (cache_folder() or Path(tempfile.gettempdir())) / f"spark-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    done, home = folder / "done", folder / "pyspark"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _install(folder)
            done.touch()
    return home


def _install(folder: Path) -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text(f"pyspark=={VERSION} --hash=sha256:{_SHA256}\n")
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
            f"Spark {VERSION} must come from the Python package index; got {error}. Check the network.\n{output}"
        ) from error


if __name__ == "__main__":
    spark35_home()
