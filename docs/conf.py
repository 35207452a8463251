"""The site of the documentation, which ``make docs`` builds from the pages of this folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

import sphinx.application

os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "client")

from airflow_provider_kafka_spark import __version__

_DOCS = Path(__file__).parent
_FOLDER_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]*)(?:#[^)]*)?\)")
#: The folders that make the navigation, in its order.
_PARTS = ("how-to", "reference", "explanation")

project = "Kafka to Kafka on Spark for Airflow"
author = "The authors of airflow-provider-kafka-spark"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
html_theme = "furo"
html_title = f"{project} {__version__}"
html_show_copyright = False
exclude_patterns = ["_build"]
# A link to a heading that is not there is an error.
myst_heading_anchors = 4
# The generated page of errors is a tree.
suppress_warnings = ["myst.header"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": "template_fields"}


def _is_shipped(target: Path) -> bool:
    """Whether the site has the target of a link."""
    return _DOCS in target.resolve().parents or (target.is_file() and target.suffix != ".md")


def _add_navigation(_: sphinx.application.Sphinx, page: str, source: list[str]) -> None:
    """The tree of pages follows the index. Of links out of this folder only those to files that are no pages stay."""
    source[0] = _FOLDER_LINK.sub(
        lambda link: link[0] if _is_shipped((_DOCS / page).parent / link[2]) else link[1], source[0]
    )
    if page == root_doc:
        source[0] += "\n```{toctree}\n:hidden:\n\ngetting-started\n```\n"
        for part in _PARTS:
            linked = re.findall(rf"\(({part}/[\w-]+)\.md\)", source[0])
            pages = "\n".join(dict.fromkeys(linked))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part.capitalize()}\n\n{pages}\n```\n"


def setup(app: sphinx.application.Sphinx) -> None:
    app.connect("source-read", _add_navigation)
