"""Promises of :mod:`airflow_provider_kafka_spark.toolchain.jars`: fetched once, whole or not at all, and not
silently.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import JarError, JavaNotFoundError
from airflow_provider_kafka_spark.toolchain import jars
from airflow_provider_kafka_spark.toolchain.java import find_java
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, HTTP_HOSTS, MAVEN_REPOSITORY

pytestmark = pytest.mark.process

_APP, _NAMES = ["org.example:app:1.0"], ["app-1.0.jar", "library-2.0.jar"]
_RESOLVE = """
import sys
from pathlib import Path
from airflow_provider_kafka_spark.toolchain import jars
print([jar.name for jar in jars.resolve(["org.example:app:1.0"], root=Path(sys.argv[1]), repository=sys.argv[2])])
"""


@dataclass(frozen=True)
class Repository:
    """A Maven repository of our own: app 1.0 needs library 2.0, and broken 1.0 needs something that is nowhere."""

    url: str
    requests: list[str]


@contextmanager
def _published(folder: Path) -> Iterator[Repository]:
    """A real HTTP server with real poms, which records what it was asked for."""
    _publish(folder / "repository", "app", "1.0", [("library", "2.0")])
    _publish(folder / "repository", "library", "2.0", [])
    _publish(folder / "repository", "broken", "1.0", [("nowhere", "9")])
    requests: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: ARG002 - the base class calls it
            requests.append(self.path)

    handler = partial(Handler, directory=str(folder / "repository"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Repository(f"http://127.0.0.1:{server.server_address[1]}", requests)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with _published(tmp_path) as repository:
        yield repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty cache."""
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the jars of app 1.0, as Ivy fetches them."""
    folder = tmp_path_factory.mktemp("fetched")
    with _published(folder) as repository:
        jars.resolve(_APP, root=folder / "cache", repository=repository.url)
    return folder / "cache"


@pytest.fixture
def filled(fetched: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and a Java and a repository that are of no use."""
    shutil.copytree(fetched, root)
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, "https://127.0.0.1:9/maven2")
    return root


