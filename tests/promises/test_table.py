"""The table of promises is whole: whatever promises something has tests that are there, and run in the short rings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors.catalogue import all_errors
from airflow_provider_kafka_spark.provider_info import get_provider_info
from airflow_provider_kafka_spark.submission import deployment
from airflow_provider_kafka_spark.submission.deployment import Deployment
from tests.promises.table import (
    CLASSES,
    ERRORS,
    FAMILIES,
    GUARANTEES,
    MASTERS,
    NO_PROMISE,
    PROMISES,
    QUICK,
    SECURITY,
    SPARKS,
    Promise,
)
from tests.rings import LONG, LONG_RING, QUICK_RING, SERVICES, WHOLE_RING, has_only_slow_tests, ring_of
from tests.services.other_spark import OTHER_SPARKS

_CHECKOUT = Path(__file__).parents[2]
_ROWS = (*PROMISES, *CLASSES, *MASTERS, *SPARKS, *ERRORS)


@cache
def _rings(file: str) -> Mapping[str, str]:
    """The ring of each test of a file, by the test's name without parameters."""
    path = _CHECKOUT / file
    return _rings_of(path.read_text(), file) if path.exists() else {}


def _rings_of(source: str, file: str) -> Mapping[str, str]:
    body = ast.parse(source).body
    #: Also such as ``needs_spark = pytest.mark.spark``.
    named: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.Assign):
            named |= {target.id: _marks(node.value, named) for target in node.targets if isinstance(target, ast.Name)}
    of_module = named.get("pytestmark", set())
    return {
        f"{file}::{node.name}": ring_of(of_module.union(*(_marks(mark, named) for mark in node.decorator_list)))
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _ring(test: str) -> str | None:
    return _rings(test.partition("::")[0]).get(test)


def _marks(node: ast.expr, named: Mapping[str, set[str]]) -> set[str]:
    """Those markers of the rings that it names; not those of single rows of a table."""
    if isinstance(node, ast.Call) and "parametrize" in ast.unparse(node.func):
        return set()
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    markers = set(re.findall(r"\bmark\.(\w+)", ast.unparse(node))).intersection((*SERVICES, *LONG))
    return markers.union(*(named.get(name, set()) for name in names))


def _function(test: str) -> str:
    return test.rpartition("::")[2]


def test_every_test_is_there() -> None:
    unknown = {test for row in _ROWS for test in row.tests if _ring(test) is None}
    files = (_CHECKOUT / "tests").rglob("test_*.py") if unknown else ()
    known = [test for file in files for test in _rings(str(file.relative_to(_CHECKOUT)))]
    lines = []
    for test in sorted(unknown):
        close = get_close_matches(_function(test), {_function(like) for like in known}, n=3)
        lines.append(f"{test} is no test; like it: {[like for like in known if _function(like) in close]}")
    assert not lines, "\n".join(lines)


def test_a_promise_is_proved_in_the_short_rings() -> None:
    """No test of the long ring counts, and one of the quick ring only with a reason."""
    lines = []
    for row in _ROWS:
        rings = [_ring(test) or WHOLE_RING for test in row.tests]
        if LONG_RING in rings:
            lines.append(f"{row.text}: only the long ring runs {row.tests[rings.index(LONG_RING)]}")
        if (WHOLE_RING in rings) == (row.quick in QUICK):
            lines.append(f"{row.text}: either a test of the whole ring, or a reason why the quick one is enough")
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("module", "decorator", "ring", "is_left_out"),
    [
        ("", "", QUICK_RING, False),
        ("pytestmark = pytest.mark.timeout(1)", "", QUICK_RING, False),
        ("pytestmark = pytest.mark.broker", "", WHOLE_RING, True),
        ("pytestmark = [pytest.mark.broker, pytest.mark.long]", "", LONG_RING, True),
        ("pytestmark = pytest.mark.broker", "@pytest.mark.fault", LONG_RING, True),
        ("", "@pytest.mark.broker", WHOLE_RING, False),
        ("needs = pytest.mark.spark\npytestmark = [needs]", "", WHOLE_RING, False),
        ("", "@pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.long)])", QUICK_RING, False),
    ],
)
def test_rings_are_read_as_pytest_does(module: str, decorator: str, ring: str, *, is_left_out: bool) -> None:
    """Of a table of which some rows are long, the others prove. Of modules that the quick ring does not even import, it
    may have no test.
    """
    source = f"{module}\n{decorator}\ndef test_it(a): ..."

    assert _rings_of(source, "file") == {"file::test_it": ring}
    assert has_only_slow_tests(source) is is_left_out


