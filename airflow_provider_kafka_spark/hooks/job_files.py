"""The files that travel with a job: its request, and our own Python code, so that a driver needs nothing installed but Spark."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.core.protocol import JobRequest

_PACKAGE = Path(airflow_provider_kafka_spark.__file__).parent
#: What runs on a driver; the rest is Airflow's side.
_TRAVELLING = ("core", "jobs")


@contextmanager
def job_folder() -> Iterator[Path]:
    """A folder that only this user can read, gone afterwards whatever happened."""
    folder = Path(tempfile.mkdtemp(prefix="airflow-kafka-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_request(folder: Path, request: JobRequest) -> Path:
    """Write the request with mode 0600: it carries the login."""
    path = folder / "request.json"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(request.to_json())
    return path


def write_code(folder: Path) -> Path:
    """Pack the package's rules and jobs for ``--py-files``."""
    path = folder / "airflow_provider_kafka_spark.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(_PACKAGE / "__init__.py", f"{_PACKAGE.name}/__init__.py")
        for name in _TRAVELLING:
            for module in sorted((_PACKAGE / name).glob("*.py")):
                archive.write(module, f"{_PACKAGE.name}/{name}/{module.name}")
    return path


def job_script(name: str) -> Path:
    """The file that ``spark-submit`` starts.

    :param name: of the module in ``jobs``, such as ``"batch"``.
    """
    return _PACKAGE / "jobs" / f"{name}.py"
