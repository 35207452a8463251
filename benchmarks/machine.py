"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from airflow_provider_kafka_spark.testing.broker_process import KAFKA_VERSION
from airflow_provider_kafka_spark.toolchain.java import find_java
from benchmarks.mirror_maker import COORDINATE as MIRROR_MAKER


def machine_lines() -> list[str]:
    """Cores, memory, processor, load and date, as Markdown."""
    one_minute, *_ = os.getloadavg()
    cores = os.cpu_count() or 1
    busy = (
        "; **the machine was busy with something else, so these numbers are rough**" if one_minute > cores / 2 else ""
    )
    return [
        f"- Date: {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        (
            f"- Machine: {cores} cores, {_memory_gib():.0f} GiB of memory, {_processor()}; the broker and whatever "
            "copies share them"
        ),
        f"- Load average before the run: {one_minute:.1f}{busy}",
    ]


def version_line() -> str:
    """Versions of everything that takes part, as Markdown."""
    parts = [
        f"airflow-provider-kafka-spark {version('airflow-provider-kafka-spark')}",
        (
            f"Airflow {version('apache-airflow')} with its Spark provider "
            f"{version('apache-airflow-providers-apache-spark')}"
        ),
        f"Spark {version('pyspark')}",
        f"Kafka broker {KAFKA_VERSION}",
        f"MirrorMaker {MIRROR_MAKER.rpartition(':')[2]}",
        f"confluent-kafka {version('confluent-kafka')}",
        f"kcat {_kcat_version()}",
        f"Java {find_java().major}",
        f"Python {platform.python_version()}",
    ]
    return f"- Versions: {', '.join(parts)}"


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


def _kcat_version() -> str:
    kcat = shutil.which("kcat")
    if kcat is None:
        return "not installed"
    answer = subprocess.run([kcat, "-V"], capture_output=True, text=True, timeout=30, check=False)
    match = re.search(r"Version (\S+)", answer.stdout + answer.stderr)
    return match[1] if match else "of an unknown version"
