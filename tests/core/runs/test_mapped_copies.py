"""Promises of :mod:`airflow_provider_kafka_spark.core.runs.mapped_copies`."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.runs.mapped_copies import MappedCopy, copies_in
from tests.core.offsets.test_segments import segment
from tests.core.topics.test_known_topics import cluster


@pytest.mark.parametrize("form", ["result", "event"])
def test_segments_of_a_topic_that_was_recreated_lead_nowhere(form: str) -> None:
    """Those of others stay. A result of an older version is taken, with a warning."""
    segments = (segment(0, 5, 7), segment(5, 2, 13))
    ids, clusters = {"orders": "id-1"}, {"source_cluster_id": "one", "target_cluster_id": "one"}
    said = {"segments": [s.to_dict() for s in segments], "source_topic_ids": ids}
    of_form = {"evidence": {"target_ids": {"copy": "id-2"}, **clusters}}
    given = {**said, **(of_form if form == "result" else {"target_topic_ids": {"copy": "id-2"}, **clusters})}
    (copy,), (older,) = copies_in(given, "of"), copies_in({"segments": given["segments"]}, "of")

    def left(source_id: str, target_id: str, of: MappedCopy = copy) -> tuple[int, list[str]]:
        source, target = cluster(orders=source_id), cluster(copy=target_id)
        found, warnings = of.still_there(source, target)
        return len(found), warnings

    assert left("id-1", "id-2") == (2, [])
    for source_id, target_id, was in (("id-9", "id-2", "id-1"), ("id-1", "id-9", "id-2")):
        number, (warning,) = left(source_id, target_id)
        assert number == 0
        assert f"left out, since the topic '{'orders' if was == 'id-1' else 'copy'}' has another id" in warning
        assert f"(then {was}, now id-9)" in warning
    number, warnings = left("id-1", "id-2", older)
    assert number == 2
    assert ["not checked whether 'orders'" in w or "not checked whether 'copy'" in w for w in warnings] == [True, True]


@pytest.mark.parametrize("others", [{"source_topic_ids": 3}, {"evidence": "x"}, {"evidence": {"target_ids": [1]}}])
def test_refuses_ids_that_cannot_be_right(others: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="of a result in of must be an object"):
        copies_in({"segments": [segment(0, 5, 7).to_dict()], **others}, "of")
