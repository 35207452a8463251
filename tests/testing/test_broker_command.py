"""Promises of ``python -m airflow_provider_kafka_spark.testing.broker``."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.testing import broker
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from tests.e2e.process_mark import ProcessMark
from tests.waiting import until

_PAGE = Path(__file__).parents[2] / "docs/getting-started.md"
_SECONDS = 120
Start = Callable[..., "Started"]


class Started:
    """The command, as a process of its own with a ``TMPDIR`` of its own."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        temporary.mkdir()
        self.temporary = temporary
        self.mark = ProcessMark()
        self.process = subprocess.Popen(
            [sys.executable, "-m", broker.__name__, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.mark.environment, "TMPDIR": str(temporary)},
        )

    def lines(self) -> list[str]:
        """All up to the last one that it prints when it is ready."""
        assert self.process.stdout is not None
        found: list[str] = []
        while not found or not found[-1].startswith("Ctrl-C"):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            found.append(line.rstrip())
        return found

    def wait_until_nothing_is_left(self) -> None:
        until(lambda: not self.mark.alive(), "nothing is left", 30.0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Started] = []

    def start(*arguments: str) -> Started:
        started.append(Started(tmp_path / f"tmp{len(started)}", *arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()
        each.wait_until_nothing_is_left()


@pytest.mark.long
@pytest.mark.broker
def test_the_command_of_the_first_page(start: Start) -> None:
    """It has the topics and records that the page's DAG asks for. Ctrl-C ends all of it, and leaves no file."""
    (command,) = re.findall(rf"^python -m {re.escape(broker.__name__)} (.+)$", _PAGE.read_text(), re.MULTILINE)

    started = start(*shlex.split(command))
    lines = started.lines()

    (export,) = (line for line in lines if line.startswith("export "))
    name, _, value = shlex.split(export)[1].partition("=")
    assert name == "AIRFLOW_CONN_KAFKA_DEFAULT"
    connection = json.loads(value)
    assert connection["conn_type"] == "kafka_spark"
    bootstrap = f"{connection['host']}:{connection['port']}"
    assert f"Bootstrap server: {bootstrap}" in lines
    client = KafkaBroker.existing(bootstrap)
    assert client.offsets("orders") == {0: (0, 500), 1: (0, 500)}
    assert set(client.offsets("orders_replay").values()) == {(0, 0)}

    started.process.send_signal(signal.SIGINT)
    _, errors = started.process.communicate(timeout=_SECONDS)
    assert started.process.returncode == 128 + signal.SIGINT
    assert errors == "broker: stopped by SIGINT; no process is left.\n"
    assert started.mark.alive() == []
    assert list(started.temporary.iterdir()) == []


@pytest.mark.long
@pytest.mark.broker
def test_it_ends_after_the_seconds(start: Start) -> None:
    started = start("--seconds", "1", "--topic", "a")

    output, _ = started.process.communicate(timeout=_SECONDS)

    assert started.process.returncode == 0
    assert "Topic a: 1 partitions." in output
    assert started.mark.alive() == []
    assert list(started.temporary.iterdir()) == []


def test_a_port_that_is_in_use(start: Start) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        started = start("--port", str(port))
        _, errors = started.process.communicate(timeout=_SECONDS)

    assert started.process.returncode == 1
    assert errors.startswith(
        f"LocalServiceError: --port must be a port that is free; got {port} (Address already in use)"
    )
    assert list(started.temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--topic", "a b"], "such as orders:3; got 'a b'"),
        (["--topic", "a:0"], "such as orders:3; got 'a:0'"),
        (["--topic", "a", "--topic", "a:2"], "each topic once"),
        (["--records", "5"], "--records needs a topic"),
        (["--topic", "a", "--records", "-5"], "such as 1000; got '-5'"),
        (["--port", "70000"], "1 to 65535"),
        (["--help"], "NAME[:PARTITIONS]"),
    ],
)
def test_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker._parse(arguments)  # noqa: SLF001 - main() would change the signal handlers of the tests
    assert ended.value.code == (0 if arguments == ["--help"] else 2)
    assert says in "".join(capsys.readouterr())