def test_dependencies_come_along(
    repository: Repository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinate stands for its jar and for everything that it needs at run time. An air-gapped user sets one
    variable, and nothing else is asked. The home folder is not touched, and what Ivy unpacks is in the cache and gone
    afterwards. Code is loaded from there, so the umask does not decide who may write it.
    """
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, repository.url)
    monkeypatch.setenv(HTTP_HOSTS.variable, "127.0.0.1")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path / 'home'}")
    real, called, java = find_java().executable, tmp_path / "called", tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\numask >> {called}\necho "$@" >> {called}\nexec {real} "$@"\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    before = os.umask(0)
    try:
        found = jars.resolve(_APP, root=root)
    finally:
        os.umask(before)

    assert [jar.name for jar in found] == ["app-1.0.jar", "library-2.0.jar"]
    assert all(jar.read_text().startswith("jar of") for jar in found)
    assert any("app-1.0.jar" in request for request in repository.requests)
    assert list((tmp_path / "home").iterdir()) == []
    assert re.search(rf"^0077\n-Djava.io.tmpdir={root}/jars/\.app", called.read_text(), re.MULTILINE)
    assert [path.name for path in (root / "jars").iterdir() if path.name.startswith(".")] == []
    assert {folder.stat().st_mode & 0o777 for folder in (root, root / "jars", found[0].parent)} == {0o700}


def test_a_jar_with_a_classifier_comes_alone(repository: Repository, root: Path, tmp_path: Path) -> None:
    """Such a jar has what it needs in itself."""
    folder = tmp_path / "repository" / "org" / "example" / "app" / "1.0"
    (folder / "app-1.0-all.jar").write_text("jar of everything")

    [found] = jars.resolve(["org.example:app:1.0:all"], root=root, repository=repository.url)

    assert (found.name, found.read_text()) == ("app-1.0-all.jar", "jar of everything")


def test_an_excluded_module_stays_away(repository: Repository, filled: Path) -> None:
    """Exclusions are by group and artifact, and another set than the one without them."""
    found = jars.resolve(_APP, excludes=["org.example:library"], root=filled, repository=repository.url)
    assert [jar.name for jar in found] == ["app-1.0.jar"]
    assert len(jars.resolve(_APP, root=filled)) == 2


def test_processes_that_want_the_same_fetch_it_once(repository: Repository, root: Path) -> None:
    """The others wait for the first, and find what it fetched."""
    command = [sys.executable, "-c", _RESOLVE, str(root), repository.url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate(timeout=120)[0] for process in processes} == {"['app-1.0.jar', 'library-2.0.jar']\n"}
    # One request asks whether it is there, one fetches it; a second process would double that.
    assert sum(request.endswith("/app-1.0.jar") for request in repository.requests) <= 2


@pytest.mark.parametrize("damage", [None, "0 1 ../../app-1.0.jar\n"])
def test_a_set_that_is_not_whole_is_fetched_again(repository: Repository, filled: Path, damage: str | None) -> None:
    """Where a jar was removed, or there is no record of the jars, as in a set of an earlier version."""
    found = jars.resolve(_APP, root=filled)
    if damage is None:
        found[0].unlink()
    else:
        (found[0].parent / "jars.sha256").write_text(damage)
    assert jars.resolve(_APP, root=filled, repository=repository.url) == found
    assert found[0].is_file()


@pytest.mark.parametrize("way", ["written", "replaced", "with-its-time"])
def test_a_jar_that_has_changed_is_refused(filled: Path, way: str) -> None:
    """The driver would run it. The error says what to remove, and nothing of what is in it."""
    found = jars.resolve(_APP, root=filled)
    before = found[0].stat()
    if way == "replaced":
        found[0].unlink()
    found[0].write_text("other" + found[0].read_text()[5:] if way != "replaced" else "other of app")
    if way == "with-its-time":
        os.utime(found[0], ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(JarError, match=rf"for app-1\.0\.jar\. They have changed.* Remove {found[0].parent};") as raised:
        jars.resolve(_APP, root=filled)
    assert "other of" not in str(raised.value)


def test_a_jar_is_read_again_only_if_its_file_has_changed(filled: Path) -> None:
    """Every task asks for the jars: it costs no more than to look at them. A copy of a cache is read once."""
    found = jars.resolve(_APP, root=filled)
    record = found[0].parent / "jars.sha256"
    for file in found:
        os.utime(file)
    noted = record.read_text()

    assert jars.resolve(_APP, root=filled) == found
    renewed, at = record.read_text(), record.stat()
    assert [line.split()[0] for line in renewed.splitlines()] == [line.split()[0] for line in noted.splitlines()]
    assert renewed != noted

    assert jars.resolve(_APP, root=filled) == found
    assert record.stat() == at


@pytest.mark.parametrize("jar", ["app-1.0.jar", "more-1.0.jar"], ids=["other", "missing"])
def test_a_repository_with_other_jars_than_known_is_refused(repository: Repository, root: Path, jar: str) -> None:
    """Whatever it signs them with. Nothing of them is kept, so that another repository is asked by the next task."""
    known = {name: hashlib.sha256(b"jar of " + name.split("-")[0].encode()).hexdigest() for name in _NAMES}

    with pytest.raises(JarError, match=rf"for {jar}\. The repository has others.*maven_repository"):
        jars.resolve(_APP, root=root, repository=repository.url, expected={**known, jar: "0" * 64})

    assert [path.name for path in (root / "jars").iterdir()] == ["lock"]
    if jar == _NAMES[0]:
        found = jars.resolve(_APP, root=root, repository=repository.url, expected=known)
        assert [path.name for path in found] == _NAMES


def test_a_record_that_was_changed_with_a_jar_is_of_no_use(filled: Path) -> None:
    """What is known of a jar is not in the cache."""
    found = jars.resolve(_APP, root=filled)

    with pytest.raises(JarError, match=rf"for library-2\.0\.jar\. Remove {found[0].parent};"):
        jars.resolve(_APP, root=filled, expected={"app-1.0.jar": hashlib.sha256(b"jar of app").hexdigest()})


@pytest.mark.parametrize("artifact", ["missing", "broken"], ids=["itself-missing", "dependency-missing"])
def test_what_is_not_to_be_had_is_an_error(repository: Repository, root: Path, artifact: str) -> None:
    """The error names the module that is missing, the repository and what to do, and nothing half-done is kept."""
    with pytest.raises(JarError) as raised:
        jars.resolve([f"org.example:{artifact}:1.0"], root=root, repository=repository.url)
    message = str(raised.value)
    assert f"org.example:{artifact}:1.0" in message
    assert repository.url in message
    missing = "org.example:nowhere:9" if artifact == "broken" else "org.example:missing:1.0"
    assert f"has no {missing} (not found)" in message
    assert len(message) < 500
    assert MAVEN_REPOSITORY.variable in message
    assert [path.name for path in (root / "jars").iterdir() if path.name.startswith((".", artifact))] == []


def test_a_repository_that_does_not_answer_is_not_one_without_the_jar(root: Path) -> None:
    """As in an image that is built without a network."""
    with pytest.raises(JarError) as raised:
        jars.resolve(_APP, root=root, repository="https://ann:pa55@127.0.0.1:9/maven2")

    message = str(raised.value)
    assert "did not (java.net.ConnectException: Connection refused), asked for org.example:app:1.0" in message
    assert "pa55" not in message
    assert MAVEN_REPOSITORY.variable in message


@pytest.mark.parametrize("coordinate", ["org.example:app", "app-1.0.jar", "a:b:c:d:e", "a::1", "a:b:1 <x/>", None])
def test_a_malformed_coordinate_is_refused(root: Path, coordinate: str | None) -> None:
    """None at all is a mistake of the caller."""
    with pytest.raises(JarError, match="group:artifact:version" if coordinate else "at least one coordinate"):
        jars.resolve([coordinate] if coordinate else [], root=root)


def test_waiting_for_another_process_is_bounded(root: Path) -> None:
    """A lock that is never released ends in an error that names its file."""
    (root / "jars").mkdir(parents=True)
    with (root / "jars" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = time.monotonic()
        with pytest.raises(JarError, match=r"jars/lock is still locked"):
            jars.resolve(_APP, root=root, timeout=0.5)
        assert time.monotonic() - before < 30


def test_without_java_or_ivy_the_error_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what was looked at, too; pyspark-client alone has no jars."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _name: None)
        with pytest.raises(JarError, match="full `pyspark`"):
            jars.resolve(_APP, root=root)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(JavaNotFoundError, match=r"PATH='/nowhere'.*apt-get install openjdk-"):
        jars.resolve(_APP, root=root)


@pytest.mark.parametrize("part", ["root", "jars", "set"])
def test_a_cache_that_others_may_write_is_refused(filled: Path, part: str) -> None:
    """They could have put jars of their own there; the message says what to run."""
    found = jars.resolve(_APP, root=filled)
    folder = {"root": filled, "jars": filled / "jars", "set": found[0].parent}[part]
    # A group may get another user at any time.
    for mode in ("0777", "0775"):
        folder.chmod(int(mode, 8))
        with pytest.raises(JarError, match=f"by no other user.*has mode {mode}.*chmod go-w {folder}") as raised:
            jars.resolve(_APP, root=filled)
        assert CACHE_FOLDER.variable in str(raised.value)

    folder.chmod(0o755)
    assert jars.resolve(_APP, root=filled) == found


def test_the_cache_can_be_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One option decides where everything that is fetched goes; without it, a source checkout uses its own .cache."""
    monkeypatch.setenv(CACHE_FOLDER.variable, str(tmp_path / "here"))
    assert jars.cache_root() == tmp_path / "here"
    monkeypatch.delenv(CACHE_FOLDER.variable)
    assert jars.cache_root() == Path(__file__).resolve().parents[2] / ".cache"


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("22-ea", 22), ("1.8.0_402", 8)])
def test_the_version_is_understood(tmp_path: Path, version: str, major: int) -> None:
    """Both numbering schemes of Java are read."""
    java = _java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    assert find_java(minimum=8, environ={"PATH": str(java.parent)}).major == major


