"""``kcat -C | kcat -P``: keys and values through a pipe, one record to a line. Headers are lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks.rounds import emit

_INSTALL_SECONDS = 300
# No order holds a tab or a line break.
_KEY_DELIMITER = "\t"


def find_kcat() -> str | None:
    """The path of kcat, which is installed with apt-get where that is possible; None if there is none."""
    if (found := shutil.which("kcat")) is not None:
        return found
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    emit("  installing kcat with apt-get ...")
    try:
        subprocess.run(
            ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "kcat"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return shutil.which("kcat")


def copy(kcat: str, broker: KafkaBroker, source: str, target: str) -> None:
    """Copy keys and values.

    :raises RuntimeError: if one of the two fails.
    """
    read = [
        kcat,
        "-C",
        "-b",
        broker.bootstrap_servers,
        "-t",
        source,
        "-o",
        "beginning",
        "-e",
        "-q",
        "-K",
        _KEY_DELIMITER,
    ]
    read += _options("fetch.wait.max.ms=50", "fetch.min.bytes=1048576", "queued.min.messages=500000")
    write = [kcat, "-P", "-b", broker.bootstrap_servers, "-t", target, "-K", _KEY_DELIMITER, "-z", "lz4"]
    write += _options("acks=all", "linger.ms=20", "batch.size=524288", "queue.buffering.max.messages=1000000")
    reader = subprocess.Popen(read, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    writer: subprocess.Popen[bytes] | None = None
    try:
        writer = subprocess.Popen(write, stdin=reader.stdout)
        # Only the two may hold the pipe, or one would not notice the end of the other.
        if reader.stdout is not None:
            reader.stdout.close()
        codes = writer.wait(), reader.wait()  # the caller bounds this
    finally:
        for process in (reader, writer):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    if codes != (0, 0):
        raise RuntimeError(f"kcat must end with exit code 0; the writer and the reader ended with {codes}.")


def _options(*settings: str) -> list[str]:
    return [argument for setting in settings for argument in ("-X", setting)]
