"""The pages of the documentation: their links, their excerpts and their form."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).parents[2]
_DOCS = _CHECKOUT / "docs"
_PAGES = sorted([*_DOCS.rglob("*.md"), *(_CHECKOUT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))])
_EACH_PAGE = pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_CHECKOUT)))
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MAX_COLUMNS = 120


def _links(page: Path) -> list[str]:
    """The targets of a page's links, without those of examples."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return [target for pair in found for target in pair if target and "://" not in target]


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _is_in(source: str, excerpt: str) -> bool:
    """Whether it is there as it stands, at the margin or within one block."""
    return excerpt in source or textwrap.indent(excerpt, "    ") in source


@_EACH_PAGE
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)

    assert broken == []


@_EACH_PAGE
def test_every_path_of_the_documentation_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(docs/[\w./-]*)`", page.read_text())

    assert [path for path in named if not (_CHECKOUT / path).exists()] == []


def test_the_index_leads_to_every_page() -> None:
    index = _DOCS / "README.md"
    linked = {(_DOCS / link.partition("#")[0]).resolve() for link in _links(index)}

    assert sorted(set(_DOCS.rglob("*.md")) - linked - {index}) == []


@_EACH_PAGE
def test_every_excerpt_is_in_a_file_that_the_page_links_to(page: Path) -> None:
    """Code that a reader copies is code that a test runs: DAGs, examples of the tests, and the README's own DAG."""
    if page.name == "README.md":
        return
    files = [(page.parent / link).resolve() for link in _links(page) if link.endswith(".py")]
    sources = "\n".join(file.read_text() for file in [*files, _CHECKOUT / "README.md"])
    excerpts = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)

    assert [excerpt for excerpt in excerpts if not _is_in(sources, excerpt)] == []


@_EACH_PAGE
def test_no_line_is_too_long(page: Path) -> None:
    """A row of a table cannot be broken."""
    lines = enumerate(page.read_text().splitlines(), 1)

    assert [number for number, line in lines if len(line) > _MAX_COLUMNS and not line.startswith("|")] == []
