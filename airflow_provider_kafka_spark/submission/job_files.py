"""The files of a job: its request, and this package's Python code, so that a driver needs only Spark."""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.clients.connection.login_file import read_login_file
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.spark.file_names import CODE, REQUEST
from airflow_provider_kafka_spark.core.spark.java_properties import format_properties
from airflow_provider_kafka_spark.core.spark.secret_references import by_reference
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.toolchain.temporary_folder import named_if_unwritable

_PACKAGE = Path(airflow_provider_kafka_spark.__file__).parent
#: The packages that run on a driver.
_TRAVELLING = ("core", "jobs")
_SOURCES = (".py", ".java")


def write_private(path: Path, content: bytes) -> Path:
    """Write a new file with mode 0600, whatever the umask.

    :raises FileExistsError: if the file exists, since another user may have created it.
    :raises JobFolderError: if it cannot be written, as on a full disk.
    """
    with named_if_unwritable():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(content)
    return path


def copy_private(path: str, folder: Path) -> Path:
    """Copy a file of a connection's login, such as a keytab, with mode 0600.

    :raises ConnectionConfigError: if it has been removed or replaced since the connection was read.
    """
    return write_private(folder / Path(path).name, read_file_of_login(path))


def read_file_of_login(path: str) -> bytes:
    """
    :raises ConnectionConfigError: if it has been removed or replaced since the connection was read.
    """
    try:
        return read_login_file(path)
    except OSError as error:
        raise ConnectionConfigError(
            f"A file of a Kafka login must be a readable file of at most 1 MiB; {path}: {error.strerror or error}. "
            "Restore the file."
        ) from error


def write_request(folder: Path, request: JobRequest) -> Path:
    """Write the request with mode 0600, as all files of a job."""
    return write_private(folder / REQUEST, request.to_json().encode())


def without_secrets(request: JobRequest, path: str) -> tuple[JobRequest, bytes | None]:
    """The request with references in place of the logins' secrets, and the contents of the file that they refer to.

    :param path: of this file for the Java client, absolute, without the characters ``:``, ``,`` and ``}``.
    :return: without contents, if there are no secrets.
    """
    source, of_source = by_reference(request.source_options, path, "source")
    sink, of_sink = by_reference(request.sink_options, path, "sink")
    secrets = {**of_source, **of_sink}
    referring = replace(request, source_options=source, sink_options=sink)
    return (referring, format_properties(secrets).encode()) if secrets else (request, None)


def write_code(folder: Path) -> Path:
    """Pack the package's rules and jobs for ``--py-files``."""
    return write_private(folder / CODE, code_archive())


def write_code_folder(folder: Path) -> Path:
    """A folder for the ``PYTHONPATH`` of a driver on this machine: its package is the installed one.

    Python keeps the compiled modules of the installed package; those of a zip it compiles at every start.
    """
    code = folder / "code"
    package = code / _PACKAGE.name
    package.mkdir(parents=True, mode=0o700)
    write_private(package / "__init__.py", f"__path__ = [{str(_PACKAGE)!r}]\n".encode())
    return code


def code_archive() -> bytes:
    """The package's rules and jobs, as a zip for ``--py-files``."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(_PACKAGE / "__init__.py", f"{_PACKAGE.name}/__init__.py")
        for name in _TRAVELLING:
            for file in sorted((_PACKAGE / name).rglob("*.*")):
                if file.suffix in _SOURCES:
                    archive.write(file, file.relative_to(_PACKAGE.parent))
    return content.getvalue()


def job_script(name: str) -> Path:
    """The file that ``spark-submit`` starts.

    :param name: of the module in ``jobs``, such as ``"batch"``.
    """
    return _PACKAGE / "jobs" / f"{name}.py"
