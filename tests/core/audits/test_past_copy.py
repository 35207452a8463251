"""What an audit takes of results: one, or several together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.audits.past_copy import parse_results
from airflow_provider_kafka_spark.core.errors import AuditInputError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRange, OffsetRanges
from airflow_provider_kafka_spark.core.offsets.segments import Segment
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import Transform


def result(
    ranges: list[str], run: str = "a", records: int | None = None, written: int | None = None, **changes: Any
) -> dict[str, Any]:
    transform = changes.pop("transform", {})
    evidence = {
        "transform": Transform(topic="copy", **transform),
        "target_ends": {"copy": {0: 7, 1: 9}},
        **changes.pop("evidence", {}),
    }
    parsed = OffsetRanges.parse(ranges)
    return {
        "version": 1,
        "run_id": run * 16,
        "ranges": [
            {
                **r.to_dict(),
                "records_read": r.size if records is None else records,
                "records_written": r.size if written is None else written,
            }
            for r in parsed
        ],
        "source_topic_ids": {"orders": "id"},
        "target_topics": ["copy"],
        "target_ranges": [OffsetRange.parse("copy:0:7:17").to_dict()],
        "evidence": CopyEvidence(**evidence).to_dict(),
        **changes,
    }


def test_one_result() -> None:
    """Empty ranges have nothing to audit."""
    past = parse_results(result(["orders:0:0:10", "orders:1:5:5"]))

    assert past.run_ids == ("a" * 16,)
    assert past.ranges.format() == ["orders:0:0:10"]
    assert (past.records, past.filtered) == ({OffsetRange("orders", 0, 0, 10): 10}, {})
    assert parse_results(result(["orders:0:0:10"], written=7)).filtered == {OffsetRange("orders", 0, 0, 10): 3}
    assert past.target_ranges.format() == ["copy:0:7:17"]
    assert past.compares
    assert not past.is_empty
    assert parse_results(json.dumps(result(["orders:0:0:10"]))) == parse_results([result(["orders:0:0:10"])])


def test_a_run_without_records_is_empty() -> None:
    for given in (result([]), result(["orders:0:5:5"]), result(["orders:0:0:10"], records=0)):
        assert parse_results(given).is_empty


def test_a_stream_with_batches_of_earlier_tries() -> None:
    """They have no counts; where they wrote is given, or unknown."""
    stream = {"finished_before": ["orders:0:0:4"], "written_before": [OffsetRange.parse("copy:0:2:9").to_dict()]}
    past = parse_results(result(["orders:0:4:10"], **stream))
    unknown = parse_results(result(["orders:0:4:10"], **{**stream, "written_before": []}))

    assert past.ranges.format() == ["orders:0:0:4", "orders:0:4:10"]
    assert list(past.records) == [OffsetRange("orders", 0, 4, 10)]
    assert past.target_ranges.format() == ["copy:0:2:17"]
    assert (past.has_unknown_places, unknown.has_unknown_places) == (False, True)


def test_a_batch_that_an_earlier_generation_of_the_stream_had_begun() -> None:
    """Its records have the id of that generation."""
    past = parse_results(result(["orders:0:0:10"], evidence={"also_run_ids": ("f" * 16,)}))

    assert past.run_ids == ("a" * 16, "f" * 16)
    with pytest.raises(AuditInputError, match="16 hexadecimal digits"):
        parse_results(result(["orders:0:0:10"], evidence={"also_run_ids": ("' or '",)}))


def mapped(source: str, target_offset: int) -> dict[str, Any]:
    r = OffsetRange.parse(source)
    return Segment(r, OffsetRange("copy", r.partition, target_offset, target_offset + r.size)).to_dict()


def test_segments() -> None:
    """What earlier tries had finished without a word of its records is not audited: nothing tells where they are.

    Of the rest, what no segment has is audited too: it may be missing.
    """
    past = parse_results(
        result(
            ["orders:0:10:20"],
            transform={"provenance": "segments"},
            records_written=10,
            segments=[mapped("orders:0:7:20", 100)],
            finished_before=["orders:0:0:10"],
            mapped_before=["orders:0:5:10"],
        )
    )

    assert past.segments == (Segment(OffsetRange("orders", 0, 7, 20), OffsetRange("copy", 0, 100, 113)),)
    assert past.ranges.format() == ["orders:0:5:10", "orders:0:10:20"]
    assert past.unmapped.format() == ["orders:0:0:5"]
    assert not past.has_headers
    assert not past.has_unknown_places


def test_segments_to_another_topic_are_of_another_copy() -> None:
    segment = {**mapped("orders:0:0:10", 0), "target_topic": "elsewhere"}
    with pytest.raises(AuditInputError, match="must lead to its target_topics"):
        parse_results(
            result(["orders:0:0:10"], transform={"provenance": "segments"}, records_written=10, segments=[segment])
        )


def test_several_results_are_one_audit() -> None:
    """What two of them have read counts once; what is compared, all of them have kept."""
    repair = result(
        ["orders:0:3:5", "orders:0:10:12"],
        "b",
        transform={"preserve_timestamps": False},
        evidence={"target_ends": {"copy": {0: 17, 1: 4}}},
        target_ranges=[OffsetRange.parse("copy:0:20:24").to_dict(), OffsetRange.parse("copy:1:9:10").to_dict()],
    )
    past = parse_results([result(["orders:0:0:10"]), repair])

    assert past.run_ids == ("a" * 16, "b" * 16)
    assert past.ranges.format() == ["orders:0:0:10", "orders:0:10:12"]
    assert past.target_ranges.format() == ["copy:0:7:24", "copy:1:9:10"]
    assert past.evidence.target_ends == {"copy": {0: 7, 1: 4}}
    assert not past.evidence.transform.preserve_timestamps
    assert past.evidence.transform.include_headers


def test_what_one_of_them_may_have_doubled_all_may_have() -> None:
    results = [result(["orders:0:0:10"], evidence={"may_have_duplicates": True}), result(["orders:0:10:20"], "b")]

    for given in (results, results[::-1]):
        assert parse_results(given).evidence.may_have_duplicates
    assert not parse_results(results[1]).evidence.may_have_duplicates


def test_a_part_of_a_later_range_has_no_count() -> None:
    past = parse_results([result(["orders:0:0:10"]), result(["orders:0:5:15"], "b")])

    assert past.ranges.format() == ["orders:0:0:10", "orders:0:10:15"]
    assert list(past.records) == [OffsetRange("orders", 0, 0, 10)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"transform": {"where": "offset > 3"}}, "the same filters", id="where"),
        pytest.param({"evidence": {"source_cluster_id": "two"}}, "the same source cluster", id="source-cluster"),
        pytest.param({"evidence": {"target_cluster_id": "two"}}, "the same target cluster", id="target-cluster"),
        pytest.param({"source_topic_ids": {"orders": "other"}}, "the same source topic 'orders'", id="source-topic"),
        pytest.param({"evidence": {"target_ids": {"copy": "o"}}}, "the same target topic 'copy'", id="target-topic"),
    ],
)
def test_results_of_different_copies(changes: dict[str, Any], says: str) -> None:
    ids = {"source_cluster_id": "one", "target_cluster_id": "one", "target_ids": {"copy": "t"}}
    first = result(["orders:0:0:10"], evidence=ids)
    with pytest.raises(AuditInputError, match=says):
        parse_results([first, result(["orders:1:0:10"], "b", **changes)])


def test_a_repair_may_have_another_where() -> None:
    """What it read, the first one had selected."""
    first = result(["orders:0:0:10"], transform={"where": "offset > 3"})

    assert parse_results([first, result(["orders:0:5:6"], "b")]).evidence.transform.where == "offset > 3"


def test_columns_of_any_of_them_change_payloads() -> None:
    changed = result(["orders:0:0:1"], "b", transform={"columns": {"value": "null"}})

    assert not parse_results(changed).compares
    assert not parse_results([result(["orders:0:0:10"]), changed]).compares
