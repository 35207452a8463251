"""The site that ``make docs`` builds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_DOCS = Path(__file__).parents[2] / "docs"
_COMMAND = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--builder", "html"]


@pytest.mark.long
@pytest.mark.airflow
def test_the_site_has_every_page_and_no_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    site = tmp_path / "site"
    # A shell may have the settings of another Airflow.
    of_another = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://nobody@127.0.0.1:1/none"}
    environment = {**os.environ, **of_another, "AIRFLOW_HOME": str(tmp_path / "airflow")}

    built = subprocess.run(
        [*_COMMAND, "--doctree-dir", str(tmp_path / "trees"), str(_DOCS), str(site)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert built.returncode == 0, built.stderr[-3000:]
    pages = {page.relative_to(_DOCS).with_suffix(".html") for page in _DOCS.rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()
    names = (site / "reference/api.html").read_text()
    assert 'id="airflow_provider_kafka_spark.operators.replay.ReplayOffsetRangesOperator"' in names
    assert (site / "searchindex.js").stat().st_size > 100_000
    assert (site / "index.html").read_text() == (site / "README.html").read_text()
    # For the search where pages are opened as files.
    assert '"how-to/audit-a-copy.html": "' in (site / "_static/excerpts.js").read_text()
    # It is read without a network.
    assert "https://cdn" not in (site / "README.html").read_text()