def test_a_java_that_is_of_no_use_is_refused(tmp_path: Path) -> None:
    """One that is too old, with the version that was found and where, and one that does not run, such as the stub of
    macOS, which only asks to install one. A JAVA_HOME without a java is an error, though the PATH has one: spark-submit
    would fail as well.
    """
    old, stub = _java(tmp_path / "old", 'openjdk version "11.0.2"'), _java(tmp_path / "stub", "No Java runtime present")
    with pytest.raises(JavaNotFoundError, match=f"Java 17 or newer; got Java 11 at {old}"):
        find_java(minimum=17, environ={"PATH": str(old.parent)})
    with pytest.raises(JavaNotFoundError, match=r"print its version.*Looked at"):
        find_java(environ={"PATH": str(stub.parent)})
    with pytest.raises(JavaNotFoundError, match=f"JAVA_HOME='{tmp_path}'"):
        find_java(environ={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def _java(folder: Path, output: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    return java


def _publish(repository: Path, artifact: str, version: str, needs: list[tuple[str, str]]) -> None:
    folder = repository / "org" / "example" / artifact / version
    folder.mkdir(parents=True)
    dependencies = "".join(
        f"<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>{of}</version></dependency>"
        for name, of in needs
    )
    (folder / f"{artifact}-{version}.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        f"<artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    (folder / f"{artifact}-{version}.jar").write_text(f"jar of {artifact}")
