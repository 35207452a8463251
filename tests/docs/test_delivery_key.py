"""The page on the run protocol names all that is in a delivery key."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from airflow_provider_kafka_spark.core.copies.identity import BatchForm
from airflow_provider_kafka_spark.core.wire.protocol import Transform

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "run-protocol.md"


def test_the_page_has_all_parts_of_the_key() -> None:
    """A field that is new in a copy's transformation is new in the key, with a reason."""
    section = _PAGE.read_text().split("## What is in the delivery key")[1].split("\n## ")[0]
    rows = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    of_streams = re.findall(r"`(\w+)`", section.split("A stream's key")[1])

    named = set(re.findall(r"`(\w+)`", rows))
    assert named - {"run_id", "delivery", "isolation_level", "fail_on_data_loss"} == {f.name for f in fields(Transform)}
    assert set(of_streams) == {f.name for f in fields(BatchForm)}
