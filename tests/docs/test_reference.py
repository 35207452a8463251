"""The pages list, in addition to parameters: keys of results, options, configuration, errors, and members of others."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_kafka_spark.core.audits.audit_result import result_of_nothing
from airflow_provider_kafka_spark.core.audits.past_copy import PastCopy
from airflow_provider_kafka_spark.core.copies.plan import ReplayPlan
from airflow_provider_kafka_spark.core.copies.target import Target
from airflow_provider_kafka_spark.core.copies.verification import result_of_empty_plan, result_of_plan
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.offsets.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.spark.options import check_sink_options, check_source_options
from airflow_provider_kafka_spark.core.topics.bounds import TimeWindow
from airflow_provider_kafka_spark.core.wire.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.wire.protocol import Transform
from airflow_provider_kafka_spark.provider_info import get_provider_info
from airflow_provider_kafka_spark.submission import spark_submission

_CHECKOUT = Path(__file__).parents[2]
_REFERENCE = _CHECKOUT / "docs" / "reference"
_MEMBER = re.compile(r"\b_[a-z]\w+")
_PLAN = ReplayPlan("a", "b", Target("copy"), OffsetRanges([]))


def _first_cells(page: str, heading: str) -> list[str]:
    """What the first column of the table below a heading has in backticks."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", (_REFERENCE / page).read_text(), re.M | re.S)
    assert found
    rows = [line.split("|")[1] for line in found[1].splitlines() if line.startswith("| `")]
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


def test_the_keys_of_results() -> None:
    """Of a copy, of an audit and of a plan."""
    plan = replace(_PLAN, window=TimeWindow(0, None))
    past = PastCopy(("r",), OffsetRanges([]), {}, CopyEvidence(Transform(topic="copy")))
    keys = {
        "Copying operators": {*result_of_empty_plan(plan, "r"), "evidence"},
        "`AuditReplayOperator`": set(result_of_nothing(past)),
        "`plan_only=True`": set(result_of_plan(_PLAN, "r", Transform(topic="copy"))),
    }

    assert {heading: set(_first_cells("results.md", heading)) for heading in keys} == keys


@pytest.mark.parametrize("option", _first_cells("options.md", "Refused source options"))
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
def test_a_source_option_that_is_listed_as_refused_is_refused(option: str, stream: bool) -> None:
    with pytest.raises(OptionError, match="must not set"):
        check_source_options({option.replace("*", "mechanism"): "1"}, stream=stream)


@pytest.mark.parametrize("option", _first_cells("options.md", "Refused sink options"))
def test_a_sink_option_that_is_listed_as_refused_is_refused(option: str) -> None:
    with pytest.raises(OptionError, match="must not set"):
        check_sink_options({option.replace("*", "mechanism"): "1"})


@pytest.mark.parametrize(
    "option", [o for o in _first_cells("options.md", "Permitted options") if "<" not in o] + ["kafka.client.id"]
)
def test_a_source_option_that_is_listed_as_permitted_is_permitted(option: str) -> None:
    assert check_source_options({option: "1"}) == {option: "1"}


def test_the_options_of_airflows_configuration() -> None:
    (section,) = get_provider_info()["config"].values()

    assert _first_cells("configuration.md", "Section `[kafka_spark]`") == list(section["options"])


def test_the_page_of_errors_is_up_to_date() -> None:
    """``make errors-page`` writes it."""
    command = [sys.executable, str(_CHECKOUT / ".ci" / "write_errors_page.py")]
    written = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=_CHECKOUT)

    assert written.stdout == (_CHECKOUT / "docs" / "reference" / "errors.md").read_text()


def test_the_page_names_the_members_of_the_spark_provider_that_are_used() -> None:
    """They are private: if one is gone, what overrides it has no effect, which no other test may notice."""
    named = set(
        _MEMBER.findall(
            (_CHECKOUT / "docs/reference/versions.md").read_text().partition("Members of `SparkSubmitHook`:")[2]
        )
    )
    used = set(_MEMBER.findall(inspect.getsource(spark_submission)))
    existing = set(_MEMBER.findall(inspect.getsource(SparkSubmitHook)))

    assert named - existing == set()
    assert named == used & existing
