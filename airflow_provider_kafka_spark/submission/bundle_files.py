"""The files and properties of a job that something other than this package submits: another operator, or a person."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from airflow_provider_kafka_spark.core.errors import InvalidInputError, JobFolderError, OptionError, ReportLocationError
from airflow_provider_kafka_spark.core.secrets import REDACTION, is_secret, secrets_in_url
from airflow_provider_kafka_spark.core.spark.file_names import CODE, LOGINS, REQUEST
from airflow_provider_kafka_spark.core.spark.java_options import java_option
from airflow_provider_kafka_spark.core.spark.tuning import spark_defaults
from airflow_provider_kafka_spark.core.wire.job_credentials import JobCredentials
from airflow_provider_kafka_spark.core.wire.protocol import JobRequest
from airflow_provider_kafka_spark.submission.conf_checks import ONE_WRITER
from airflow_provider_kafka_spark.submission.job_files import (
    code_archive,
    job_script,
    read_file_of_login,
    without_secrets,
    write_private,
)
from airflow_provider_kafka_spark.submission.prepared_job import DEFAULT_CONF
from airflow_provider_kafka_spark.submission.remote_path import hadoop_uri, read_text, shared_path
from airflow_provider_kafka_spark.toolchain.private_folder import check_private, make_private
from airflow_provider_kafka_spark.toolchain.spark_home import CONNECTOR_EXCLUDES

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

#: A folder that machines have at a path. A path must have no meaning to Kafka's references and to Spark's lists.
_IN_PLACE = re.compile(r"((local|file)://)?(?P<path>/[\w.@+=/-]*)", re.ASCII)
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,#]+", re.ASCII)
#: Where a driver and its executors find files that Spark has sent them.
_WORKING_FOLDER = "/proc/self/cwd"
_LARGEST_REQUEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundleFolder:
    """Where a job finds its files.

    :param uri: of the folder, for Spark.
    :param path: at which driver and executors have it; None if Spark must send them each file.
    """

    uri: str
    path: str | None

    @classmethod
    def parse(cls, folder: object) -> BundleFolder:
        """
        :raises OptionError: if it is neither an absolute path nor a URI, or has a secret.
        """
        text = folder.rstrip("/") if isinstance(folder, str) else ""
        if (found := _IN_PLACE.fullmatch(text)) is not None:
            return cls(text, found["path"])
        if _URI.fullmatch(text) is None or secrets_in_url(text):
            raise OptionError(
                "folder must be where the driver finds the job's files: an absolute path of letters, digits and "
                f"'._@+=-', such as '/etc/kafka-spark', or a URI without a password, such as 's3://bucket/job'; got "
                f"{'a URI with a password' if secrets_in_url(text) else repr(folder)}. Correct it."
            )
        return cls(text, None)

    @property
    def is_sent(self) -> bool:
        """Whether Spark sends the files to the working folders of driver and executors."""
        return self.path is None

    @property
    def login_folder(self) -> str:
        """For the files of a login; empty for the working folder."""
        return self.path or ""

    def uri_of(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def argument(self, name: str) -> str:
        """How the driver names a file."""
        return name if self.path is None else f"{self.path}/{name}"

    def login_path(self, name: str) -> str:
        """How Kafka's Java clients name a file."""
        return f"{self.path or _WORKING_FOLDER}/{name}"


def check_report_location(location: str | None) -> str:
    """The folder of the report as a URI for Hadoop.

    :raises ReportLocationError: if it is neither an absolute path nor a URI, or has a secret.
    """
    text = location.strip() if isinstance(location, str) else ""
    if not (text.startswith("/") or _URI.fullmatch(text)) or secrets_in_url(text):
        raise ReportLocationError(
            "report_location must be a folder that driver and worker both reach, as an absolute path or a URI without "
            f"a password, such as 's3a://bucket/reports'; got {'nothing' if not text else 'another text'}. Correct it."
        )
    return hadoop_uri(text)


