"""``schema_id_map``: one plain form, of ids that the wire format can have."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.records.schema_ids import check_schema_id_map


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (None, {}),
        ({}, {}),
        ({3: 17, 1: 2}, {"values": {"1": 2, "3": 17}}),
        ({"values": {"3": 17}, "keys": {5: 9}}, {"keys": {"5": 9}, "values": {"3": 17}}),
        ({0: 2**31 - 1}, {"values": {"0": 2**31 - 1}}),
    ],
)
def test_forms(given: Any, plain: Any) -> None:
    assert check_schema_id_map(given) == plain
    assert check_schema_id_map(plain) == plain


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([3], "must map ids"),
        ({"x": 1}, "An id of values"),
        ({3: True}, "id 3"),
        ({3: 2**31}, "at most 2,147,483,647"),
        ({"keys": {}}, "1 to 10,000 ids of keys"),
        ({"keys": {1: 2}, 3: 4}, "An id of values"),
    ],
)
def test_bad_maps(given: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        check_schema_id_map(given)
