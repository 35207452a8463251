"""Promises of :mod:`airflow_provider_kafka_spark.core.runs.run_identity`: what a run is found by at the brokers."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.runs.run_identity import instance_id, item_text, owner_group

_RUN = {
    "deployment": "production",
    "dag_id": "dag",
    "dag_run_id": "run",
    "task_id": "task",
    "item": "",
    "called_id": "",
}


@pytest.mark.parametrize("part", _RUN)
def test_each_part_makes_another_run(part: str) -> None:
    """Two deployments have the same names, a DAG has many runs, a list many items."""
    assert instance_id(**_RUN) == instance_id(**_RUN)
    assert owner_group(instance_id(**_RUN)) != owner_group(instance_id(**{**_RUN, part: "another"}))


def test_parts_do_not_run_into_each_other() -> None:
    assert instance_id("a", "b", "c", "d") != instance_id("ab", "", "c", "d")


def test_an_item_is_its_content() -> None:
    """In whatever order a mapping has it. A long one is shown in part, and differs from another with the same start."""
    ranges = [f"orders:0:{i}:{i + 1}" for i in range(1_000)]

    assert item_text({"a": 1, "b": [2]}) == item_text({"b": [2], "a": 1}) != item_text({"a": 1, "b": [3]})
    assert item_text({"offset_ranges": ranges}) != item_text({"offset_ranges": ranges[:-1]})
    assert len(item_text({"offset_ranges": ranges})) < 250
