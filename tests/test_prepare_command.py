from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_kafka_spark import prepare
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from airflow_provider_kafka_spark.toolchain.connector import connector_jars
from airflow_provider_kafka_spark.toolchain.jars import cache_root
from airflow_provider_kafka_spark.toolchain.settings import CACHE_FOLDER, MAVEN_REPOSITORY
from tests.airflow_fakes import task_context
from tests.e2e.process_mark import ProcessMark
from tests.waiting import until

_SECONDS = 300
_WRITER = "airflow_provider_kafka_spark.jobs.writer"
_NOWHERE = "https://127.0.0.1:9/maven2"


@dataclass(frozen=True)
class Cache:
    """One with the connector's jars."""

    folder: Path

    def archives(self) -> dict[str, int]:
        """Name and time of each class archive."""
        return {path.name: path.stat().st_mtime_ns for path in self.folder.glob("classes/*.jsa")}

    @property
    def writer(self) -> Path:
        """The jar of the compiled writer."""
        (jar,) = self.folder.glob("classes/writer-*/*.jar")
        return jar


def new_cache(folder: Path) -> Cache:
    """With a copy of the jars, so that no repository is needed."""
    fetched = connector_jars(None)[0].parent
    shutil.copytree(fetched, folder / "jars" / fetched.name)
    for private in (folder, folder / "jars"):
        private.chmod(0o700)
    return Cache(folder)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    return _used(new_cache(tmp_path / "cache"), monkeypatch)


