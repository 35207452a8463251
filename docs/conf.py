"""The site of the documentation, which ``make docs`` builds from the pages of this folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import sphinx.application

# The names of the package are imported: neither another Airflow's database nor its other settings are of interest.
for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
    del os.environ[name]
os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "client")

from airflow_provider_kafka_spark import __version__  # noqa: E402 - it reads the environment

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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
exclude_patterns = ["_build", "_static"]
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
        source[0] += "\n```{toctree}\n:hidden:\n\ngetting-started\nfaq\n```\n"
        for part in _PARTS:
            linked = re.findall(rf"\(({part}/[\w-]+)\.md\)", source[0])
            pages = "\n".join(dict.fromkeys(linked))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part.capitalize()}\n\n{pages}\n```\n"


#: The page of the search fetches each page that it has found, to show a piece of it. A browser refuses that where pages
#: were opened as files, so a script has all of them instead.
_FETCH = """\
const nameOf = (url) => String(url).split("#")[0].split("/").slice(-2).join("/");
window.fetch = (url) => Promise.resolve({ text: () => PAGES[nameOf(url)] });
"""


def _add_search(app: sphinx.application.Sphinx, page: str, *_: object) -> None:
    if page == "search":
        app.add_js_file("excerpts.js")


def _finish(app: sphinx.application.Sphinx, error: Exception | None) -> None:
    """Add the page that a web server shows first, and the pages for the search."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    shutil.copyfile(site / f"{root_doc}.html", site / "index.html")
    pages = {}
    for name in sorted(app.env.found_docs):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        body = text.partition("<article")[2].partition("</article>")[0]
        # As far as the search looks: the text, and the headings by their anchors.
        body = re.sub(r"<(script|svg)\b.*?</\1>", "", f"<article{body}</article>", flags=re.DOTALL)
        # A page at the root is asked for with the folder of the site before it.
        pages[f"{name}.html"] = pages[f"{site.name}/{name}.html"] = f'<div role="main">{body}</div>'
    text = json.dumps(pages).replace("</", "<\\/")
    (site / "_static" / "excerpts.js").write_text(f"const PAGES = {text};\n{_FETCH}", encoding="utf-8")


def setup(app: sphinx.application.Sphinx) -> None:
    app.connect("source-read", _add_navigation)
    app.connect("html-page-context", _add_search)
    app.connect("build-finished", _finish)
