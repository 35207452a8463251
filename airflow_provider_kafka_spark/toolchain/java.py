"""Find the Java for Spark, Ivy and the local services, and check its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import JavaNotFoundError
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment

_INSTALL = "Install one, for example with `apt-get install openjdk-{minimum}-jre-headless`, or point JAVA_HOME at one."
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """A ``java`` with a known version.

    :param executable: the file to run
    :param major: its feature release, such as ``17``
    """

    executable: Path
    major: int

    def crash_options(self, report: str) -> list[str]:
        """Options for a JVM that crashes: no core dump, and a report only at this path.

        :param report: path of the report; ``/dev/null`` for none.
        """
        no_core = ["-XX:-CreateCoredumpOnCrash"] if self.major >= 9 else []
        return [f"-XX:ErrorFile={report}", *no_core]


def find_java(minimum: int = 17, environ: Mapping[str, str] | None = None) -> Java:
    """Return the ``java`` that Spark's own scripts use, if it works and has at least release ``minimum``.

    If ``JAVA_HOME`` is set, only that is used, as by ``spark-submit``; otherwise the PATH.

    :param minimum: the oldest accepted release: 17 for Spark 4 and Kafka 4, 8 for Spark 3.5
    :param environ: the environment to look in, this process's own by default
    :raises JavaNotFoundError: there is none, it does not run, or it is too old
    """
    executable, looked_at = _locate(os.environ if environ is None else environ)
    install = _INSTALL.format(minimum=minimum)
    if executable is None:
        raise JavaNotFoundError(
            f"The worker must have Java {minimum} or newer; got none. Looked at: {looked_at}. {install}"
        )
    try:
        major = java_major(executable)
    except JavaNotFoundError as error:
        raise JavaNotFoundError(f"{error} Looked at: {looked_at}. {install}") from error
    if major < minimum:
        raise JavaNotFoundError(
            f"The worker must have Java {minimum} or newer; got Java {major} at {executable}. Looked at: {looked_at}. "
            f"{install}"
        )
    return Java(executable, major)


def _locate(environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """Return the file or None, and a description of the searched places."""
    home = environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        looked_at = f"JAVA_HOME={home!r}, which decides because it is set"
        return (candidate if os.access(candidate, os.X_OK) and candidate.is_file() else None), looked_at
    path = environ.get("PATH", "")
    found = shutil.which("java", path=path)
    return (Path(found) if found else None), f"JAVA_HOME (not set), then PATH={path!r}"


@lru_cache(maxsize=16)
def java_major(executable: Path) -> int:
    """Return the feature release that ``java -version`` prints.

    :raises JavaNotFoundError: it does not run, or prints no version
    """
    try:
        # A machine under load may take seconds for a JVM; one that takes a minute is broken.
        answer = subprocess.run(
            [str(executable), "-version"],
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFoundError(f"{executable} must print its version; got {error}.") from error
    match = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or match is None:
        raise JavaNotFoundError(
            f'{executable} must print its version, such as version "17.0.15"; got exit code '
            f"{answer.returncode} and {(answer.stderr + answer.stdout)[-500:]!r}."
        )
    first, second = int(match[1]), int(match[2] or 0)
    # Until Java 8 the feature release came second: version "1.8.0_402".
    return second if first == 1 else first
