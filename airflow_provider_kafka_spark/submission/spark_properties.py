"""Pass secret Spark properties in a file with mode 0600, since all users of the machine can read arguments.

The redaction patterns are in the file too: they would fill most of the command in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.secrets import REDACTION, is_secret
from airflow_provider_kafka_spark.core.spark.file_names import PROPERTIES
from airflow_provider_kafka_spark.core.spark.java_properties import format_properties, parse_properties
from airflow_provider_kafka_spark.submission.job_files import write_private
from airflow_provider_kafka_spark.submission.remote_path import read_text
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

#: Maximum size of a properties file, in bytes.
_LARGEST = 16 * 1024 * 1024


def secrets_by_file(arguments: Sequence[str], folder: Path, home: SparkHome, environ: Mapping[str, str]) -> list[str]:
    """The arguments of ``spark-submit`` with secret ``--conf`` values moved to a ``--properties-file`` in ``folder``.

    A properties file in the arguments, or else ``spark-defaults.conf``, keeps its effect.

    :param environ: of ``spark-submit``.
    :raises OptionError: if the file that the arguments name cannot be read.
    """
    kept, moved, properties_file = list[str](), dict[str, str](), None
    words = iter(arguments)
    for word in words:
        if word == "--conf":
            name, equals, value = (pair := next(words)).partition("=")
            if equals and (name in REDACTION or is_secret(name, value)):
                moved[name] = value
            else:
                kept += [word, pair]
        elif word == "--properties-file":
            properties_file = next(words)
        else:
            kept.append(word)
    if not moved:
        return list(arguments)
    if properties_file is None and _reads_both(home):
        before, reads_defaults = "", ["--load-spark-defaults"]
    else:
        before, reads_defaults = _read(properties_file, home, environ), []
    # The last one of the same name counts. The empty line ends a last line with a backslash, which would go on here.
    content = f"{before}\n\n{format_properties(moved)}"
    return [*kept, "--properties-file", str(write_private(folder / PROPERTIES, content.encode())), *reads_defaults]


def properties_of(properties_file: str | None, home: SparkHome, environ: Mapping[str, str]) -> dict[str, str]:
    """The properties of the named file, or of ``spark-defaults.conf`` if None, which count if ``conf`` does not set
    them.

    :param environ: of ``spark-submit``.
    :raises OptionError: if the named file cannot be read.
    """
    return parse_properties(_read(properties_file, home, environ))


def _reads_both(home: SparkHome) -> bool:
    """Whether this Spark can read ``spark-defaults.conf`` in addition to another file."""
    return int(home.spark_version.partition(".")[0]) >= 4


def _read(properties_file: str | None, home: SparkHome, environ: Mapping[str, str]) -> str:
    folder = environ.get("SPARK_CONF_DIR") or home.jars.parent / "conf"
    path = Path(properties_file) if properties_file else Path(folder) / "spark-defaults.conf"
    try:
        return read_text(path, _LARGEST, follow_link=True)
    except (OSError, ValueError) as error:
        if properties_file is None and isinstance(error, FileNotFoundError):
            return ""
        raise OptionError(
            f"Spark's properties file must be readable by the worker; got {error}. Correct properties_file."
        ) from error
