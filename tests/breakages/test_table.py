"""The table of breakages fits the code and the tests as they are now."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.breakages.table import BREAKAGES, Breakage
from tests.rings import LONG

_CHECKOUT = Path(__file__).parents[2]
_PACKAGE = "airflow_provider_kafka_spark"
#: Marks of tests that `make test` does not run, or that take minutes.
_NOT_FOR_THIS = {*LONG, "kubernetes"}
#: Where a breakage has to be: every folder with code that runs, and the modules beside them.
_FOLDERS = {
    *("core", "clients", "hooks", "jobs", "operators", "sensors", "triggers", "state", "submission", "toolchain"),
    *("links", "coverage_page", "testing", "coverage.py", "prepare.py", "connection_type.py", "failure.py"),
}


def test_they_are_many_of_different_names_and_drawn_over_all_folders() -> None:
    names = Counter(breakage.name for breakage in BREAKAGES)
    found = {Path(breakage.file).relative_to(_PACKAGE).parts[0] for breakage in BREAKAGES}

    assert len(names) == len(BREAKAGES) >= 40
    assert found >= _FOLDERS
    assert sum(breakage.file.endswith(".java") for breakage in BREAKAGES) >= 8


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.name)
def test_it_changes_one_place_of_its_file(breakage: Breakage) -> None:
    text = (_CHECKOUT / breakage.file).read_text()

    assert text.count(breakage.old) == 1
    assert breakage.new not in text or breakage.new in breakage.old
    assert text.replace(breakage.old, breakage.new) != text


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.name)
def test_its_tests_are_there_and_no_long_ones(breakage: Breakage) -> None:
    assert breakage.tests
    for test in breakage.tests:
        file, _, name = test.partition("::")
        function, of_module = _tests_of(file)[name.partition("[")[0]], _tests_of(file)[""]
        assert not (function | of_module) & _NOT_FOR_THIS


@cache
def _tests_of(file: str) -> dict[str, set[str]]:
    """The tests of a file with their marks, and those of the module with an empty name."""
    tree = ast.parse((_CHECKOUT / file).read_text())
    module = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["pytestmark"]
    ]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {"": _marks(module)} | {function.name: _marks(function.decorator_list) for function in functions}


def _marks(expressions: list[ast.expr]) -> set[str]:
    """``pytest.mark.NAME``, also within a list and with arguments. A case of a table may be long; it is not run."""
    return {
        node.attr
        for expression in expressions
        if not ast.unparse(expression).startswith("pytest.mark.parametrize(")
        for node in ast.walk(expression)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark"
    }
