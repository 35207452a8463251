from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import InvalidInputError
from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection, principal


@pytest.mark.parametrize(
    ("owner", "ids"), [("", None), (7, None), (None, []), (None, [1]), (None, {"a": 1}), (None, "")]
)
def test_selections_that_cannot_be_right(owner: object, ids: object) -> None:
    with pytest.raises(InvalidInputError):
        TokenSelection.parse(owner, ids)


def test_principals_have_their_type() -> None:
    assert (principal("alice"), principal("User:alice")) == ("User:alice", "User:alice")
