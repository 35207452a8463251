"""Every example is a DAG that Airflow accepts, and documents what, why and prerequisites."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "dags"
FILES = sorted(FOLDER.glob("*.py"))


@pytest.mark.airflow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_airflow_imports_the_example_and_finds_the_dag_of_its_name(file: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(file)

    assert bag.import_errors == {}
    assert list(bag.dags) == [file.stem]
    assert bag.dags[file.stem].doc_md, "the UI shows the docstring"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_example_is_short_and_says_what_why_and_prerequisites(file: Path) -> None:
    text = file.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""

    for heading in ("What: ", "Why: ", "Prerequisites: "):
        assert heading in docstring
    # A form has a line or two for each of its fields.
    assert len(text.splitlines()) <= (80 if "Param(" in text else 40)


def test_there_are_examples() -> None:
    assert {"hourly_window_copy", "replay_offset_ranges"} <= {file.stem for file in FILES}
