"""The clouds' login handlers for Kafka's Java client: fetched by their SHA-256, or among jars that the author names."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.jars import resolve


@dataclass(frozen=True, slots=True)
class _Handler:
    """A handler's jars.

    :param hashes: SHA-256 by the name of the file; None if the jars are not fetched, but named by the author.
    """

    coordinate: str
    hashes: Mapping[str, str] | None = None


#: By the handler's class.
_HANDLERS: Mapping[str, _Handler] = {
    # The jar with the classifier has its dependencies in it, under other names than Spark's.
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": _Handler(
        "software.amazon.msk:aws-msk-iam-auth:2.3.5:all",
        {"aws-msk-iam-auth-2.3.5-all.jar": "bcd6020ce1ca2c3f1a65e087057dc8c0757185ba1f169b38e0eda54b617e4225"},
    ),
    # Its dependencies have other versions of Guava and Jackson than Spark.
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": _Handler(
        "com.google.cloud.hosted.kafka:managed-kafka-auth-login-handler:1.0.5"
    ),
}


def fetched_handler(class_name: str) -> list[Path]:
    """The jars of a handler, which are fetched once and cached.

    :raises JarError: if they are unavailable, or others than those that are known; or if this handler is not fetched.
    """
    handler = _HANDLERS[class_name]
    if handler.hashes is None:
        raise JarError(f"{missing_handler(class_name)}; it is not fetched. {how_to_give(class_name)}")
    return resolve([handler.coordinate], expected=handler.hashes)


def missing_handler(class_name: str) -> str:
    """The first part of a message."""
    return f"The connection's login in Spark needs the class {class_name}, and no jar that the job is given has it"


def how_to_give(class_name: str) -> str:
    """What an author does about a missing handler."""
    return (
        f"Add {_HANDLERS[class_name].coordinate} with its dependencies to jars, or to the folder of kafka_connector; "
        "the documentation on managed Kafka has the steps."
    )


def has_class(jars: Iterable[Path], class_name: str) -> bool:
    """Whether one of these local jars has a class. A file that is no jar has none."""
    entry = f"{class_name.replace('.', '/')}.class"
    return any(entry in _entries(jar) for jar in jars)


def _entries(jar: Path) -> set[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            return set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return set()
