"""A folder of fetched jars, with what each of them is by SHA-256: a jar that was changed later is never loaded."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.settings import MAVEN_REPOSITORY

_RECORD = "jars.sha256"
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Jar:
    """One line of the record.

    :param stamp: of the file, as its content was read last; without a change it need not be read again.
    """

    name: str
    sha256: str
    stamp: str

    @classmethod
    def of(cls, file: Path) -> _Jar:
        # Before the content: a change while it is read is seen next time.
        stamp = _stamp(file)
        digest = hashlib.sha256()
        with file.open("rb") as content:
            while piece := content.read(_PIECE):
                digest.update(piece)
        return cls(file.name, digest.hexdigest(), stamp)

    def format(self) -> str:
        return f"{self.sha256} {self.stamp} {self.name}\n"


def record_jars(folder: Path, expected: Mapping[str, str] | None = None) -> list[str]:
    """Record the jars that were fetched into a folder.

    :param expected: SHA-256 of each jar, by its name, if they are known.
    :return: the names of the jars, sorted.
    :raises JarError: if they are others than expected.
    """
    jars = [_Jar.of(file) for file in sorted(folder.glob("*.jar"))]
    if jars:
        _check_expected(
            jars, expected, f"The repository has others of this name. Check {MAVEN_REPOSITORY}; a retry fetches again"
        )
        _write(folder, jars)
    return [jar.name for jar in jars]


def recorded_jars(folder: Path, expected: Mapping[str, str] | None = None) -> list[Path] | None:
    """The jars of a folder as they were recorded, or None if there is no record, or a jar is missing.

    Content is read again only where size, times or inode of a file have changed.

    :param expected: as for :func:`record_jars`.
    :raises JarError: if a jar has changed, or is another one than expected.
    """
    jars = _read(folder)
    if not jars:
        return None
    files = [folder / jar.name for jar in jars]
    remedy = f"Remove {folder}; the next task fetches them again"
    try:
        now = [jar if _stamp(file) == jar.stamp else _Jar.of(file) for jar, file in zip(jars, files, strict=True)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JarError(f"The jars in {folder} must be readable by the worker; got {error}. {remedy}.") from error
    _check_expected(now, {jar.name: jar.sha256 for jar in jars}, f"They have changed since they were fetched. {remedy}")
    _check_expected(now, expected, remedy)
    if now != jars:
        # Only time is lost without it, as in a folder that cannot be written.
        with suppress(OSError):
            _write(folder, now)
    return files


def _check_expected(jars: list[_Jar], expected: Mapping[str, str] | None, remedy: str) -> None:
    if expected is None:
        return
    found = {jar.name: jar.sha256 for jar in jars}
    differing = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if differing:
        shown = ", ".join(differing[:3]) + (f" and {len(differing) - 3} more" if len(differing) > 3 else "")
        raise JarError(
            f"The fetched jars must be those whose SHA-256 is known, since the driver runs them; got other content, or "
            f"none, for {shown[:120]}. {remedy}."
        )


def _read(folder: Path) -> list[_Jar]:
    try:
        lines = (folder / _RECORD).read_text().splitlines()
        words = [line.split(" ", 2) for line in lines]
        return [_Jar(name, sha256, stamp) for sha256, stamp, name in words if Path(name).name == name]
    except (OSError, ValueError):
        return []


def _write(folder: Path, jars: list[_Jar]) -> None:
    # Made with mode 0600, and never seen half.
    descriptor, partial = tempfile.mkstemp(dir=folder, prefix=f".{_RECORD}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.writelines(jar.format() for jar in jars)
        Path(partial).replace(folder / _RECORD)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _stamp(file: Path) -> str:
    """What changes with the content: nobody sets the time of the last change of an inode."""
    status = file.stat()
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"
