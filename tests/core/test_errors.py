from __future__ import annotations

import inspect
import re

import pytest

from airflow_provider_kafka_spark.core import errors
from airflow_provider_kafka_spark.core.errors import DeliveryError, JobFailedError, KafkaSparkError, error_named

_CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == errors.__name__
]


def _drawn_tree() -> dict[str, tuple[str | None, bool]]:
    """Name -> (parent, retriable), as the module's docstring draws it."""
    drawn: dict[str, tuple[str | None, bool]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+Error)\b", line)
        if found is None:
            continue
        depth = len(found["branch"]) // 4
        above[depth:] = [found["name"]]
        drawn[found["name"]] = (above[depth - 1] if depth else None, line.endswith("(retriable)"))
    return drawn


def test_the_drawn_tree_is_the_real_one() -> None:
    real = {c.__name__: (c.__base__.__name__ if c is not KafkaSparkError else None, c.retriable) for c in _CLASSES}

    assert _drawn_tree() == real


@pytest.mark.parametrize("error", _CLASSES, ids=lambda c: c.__name__)
def test_every_error_says_what_it_means(error: type[KafkaSparkError]) -> None:
    assert error.__doc__
    assert error.__doc__ != (error.__base__.__doc__ if error.__base__ else None)
    assert error_named(error.__name__, JobFailedError) is error


@pytest.mark.parametrize("name", ["NoSuchError", "", "ClassVar", "error_named", "Exception", "__doc__"])
def test_an_unknown_name_is_the_default(name: str) -> None:
    """A report cannot make the worker raise anything that is not in the tree."""
    assert error_named(name, DeliveryError) is DeliveryError
