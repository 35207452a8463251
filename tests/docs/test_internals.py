from __future__ import annotations

import inspect
import re
from pathlib import Path

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_kafka_spark.submission import spark_submission

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "design.md"
_MEMBER = re.compile(r"\b_[a-z]\w+")


def test_the_page_names_the_members_of_the_spark_provider_that_are_used() -> None:
    """They are private: if one is gone, what overrides it has no effect, which no other test may notice."""
    named = set(_MEMBER.findall(_PAGE.read_text().partition("Members of `SparkSubmitHook`:")[2]))
    used = set(_MEMBER.findall(inspect.getsource(spark_submission)))
    existing = set(_MEMBER.findall(inspect.getsource(SparkSubmitHook)))

    assert named - existing == set()
    assert named == used & existing
