"""Resolve Maven coordinates to jar files on this machine; each set is fetched once and cached.

The resolver is Ivy, which comes with every Spark distribution, so nothing has to be installed for it.
``spark-submit --packages`` would do the same work at every start of a job.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from xml.sax.saxutils import quoteattr

import airflow_provider_kafka_spark
from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.core.secrets import without_user
from airflow_provider_kafka_spark.toolchain.child_environment import child_environment
from airflow_provider_kafka_spark.toolchain.jar_set import record_jars, recorded_jars
from airflow_provider_kafka_spark.toolchain.java import Java, find_java
from airflow_provider_kafka_spark.toolchain.private_folder import PRIVATE_UMASK, check_private, make_private
from airflow_provider_kafka_spark.toolchain.settings import (
    CACHE_FOLDER,
    MAVEN_REPOSITORY,
    cache_folder,
    maven_repository,
)
from airflow_provider_kafka_spark.toolchain.spark_home import REQUIRED_SPARK

_TAIL_LINES = 30
_NOT_FOUND = re.compile(r"\s*:: (\S+)#(\S+);(\S+): not found")
_NO_ANSWER = re.compile(r"\s*Server access error at url \S+ \((.*)\)")
_USER = re.compile(r"://[^/\s]*@")
_PART = re.compile(r"[A-Za-z0-9_.\-]+")


def resolve(
    coordinates: Sequence[str],
    *,
    excludes: Sequence[str] = (),
    expected: Mapping[str, str] | None = None,
    repository: str | None = None,
    root: Path | None = None,
    timeout: float = 600.0,
) -> list[Path]:
    """Return the jars of ``coordinates`` and of everything they depend on at run time, sorted by name.

    The first call for a set fetches it; every later call, from any process, reads a folder and starts no Java. The
    folder is created atomically, and two processes that need it at once fetch it once. ``~/.ivy2`` and ``~/.m2`` are
    neither read nor written: an incomplete one of another tool breaks a resolution.

    :param coordinates: such as ``["org.apache.kafka:kafka_2.13:4.2.0"]``; with a fourth part, a classifier, this one
        jar without its dependencies
    :param excludes: modules to leave out with their own dependencies, such as
        ``["org.apache.hadoop:hadoop-client-api"]``
    :param expected: SHA-256 of each jar, by the name of its file, if they are known
    :param repository: URL of a Maven repository that mirrors Maven Central, by default ``[kafka_spark]
        maven_repository``
    :param root: the cache folder, :func:`cache_root` by default
    :param timeout: seconds for everything: waiting for another process that resolves, and resolving
    :raises JarError: a coordinate is malformed or unavailable, a jar has changed or is another one than expected, or
        there is no Ivy
    :raises OptionError: an option of ``[kafka_spark]`` is malformed
    :raises JavaNotFoundError: a set has to be fetched, and there is no Java to run Ivy
    """
    modules = [_split(coordinate, (3, 4), "group:artifact:version") for coordinate in coordinates]
    excluded = [_split(exclude, (2,), "group:artifact") for exclude in excludes]
    if not modules:
        raise JarError("There must be at least one coordinate, such as 'org.apache.kafka:kafka_2.13:4.2.0'; got none.")
    root = cache_root() if root is None else root
    store = root / "jars"
    folder = store / _folder_name(modules, excluded)
    _check_folders(root, store, folder)
    jars = recorded_jars(folder, expected)
    if jars is not None:
        return jars

    deadline = time.monotonic() + timeout
    with _lock(root, store, deadline) as lock:
        jars = recorded_jars(folder, expected)
        if jars is None:
            jars = _fetch(folder, modules, excluded, expected, repository, deadline, lock)
    return jars


def cache_root() -> Path:
    """Return the folder where this package caches downloads.

    ``[kafka_spark] cache_folder`` if set; ``.cache`` of the checkout if the package runs from one; else the user's
    cache folder.

    :raises OptionError: the option is no absolute path
    """
    if folder := cache_folder():
        return folder
    checkout = Path(airflow_provider_kafka_spark.__file__).resolve().parents[1]
    if (checkout / "setup.cfg").is_file():
        return checkout / ".cache"
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(user_cache) if user_cache else Path.home() / ".cache") / "airflow-provider-kafka-spark"


def find_ivy() -> Path:
    """Return the newest Ivy jar of ``SPARK_HOME``, else of the installed ``pyspark``.

    :raises JarError: neither has one
    """
    folders = []
    if spark_home := os.environ.get("SPARK_HOME"):
        folders.append(Path(spark_home) / "jars")
    # Found, not imported: importing pyspark takes a second.
    spec = importlib.util.find_spec("pyspark")
    folders.extend(Path(location) / "jars" for location in (spec.submodule_search_locations or [] if spec else []))
    for folder in folders:
        if found := sorted(folder.glob("ivy-*.jar")):
            return found[-1]
    raise JarError(
        f"Ivy (ivy-*.jar) must be among Spark's own jars; got none in {[str(folder) for folder in folders]}. Install "
        "the full `pyspark` (`pyspark-client` has no jars), or set SPARK_HOME to a Spark distribution."
    )


def _split(coordinate: str, parts: Container[int], form: str) -> tuple[str, ...]:
    found = tuple(coordinate.strip().split(":"))
    if len(found) not in parts or not all(_PART.fullmatch(part) for part in found):
        raise JarError(f"A Maven coordinate must have the form {form!r}; got {coordinate!r}. Correct the coordinate.")
    return found


def _folder_name(modules: Sequence[tuple[str, ...]], excluded: Sequence[tuple[str, ...]]) -> str:
    key = "\n".join([*sorted(":".join(m) for m in modules), "without", *sorted(":".join(e) for e in excluded)])
    _, artifact, version = modules[0][:3]
    return f"{artifact}-{version}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _check_folders(*folders: Path) -> None:
    try:
        check_private(*folders)
    except OSError as error:
        raise JarError(f"The jar cache {error}, or set {CACHE_FOLDER} to another folder.") from error


@contextmanager
def _lock(root: Path, store: Path, deadline: float) -> Iterator[IO[str]]:
    """Hold the lock of the store: all resolutions share one Ivy cache, which Ivy itself does not lock."""
    path = store / "lock"
    try:
        make_private(root)
        make_private(store)
        lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a")
    except OSError as error:
        raise JarError(
            f"The jar cache {store} must be writable by this user; got {error}. Set {CACHE_FOLDER} to another folder."
        ) from error
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise JarError(
                        f"Another process's fetch of jars must end in time; {path} is still locked. `fuser {path}` "
                        "shows the process; end it, or give a longer time-out."
                    ) from error
                time.sleep(0.1)
        yield lock


def _fetch(
    folder: Path,
    modules: Sequence[tuple[str, ...]],
    excluded: Sequence[tuple[str, ...]],
    expected: Mapping[str, str] | None,
    repository: str | None,
    deadline: float,
    lock: IO[str],
) -> list[Path]:
    java = find_java(minimum=8)
    ivy = find_ivy()
    store = folder.parent
    repository = repository or maven_repository()
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=store))
    try:
        jar_folder = work / "jars"
        make_private(jar_folder)
        (work / "ivy.xml").write_text(_ivy_module(modules, excluded))
        (work / "ivysettings.xml").write_text(_ivy_settings(repository))
        command = _ivy_command(java, ivy, store, work, jar_folder)
        _run(command, modules, repository, store, deadline, lock)
        names = _record(jar_folder, expected, store)
        if not names:
            raise JarError(
                f"There must be jars of {_names(modules)}; Ivy succeeded and retrieved none. {_advice(store)}"
            )
        # Only a folder without a whole set is replaced, and only under the lock.
        shutil.rmtree(folder, ignore_errors=True)
        jar_folder.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [folder / name for name in names]


def _ivy_command(java: Java, ivy: Path, store: Path, work: Path, jar_folder: Path) -> list[str]:
    return [
        str(java.executable),
        f"-Djava.io.tmpdir={work}",
        # Ivy reads its user folder even when every other path is set.
        f"-Divy.default.ivy.user.dir={store / 'ivy'}",
        *("-jar", str(ivy)),
        *("-settings", str(work / "ivysettings.xml")),
        *("-cache", str(store / "ivy")),
        *("-ivy", str(work / "ivy.xml")),
        *("-confs", "default"),
        *("-types", "jar", "bundle"),
        *("-retrieve", f"{jar_folder}/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _record(jar_folder: Path, expected: Mapping[str, str] | None, store: Path) -> list[str]:
    try:
        return record_jars(jar_folder, expected)
    except JarError:
        # Ivy keeps what it has fetched, and would retrieve it again.
        shutil.rmtree(store / "ivy", ignore_errors=True)
        raise


def _ivy_module(modules: Sequence[tuple[str, ...]], excluded: Sequence[tuple[str, ...]]) -> str:
    # "default" of a Maven module is its own jar and what it needs at run time; (default) is for modules with an
    # ivy.xml.
    wanted = [
        f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
        f'conf="default->default"{_ivy_artifact(artifact, *classifier)}'
        for group, artifact, version, *classifier in modules
    ]
    unwanted = [f"<exclude org={quoteattr(group)} module={quoteattr(artifact)} />" for group, artifact in excluded]
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="airflow-provider-kafka-spark" module="jars" revision="1" />'
        '<configurations><conf name="default" /></configurations>'
        f"<dependencies>{''.join(wanted)}{''.join(unwanted)}</dependencies></ivy-module>"
    )


def _ivy_artifact(artifact: str, classifier: str | None = None) -> str:
    """The end of a dependency: all of the module, or its one jar with a classifier."""
    if classifier is None:
        return " />"
    return (
        f' transitive="false"><artifact name={quoteattr(artifact)} type="jar" ext="jar" '
        f"m:classifier={quoteattr(classifier)} /></dependency>"
    )


def _ivy_settings(repository: str | None) -> str:
    # Ivy's own default settings add a local and a shared repository beneath ~/.ivy2; these have one resolver.
    root = f" root={quoteattr(repository.rstrip('/') + '/')}" if repository else ""
    return (
        "<ivysettings>"
        '<property name="ivy.maven.lookup.sources" value="false" />'
        '<property name="ivy.maven.lookup.javadoc" value="false" />'
        '<settings defaultResolver="public" />'
        f'<resolvers><ibiblio name="public" m2compatible="true"{root} /></resolvers>'
        "</ivysettings>"
    )


def _run(
    command: Sequence[str],
    modules: Sequence[tuple[str, ...]],
    repository: str | None,
    store: Path,
    deadline: float,
    lock: IO[str],
) -> None:
    where = f"from {without_user(repository)}" if repository else "from Maven Central"
    try:
        done = subprocess.run(
            command,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=max(1.0, deadline - time.monotonic()),
            check=False,
            # Ivy inherits the lock: if this process is killed, no other one writes the cache until Ivy has ended.
            pass_fds=(lock.fileno(),),
            umask=PRIVATE_UMASK,
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        text = output.decode(errors="replace") if isinstance(output, bytes) else output
        raise JarError(
            f"{_names(modules)} must be fetched {where} in time; Ivy was still busy and was ended. {_advice(store)}\n"
            f"{_tail(text)}"
        ) from error
    _raise_if_failed(done, modules, where, store)


def _raise_if_failed(
    done: subprocess.CompletedProcess[str], modules: Sequence[tuple[str, ...]], where: str, store: Path
) -> None:
    """:raises JarError: with what Ivy said."""
    if silent := next(filter(None, map(_NO_ANSWER.fullmatch, done.stdout.splitlines())), None):
        # Ivy says that it has found none of the modules.
        raise JarError(
            f"A Maven repository must answer when jars are fetched; {where.removeprefix('from ')} did not "
            f"({_USER.sub('://***@', silent[1])[:300]}), asked for {_names(modules)}. Check the network; with a mirror "
            f"set {MAVEN_REPOSITORY} to its URL."
        )
    missing = [":".join(match.groups()) for match in map(_NOT_FOUND.fullmatch, done.stdout.splitlines()) if match]
    if missing:
        raise JarError(
            f"A Maven repository must have every module that is needed; {where.removeprefix('from ')} has no "
            f"{', '.join(missing)} (not found), needed for {_names(modules)}. Check the version; set "
            f"{MAVEN_REPOSITORY} to the URL of a repository that has it; or use a Spark whose Kafka connector is "
            f"there, such as {REQUIRED_SPARK}."
        )
    if done.returncode != 0:
        raise JarError(
            f"{_names(modules)} must be fetched {where}; Ivy ended with exit code {done.returncode}. {_advice(store)}\n"
            f"{_tail(done.stdout)}"
        )


def _names(modules: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(":".join(module) for module in modules)


def _advice(store: Path) -> str:
    return (
        f"Check the coordinate and the network; with a mirror set {MAVEN_REPOSITORY} to its URL; if a download was "
        f"cut off, remove {store / 'ivy'}."
    )


def _tail(output: str) -> str:
    # Ivy prints its progress as dots, one line per artifact, which would push the reason out of the tail.
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith((".", "downloading "))]
    return "Ivy's last words:\n" + "\n".join(_USER.sub("://***@", line) for line in lines[-_TAIL_LINES:])