# --- Nothing is left out


def _units(page: str) -> Iterator[tuple[str, str]]:
    """Each paragraph, bullet and row of a table, on one line, with its heading."""
    text = re.sub(r"^```.*?^```$", "", (_CHECKOUT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    heading = ""
    for block in re.split(r"\n\s*\n|\n(?=[-|#])", text):
        unit = " ".join(block.split())
        if unit.startswith("#"):
            heading = unit.lstrip("# ")
        elif unit and not re.fullmatch(r"\|[ |-]*\|", unit) and not re.match(r"\[[^\]]+\]: ", unit):
            yield heading, unit


def _header_rows(page: str) -> set[str]:
    """The first rows of tables."""
    found = re.findall(r"^(\|.*\|)\n\|[ |-]*\|$", (_CHECKOUT / page).read_text(), flags=re.MULTILINE)
    return {" ".join(row.split()) for row in found}


@pytest.mark.parametrize("page", [GUARANTEES, SECURITY])
def test_every_text_is_in_one_place_of_its_page(page: str) -> None:
    texts = [promise.text for promise in PROMISES if promise.page == page]
    headings = {heading for heading, _ in _units(page)}
    texts += [text for text in NO_PROMISE[page] if text not in headings]
    assert {text: count for text in texts if (count := sum(text in unit for _, unit in _units(page))) != 1} == {}
    assert len(texts) == len(set(texts))


def test_every_sentence_of_the_guarantees_has_its_place() -> None:
    """A new paragraph, bullet or row of the page needs a row of the table, or a reason."""
    units = [(heading, unit) for heading, unit in _units(GUARANTEES) if unit not in _header_rows(GUARANTEES)]
    texts = [promise.text for promise in PROMISES if promise.page == GUARANTEES]
    reasons = NO_PROMISE[GUARANTEES]
    left_out = [
        unit
        for heading, unit in units
        if heading not in reasons and not any(text in unit for text in (*texts, *reasons))
    ]
    assert left_out == []
    assert len(units) > 100


def test_every_section_of_the_page_of_security_has_its_place() -> None:
    """It also has advice, and says where secrets are; whatever it promises is in its sections."""
    texts = [promise.text for promise in PROMISES if promise.page == SECURITY]
    promising = {heading for heading, unit in _units(SECURITY) if any(text in unit for text in texts)}
    assert {heading for heading, _ in _units(SECURITY)} - promising - set(NO_PROMISE[SECURITY]) == set()


def _texts(rows: Sequence[Promise]) -> set[str]:
    """What has a row; each has one."""
    texts = {row.text for row in rows}
    assert len(texts) == len(rows)
    return texts


def _public_classes() -> Iterator[type]:
    """Those that authors import: of the modules that the provider names, without the bases of others."""
    info = get_provider_info()
    for kind in ("operators", "sensors", "triggers", "hooks"):
        for name in (name for item in info[kind] for name in item["python-modules"]):
            for found in vars(importlib.import_module(name)).values():
                ending = kind.removesuffix("s").capitalize()
                if inspect.isclass(found) and found.__module__ == name and found.__name__.endswith(ending):
                    yield found


def _without_bases(classes: Iterable[type]) -> set[str]:
    found = {c for c in classes if not c.__name__.startswith("_")}
    return {c.__name__ for c in found - {base for c in found for base in c.__mro__[1:]}}


def test_every_operator_sensor_trigger_and_hook_has_its_row() -> None:
    assert _texts(CLASSES) == _without_bases(_public_classes())


def test_every_master_and_spark_has_its_row() -> None:
    """Each delivery in each layout is a case of ``test_deliveries.py``."""
    kinds = {found.prefix for found in vars(deployment).values() if isinstance(found, Deployment)}
    # Without a prefix it is any other master in client mode.
    assert _texts(MASTERS) == kinds - {""}
    assert _texts(SPARKS) == set(OTHER_SPARKS)


def test_every_error_has_its_row() -> None:
    """In which a test's file names it, so that a row of a table that goes takes its error along."""
    assert _texts(ERRORS) | set(FAMILIES) == {error.__name__ for error in all_errors()}
    files = {row.text: [_CHECKOUT / test.partition("::")[0] for test in row.tests] for row in ERRORS}
    named = {name for name, of in files.items() if any(file.exists() and name in file.read_text() for file in of)}
    assert _texts(ERRORS) - named == set()
