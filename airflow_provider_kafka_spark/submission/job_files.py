"""The files of a job: its request, and this package's Python code, so that a driver needs only Spark."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.clients.connection.login_file import read_login_file
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError, JobFolderError
from airflow_provider_kafka_spark.core.handoff.file_names import CODE, REQUEST
from airflow_provider_kafka_spark.core.protocol import JobRequest

_PACKAGE = Path(airflow_provider_kafka_spark.__file__).parent
#: The packages that run on a driver.
_TRAVELLING = ("core", "jobs")
_SOURCES = (".py", ".java")
_PREFIX = "airflow-kafka-spark-"
_OWNED = re.compile(rf"{_PREFIX}(?P<pid>\d+)-(?P<started>\d+)-.*")


@contextmanager
def job_folder() -> Iterator[Path]:
    """A folder that only this user can read, which is always removed afterwards.

    The folder of a killed worker is removed by the next one.

    :raises JobFolderError: if it cannot be created.
    """
    remove_stale_folders()
    # The name has the owner, so that it is never without one.
    with _named_if_unwritable():
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{_started(os.getpid())}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> list[Path]:
    """Remove the folders of this user's processes that have ended.

    :return: the removed folders.
    """
    removed = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = _OWNED.fullmatch(folder.name)
        if owner is None or _started(int(owner["pid"])) == owner["started"]:
            continue
        try:
            if folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)
                removed.append(folder)
        except OSError:
            # Another process removes it at the same time.
            continue
    return removed


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot, since process ids are reused; ``"0"`` if the system does
    not provide it, ``""`` if there is no process.
    """
    try:
        # The second field, the command, is in brackets and may contain any character.
        state, *more = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A dead process may stay a zombie for a long time.
        return "" if state in "ZX" else more[18]
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "0"


def write_private(path: Path, content: bytes) -> Path:
    """Write a new file with mode 0600, whatever the umask.

    :raises FileExistsError: if the file exists, since another user may have created it.
    :raises JobFolderError: if it cannot be written, as on a full disk.
    """
    with _named_if_unwritable():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
    return path


@contextmanager
def _named_if_unwritable() -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise JobFolderError(
            f"The worker's temporary folder must take the files of a job, some MB in mode 0600; got {error}. Nothing "
            "was written to Kafka. Free space there, or set TMPDIR to another folder, such as '/var/tmp'; a retry "
            "submits the job."
        ) from error


def copy_private(path: str, folder: Path) -> Path:
    """Copy a file of a connection's login, such as a keytab, with mode 0600.

    :raises ConnectionConfigError: if it has been removed or replaced since the connection was read.
    """
    try:
        content = read_login_file(path)
    except OSError as error:
        raise ConnectionConfigError(
            f"A file of a Kafka login must be a readable file of at most 1 MiB; {path}: {error.strerror or error}. "
            "Restore the file."
        ) from error
    return write_private(folder / Path(path).name, content)


def write_request(folder: Path, request: JobRequest) -> Path:
    """Write the request with mode 0600, as all files of a job."""
    return write_private(folder / REQUEST, request.to_json().encode())


def write_code(folder: Path) -> Path:
    """Pack the package's rules and jobs for ``--py-files``."""
    path = folder / CODE
    with _named_if_unwritable(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(_PACKAGE / "__init__.py", f"{_PACKAGE.name}/__init__.py")
        for name in _TRAVELLING:
            for file in sorted((_PACKAGE / name).rglob("*.*")):
                if file.suffix in _SOURCES:
                    archive.write(file, file.relative_to(_PACKAGE.parent))
    return path


def job_script(name: str) -> Path:
    """The file that ``spark-submit`` starts.

    :param name: of the module in ``jobs``, such as ``"batch"``.
    """
    return _PACKAGE / "jobs" / f"{name}.py"