def _used(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """By this process, without a network."""
    monkeypatch.setenv(CACHE_FOLDER.variable, str(cache.folder))
    monkeypatch.setenv(MAVEN_REPOSITORY.variable, _NOWHERE)
    return cache


@pytest.fixture(scope="module")
def own() -> Cache:
    """The cache of all tests, in which ``make test`` has prepared what is missing."""
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    return Cache(cache_root())


@pytest.fixture
def ready(own: Cache, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache in which all is prepared. It is only read."""
    return _used(own, monkeypatch)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cache, subprocess.CompletedProcess[str]]]:
    """What the command makes of jars alone, as a process of its own, in a cache that tests may damage."""
    cache = new_cache(tmp_path_factory.mktemp("prepared") / "cache")
    yield cache, run(**{CACHE_FOLDER.variable: str(cache.folder), MAVEN_REPOSITORY.variable: _NOWHERE})
    # Some hundred MB.
    shutil.rmtree(cache.folder)


def run(*arguments: str, command: str = prepare.__name__, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", command, *arguments],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.long
@pytest.mark.spark
def test_it_says_what_it_does(prepared: tuple[Cache, subprocess.CompletedProcess[str]]) -> None:
    """The whole ring uses what ``make test`` has made."""
    cache, done = prepared

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Spark 4.0.0",
        *(line.partition(":")[0] for line in lines if re.match(r"Java \d+: /", line)),
        "Kafka connector",
        "Writer",
        "Class archive",
        "Class archive",
        "Ready",
    ]
    assert re.fullmatch(r".*jsa, \d+ MB, made in \d+ s\.", lines[-2])
    assert lines[-1].endswith(f"jars of the Kafka connector and a class archive, cached in {cache.folder}.")
    assert len(cache.archives()) == 1


@pytest.fixture
def loaded_classes(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str | None], dict[str, str]]:
    """Copy five records, and return where the driver's classes came from, by their names."""

    def copy(where: str | None) -> dict[str, str]:
        source, target, log = topic(suffix="source"), topic(suffix="target"), tmp_path / "loaded"
        kafka.produce(source, [Record(value=b"%d" % i, partition=0) for i in range(5)])
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Xlog:class+load:file={log}")
        ranges = [f"{source}:0:0:5"]
        operator = ReplayOffsetRangesOperator(task_id="copy", offset_ranges=ranges, target_topic=target, where=where)
        assert operator.execute(task_context())["records_written"] == 5  # type: ignore[arg-type]
        lines = log.read_text().splitlines()
        return dict(found.groups() for line in lines if (found := re.search(r"(\S+) source: (.*)", line)))

    return copy


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.parametrize(
    "where", [pytest.param(None, id="as-they-are"), pytest.param("value IS NOT NULL", id="sql", marks=pytest.mark.long)]
)
def test_a_task_uses_what_was_prepared(
    ready: Cache, loaded_classes: Callable[[str | None], dict[str, str]], where: str | None
) -> None:
    """Nearly every class comes out of the archive; a task fetches nothing, and writes none."""
    before = ready.archives()

    sources = loaded_classes(where)

    by_name = {
        name: "shared objects file" in text for name, text in sources.items() if "file:" in text or "shared" in text
    }
    assert by_name["org.apache.kafka.clients.producer.KafkaProducer"]
    # The writer too: nothing is compiled.
    assert by_name[f"{_WRITER}.RecordWriter"]
    assert by_name[f"{_WRITER}.TransactionalSink"]
    assert not [name for name in sources if "janino" in name] or where
    assert sum(by_name.values()) / len(by_name) > 0.9
    assert ready.archives() == before


@pytest.mark.spark
def test_a_second_call_finds_all_there(ready: Cache, capsys: pytest.CaptureFixture[str]) -> None:
    before = ready.archives()

    assert prepare.main([]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Kafka connector: \d+ jars in \S+, checked\.\n", printed)
    assert re.search(r"Writer: \S+, checked\.\n", printed)
    assert re.search(r"Class archive: \S+, \d+ MB, checked\.\n", printed)
    assert "made in" not in printed
    assert ready.archives() == before


@pytest.mark.spark
def test_jars_of_a_folder_and_of_the_cluster(cache: Cache, capsys: pytest.CaptureFixture[str]) -> None:
    """The choices of ``kafka_connector`` are those of a task."""
    folder = next(cache.folder.glob("jars/*"))

    assert prepare.main(["--kafka-connector", str(folder), "--no-class-archive"]) == 0
    assert f"jars in {folder}, checked." in capsys.readouterr().out
    assert prepare.main(["--kafka-connector", "provided", "--no-class-archive"]) == 0
    assert "Ready: 0 jars" in capsys.readouterr().out
    assert prepare.main(["--kafka-connector", str(cache.folder), "--no-class-archive"]) == 1
    assert capsys.readouterr().err.startswith("JarError: kafka_connector must be a folder")


def no_spark(patch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    patch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyspark" else find_spec(name, *more)
    )
    patch.setattr(sys, "executable", "/nowhere/bin/python")
    patch.setenv("PATH", "/usr/bin:/bin")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "folder", "says"),
    [
        ({"JAVA_HOME": "/nowhere"}, "", "JavaNotFoundError: The worker must have Java 17 or newer; got none"),
        ("no-spark", "", "SparkSubmitNotFoundError: 'spark-submit' must be on"),
        ({}, "missing", "JarError: A Maven repository must answer .*//127.0.0.1:9/"),
        ({}, "a-file", "JarError: The jar cache .* set .*cache_folder"),
        pytest.param({}, "classes-are-a-file", "ClassArchiveError: .*must be kept in .*classes",
                     marks=pytest.mark.long),
        ({"SPARK_SUBMIT_OPTS": "-Xmx1x"}, "", "ClassArchiveError: The driver .* exit code 1"),
        pytest.param({"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/nowhere.jsa"}, "",
                     "ClassArchiveError: .*java -Xshare:dump` makes it", marks=pytest.mark.long),
        ({CACHE_FOLDER.variable: "cache"}, "", "OptionError: .*cache_folder .* absolute path"),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_with_a_name(
    cache: Cache,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: dict[str, str] | str,
    folder: str,
    says: str,
) -> None:
    """What another program said is shown."""
    if isinstance(setting, str):
        no_spark(monkeypatch)
    else:
        for name, value in setting.items():
            monkeypatch.setenv(name, value)
    if folder in ("missing", "a-file"):
        shutil.rmtree(cache.folder)
    if folder in ("a-file", "classes-are-a-file"):
        (cache.folder / "classes" if folder.startswith("classes") else cache.folder).touch()

    assert prepare.main([]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert re.match(says, line), line
    assert "Traceback" not in captured.out
    assert "Ready" not in captured.out
    assert ("Invalid maximum heap size: -Xmx1x" in captured.out) == ("exit code 1" in says)
    assert cache.folder.is_file() or cache.archives() == {}


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "driver"),
    [
        (signal.SIGTERM, "writer_compilation.py"),
        (signal.SIGTERM, "class_loading.py"),
        (signal.SIGINT, "class_loading.py"),
    ],
)
def test_a_stop_leaves_no_process_and_no_file(
    cache: Cache, tmp_path: Path, number: signal.Signals, driver: str
) -> None:
    mark, temporary = ProcessMark(), tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", prepare.__name__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **mark.environment, "TMPDIR": str(temporary)},
    )
    until(lambda: process.poll() is not None or any(driver in each for each in mark.alive()), driver, _SECONDS)
    assert process.poll() is None

    process.send_signal(number)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert errors.startswith("Interrupted;")
    assert mark.alive() == []
    assert cache.archives() == {}
    assert list(temporary.iterdir()) == []


def test_help() -> None:
    done = run("--help")

    assert done.returncode == 0
    assert "Exit code: 0 if all is ready, 1 if not." in " ".join(done.stdout.split())
    assert run("--no-such-option").returncode == 2


@pytest.mark.long
@pytest.mark.spark
def test_as_a_command_of_airflow() -> None:
    """``airflow kafka-spark prepare``, by the provider's entry point."""
    failed = run("kafka-spark", "prepare", command="airflow", JAVA_HOME="/nowhere")

    assert failed.returncode == 1
    assert failed.stdout.startswith("Spark ")
    assert failed.stderr.splitlines()[-1].startswith("JavaNotFoundError: ")
    assert "Traceback" not in failed.stderr