def bundle_properties(conf: Mapping[str, Any], logins: JobCredentials) -> dict[str, str]:
    """Spark's properties of such a job: this package's, then the author's.

    :param conf: of the operator.
    :raises OptionError: if it has a secret, or permits that records are written twice.
    """
    given = {str(name): str(value) for name, value in conf.items()}
    for name, value in given.items():
        if is_secret(name, value):
            raise OptionError(
                f"conf must have no secret where another operator submits the job; {name} is one, by its name or its "
                "value. Give it to the operator that submits, in the way in which that one keeps secrets."
            )
    for name, needed in ONE_WRITER.items():
        if given.get(name, needed).strip().lower() != needed:
            raise OptionError(
                f"conf must not set {name}={given[name]!r}: a second driver or task would only fence the first one. "
                f"Leave it out ({needed} is set)."
            )
    excludes = {"spark.jars.excludes": ",".join(CONNECTOR_EXCLUDES)}
    merged = {**DEFAULT_CONF, **spark_defaults(), **REDACTION, **ONE_WRITER, **excludes, **given}
    defined = " ".join(java_option(f"-D{name}={value}") for name, value in logins.system_properties.items())
    if defined:
        for role in ("driver", "executor"):
            # Spark puts them before the extra ones.
            name = f"spark.{role}.defaultJavaOptions"
            merged[name] = f"{merged[name]} {defined}" if merged.get(name) else defined
    return merged


def bundle_contents(
    request: JobRequest, logins: JobCredentials, folder: BundleFolder
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a job, by name.

    :return: those that anybody may read, and those that only the job and this worker may read. The request is one of
        the latter, since it has the key of the report.
    :raises ConnectionConfigError: if a file of a login is gone.
    """
    script = job_script(request.job)
    files = {script.name: script.read_bytes(), CODE: code_archive()}
    referring, of_logins = without_secrets(request, folder.login_path(LOGINS))
    private = {REQUEST: referring.to_json().encode()}
    if of_logins is not None:
        private[LOGINS] = of_logins
    return files, private | {Path(path).name: read_file_of_login(path) for path in logins.files}


def write_bundle(contents: Mapping[str, bytes], folder: str) -> None:
    """Write files that only this user may read, in place of those of an earlier try.

    :param folder: a path or a URI that this worker reaches.
    :raises JobFolderError: if they cannot be written.
    """
    try:
        target = _reached(folder)
        if isinstance(target, Path):
            # The name can be guessed from the run: somebody else may have made it, to replace what the driver runs.
            make_private(target)
        for name, content in contents.items():
            if isinstance(target, Path):
                # Whoever reads meanwhile reads one or the other.
                partial = target / f".{name}.{secrets.token_hex(8)}.partial"
                write_private(partial, content).replace(target / name)
            else:
                (target / name).write_bytes(content)
    except (OSError, ValueError, ImportError) as error:
        raise JobFolderError(
            f"The folder {folder!r} must take the files of a job, some hundred KB; got {error!r}. Nothing was written "
            "to Kafka. Correct the folder or its permissions; a retry writes the files."
        ) from error


def read_request(folder: str) -> bytes:
    """The request of a job whose files :func:`write_bundle` wrote. **Secret.**

    :raises InvalidInputError: if it is not there.
    """
    try:
        return read_text(_reached(f"{folder.rstrip('/')}/{REQUEST}"), _LARGEST_REQUEST).encode()
    except (OSError, ValueError, ImportError) as error:
        raise InvalidInputError(
            f"The folder {folder!r} must have the files of the job until its report is proved, since {REQUEST} has the "
            f"report's key; reading it gave {error!r}. Name the folder that the files were written to. If they are "
            "gone, clear the task that made them: its next job writes only what is missing."
        ) from error


def _reached(place: str) -> Path | ObjectStoragePath:
    """A place in the folder of a bundle for this worker; Spark on Kubernetes calls a path of the pod ``local:``."""
    return shared_path(re.sub(r"^local:(//)?(?=/)", "", place))


def remove_bundle(names: Iterable[str], folder: str) -> None:
    """Remove files that :func:`write_bundle` wrote, as far as they are there.

    :raises JobFolderError: if one cannot be removed.
    """
    try:
        target = _reached(folder)
        if isinstance(target, Path):
            check_private(target)
        for name in names:
            (target / PurePath(name).name).unlink(missing_ok=True)
    except (OSError, ValueError, ImportError) as error:
        raise JobFolderError(
            f"The folder {folder!r} must let the worker remove a job's files, of which some are secret; got {error!r}. "
            "Remove them by hand."
        ) from error
