from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.wire.writer_classes import marker, sources_digest

_SOURCES = {"a/A.java": "class A {}", "a/B.java": "class B {}"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"a/A.java": "class A {}", "b/B.java": "class B {}"}, id="path"),
        pytest.param({"a/A.java": "class A {}a/B.java", "": "class B {}"}, id="shifted"),
    ],
)
def test_other_sources_have_another_digest(other: dict[str, str]) -> None:
    """So classes of other sources are compiled anew."""
    assert sources_digest(other) != sources_digest(_SOURCES)
    assert marker(other) != marker(_SOURCES)


def test_the_order_of_files_does_not_matter() -> None:
    assert sources_digest(dict(reversed(_SOURCES.items()))) == sources_digest(_SOURCES)
