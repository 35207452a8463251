"""Promises of :mod:`airflow_provider_kafka_spark.operators.lineage`: what OpenLineage is given of a copy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from airflow.providers.common.compat.openlineage.facet import OutputStatisticsOutputDatasetFacet

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.operators.lineage import check_transport, lineage_of
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator

ENTRY: dict[str, Any] = {
    "version": 1,
    "state": "complete",
    "run_id": "51cde4972c7656f2",
    "offset_ranges": ["orders:0:100:200", "orders:1:0:5", "returns:0:0:1"],
    "records_written": 97,
    "target_topics": ["orders_copy"],
    "target_ranges": [{"topic": "orders_copy", "partition": 0, "from_offset": 0, "until_offset": 98}],
    "source": "broker-1:9092",
    "target": "broker-2:9092",
}


def subset(condition: Any) -> list[tuple[str, dict[str, int]]]:
    assert condition.type == "partition"
    return [(p.identifier, p.dimensions) for p in condition.partitions]


def test_topics_ranges_and_records() -> None:
    lineage = lineage_of(ENTRY)
    assert lineage is not None
    assert [(d.namespace, d.name) for d in lineage.inputs] == [
        ("kafka://broker-1:9092", "orders"),
        ("kafka://broker-1:9092", "returns"),
    ]
    assert subset(lineage.inputs[0].inputFacets["subset"].inputCondition) == [
        ("orders:0:100:200", {"partition": 0, "from_offset": 100, "until_offset": 200}),
        ("orders:1:0:5", {"partition": 1, "from_offset": 0, "until_offset": 5}),
    ]
    (output,) = lineage.outputs
    assert (output.namespace, output.name) == ("kafka://broker-2:9092", "orders_copy")
    assert output.outputFacets["outputStatistics"] == OutputStatisticsOutputDatasetFacet(rowCount=97)
    assert [text for text, _ in subset(output.outputFacets["subset"].outputCondition)] == ["orders_copy:0:0:98"]


def test_a_failed_run_has_what_it_has_committed_and_no_count() -> None:
    lineage = lineage_of(
        {**ENTRY, "state": "partial", "offset_ranges": ["orders:0:100:150"], "target_ranges": []}
        | {"planned_ranges": ["orders:0:100:200", "returns:0:0:1"], "records_written": 0}
    )
    assert lineage is not None
    assert [subset(d.inputFacets["subset"].inputCondition) for d in lineage.inputs] == [
        [("orders:0:100:150", {"partition": 0, "from_offset": 100, "until_offset": 150})],
        [],
    ]
    assert lineage.outputs[0].outputFacets == {}


def test_the_provider_finds_it_at_the_operator() -> None:
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    operator = ReplayOffsetRangesOperator(task_id="replay", offset_ranges=["orders:0:100:200"], target_topic="copy")
    extractor = DefaultExtractor(operator)
    assert extractor.extract() is None
    operator._note_lineage(ENTRY)  # noqa: SLF001 - what a run does
    for found in (extractor.extract_on_complete(None), extractor.extract_on_failure(None)):
        assert found is not None
        assert [d.name for d in found.outputs] == ["orders_copy"]


@pytest.mark.parametrize("name", ["auth.apiKey", "auth.type", "headers.X-Token", "transports.main.auth.apiKey"])
def test_a_transport_with_a_login_is_refused(name: str) -> None:
    given = {"spark.openlineage.transport.auth.apiKey": "the author's own"}
    harmless = {"spark.openlineage.transport.type": "http", "spark.openlineage.transport.url": "http://lineage:5000"}
    check_transport(given, {**given, **harmless})
    with pytest.raises(OptionError, match=r"openlineage_inject_transport_info must bring no login"):
        check_transport({}, {**harmless, f"spark.openlineage.transport.{name}": "k"})


@pytest.mark.process
def test_nothing_is_imported_without_the_provider() -> None:
    program = (
        "import sys\n"
        "hidden = ('openlineage', 'airflow.providers.openlineage.extractors', 'airflow.providers.openlineage.utils')\n"
        "sys.modules.update(dict.fromkeys(hidden))\n"
        "from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator\n"
        "o = ReplayOffsetRangesOperator(task_id='t', offset_ranges=['a:0:0:1'], target_topic='b')\n"
        "o._note_lineage({})\n"
        "assert o._with_lineage({}, {}) == {}\n"
        "print(sorted(n for n, m in sys.modules.items() if m and n.startswith('openlineage')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
