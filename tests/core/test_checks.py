"""Promises of :mod:`~airflow_provider_kafka_spark.core.checks`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from airflow_provider_kafka_spark.core.checks import (
    check_connection_id,
    check_group_id,
    check_integer,
    check_seconds,
    flag,
    is_read_committed,
    milliseconds,
    optional_integer,
    whole_number,
)
from airflow_provider_kafka_spark.core.errors import InvalidInputError, OptionError

_NO_SECONDS = [0, -1, True, "0", "five", "1e3", "9" * 5000, None, float("nan"), float("inf"), timedelta(1)]
_POSITIVE = partial(check_integer, minimum=1)
_POSITIVE_OR_DIGITS = partial(whole_number, minimum=1)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        pytest.param(check_connection_id, "kafka_default", None, id="connection"),
        pytest.param(check_seconds, 0.5, 0.5, id="seconds"),
        *(pytest.param(flag, value, True, id=f"flag-{value!r}") for value in (True, "true", " Yes ", "1", 1)),
        *(pytest.param(flag, value, False, id=f"flag-{value!r}") for value in (False, "FALSE", "no", "0", 0)),
        pytest.param(optional_integer, "", None, id="no-integer"),
        pytest.param(optional_integer, "7", 7, id="integer-text"),
        pytest.param(milliseconds, 2.5, 2500, id="milliseconds"),
        pytest.param(milliseconds, timedelta(minutes=1), 60_000, id="milliseconds-timedelta"),
        pytest.param(_POSITIVE, 1, 1, id="integer"),
        pytest.param(_POSITIVE_OR_DIGITS, " 7 ", 7, id="digits"),
        pytest.param(check_group_id, " copy ", "copy", id="group"),
    ],
)
def test_takes(check: Callable[[object, str], object], value: object, expected: object) -> None:
    assert check(value, "it") == expected


@pytest.mark.parametrize(
    ("check", "error", "values"),
    [
        pytest.param(check_connection_id, InvalidInputError, ["", " ", None, 1], id="connection"),
        pytest.param(check_seconds, OptionError, _NO_SECONDS, id="seconds"),
        pytest.param(milliseconds, OptionError, [0, -1, True, "0", "five", None, float("inf")], id="milliseconds"),
        pytest.param(flag, OptionError, ["", "maybe", None, 2, 1.0, [], "2"], id="flag"),
        pytest.param(optional_integer, OptionError, ["0", "1.5", True, "9" * 5000, 0], id="optional-integer"),
        pytest.param(_POSITIVE, OptionError, [0, 1.0, True, "1", None], id="integer"),
        pytest.param(_POSITIVE_OR_DIGITS, OptionError, ["0", "1.5", True, None], id="digits"),
        pytest.param(check_group_id, InvalidInputError, ["", " ", None, 1], id="group"),
    ],
)
def test_refuses(check: Callable[[object, str], object], error: type[Exception], values: list[object]) -> None:
    for value in values:
        with pytest.raises(error, match=r"^it must be .*; got "):
            check(value, "it")


def test_there_are_two_isolation_levels() -> None:
    assert is_read_committed("read_committed")
    assert not is_read_committed("read_uncommitted")
    for value in ("committed", None, True):
        with pytest.raises(OptionError, match="isolation_level must be 'read_committed' or 'read_uncommitted'; got"):
            is_read_committed(value)
