"""Promises of ``python -m airflow_provider_kafka_spark.explain``; the catalogue has a test of its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark import explain
from airflow_provider_kafka_spark.core.errors import BrokerUnavailableError, DataLossError, KafkaSparkError
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors
from airflow_provider_kafka_spark.failure import no_retry_on_permanent_error

_PACKAGE = Path(explain.__file__).parent
_CHECKOUT = _PACKAGE.parent


def test_the_commands_of_airflow_and_of_this_package_exist() -> None:
    commands = {check for error in all_errors() for check in error.checks}
    parser = get_parser()
    for command in commands:
        words = command.removeprefix("AIRFLOW__CORE__TEST_CONNECTION=Enabled ").split()
        if words[0] == "airflow" and "--help" not in words:
            parser.parse_args(words[1:])
        if words[0] == "python":
            assert (_CHECKOUT / f"{words[2].replace('.', '/')}.py").exists()


@pytest.mark.parametrize("asked", ["KS208", "ks208", "DataLossError", "datalosserror", "DataLossError:", " KS208 "])
def test_an_error_is_found_by_code_and_by_name(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main([asked]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("KS208 DataLossError\n")
    assert re.findall(r"^([A-Z][a-z ]+):$", printed, re.MULTILINE) == [
        "What happened",
        "Likely causes",
        "What to do",
        "What to check",
        "A retry",
    ]
    assert "It does not help" in printed
    assert explain.main(["BrokerUnavailableError"]) == 0
    assert "It can help" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        pytest.param("DataLosError", " Did you mean KS208 (DataLossError)?", id="name"),
        pytest.param("KS2O8", " Did you mean KS20", id="code"),
        pytest.param("nonsense", "", id="nothing-near"),
    ],
)
def test_an_unknown_error(asked: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main([asked]) == 1
    said = capsys.readouterr().err
    assert f"got {asked!r}.{hint}" in said
    assert ("Did you mean" in said) == bool(hint)


def test_the_list_and_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["--list"]) == 0
    listed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert listed == [[error.code, error.__name__] for error in all_errors()]
    assert explain.main([]) == 2
    assert "must be given" in capsys.readouterr().err


@pytest.mark.process
def test_as_a_command_of_its_own_and_of_airflow(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=120, check=False)

    found = run("airflow", "kafka-spark", "explain", "KS501")
    assert found.returncode == 0
    assert "KS501 BrokerUnavailableError\n" in found.stdout
    unknown = run(explain.__name__, "KS5O1")
    assert unknown.returncode == 1
    assert "Did you mean KS501" in unknown.stderr
    with pytest.raises(SystemExit):
        explain.main(["--help"])
    assert "Exit code: 0" in capsys.readouterr().out


@no_retry_on_permanent_error
def outer(error: KafkaSparkError) -> None:
    inner(error)


@no_retry_on_permanent_error
def inner(error: KafkaSparkError) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "raises"),
    [(DataLossError("gone"), AirflowFailException), (BrokerUnavailableError("gone"), BrokerUnavailableError)],
    ids=["permanent", "transient"],
)
def test_the_message_of_a_failed_task_has_the_code_once_and_the_command(
    error: KafkaSparkError, raises: type[Exception]
) -> None:
    with pytest.raises(raises) as raised:
        outer(error)
    _, *last = str(raised.value).splitlines()
    assert last == [f"Error {error.code}: `airflow kafka-spark explain {error.code}` lists causes and checks."]


def _texts(module: Path) -> list[str]:
    """Of all strings but docstrings."""
    tree = ast.parse(module.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [str(node.value) for node in strings if id(node) not in docstrings]


def test_no_message_names_a_file_of_the_repository() -> None:
    """Who installed the package does not have it."""
    named = {
        (module.name, text)
        for module in _PACKAGE.rglob("*.py")
        for text in _texts(module)
        # Not the part of an address.
        if re.search(r"(?<![\w/])(docs|tests|dags)/[\w/-]+\.\w+|\w\.md\b", text)
    }

    assert named == set()
