"""The reference lists, in addition to parameters: keys of results, options, configuration."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.audit_result import result_of_nothing
from airflow_provider_kafka_spark.core.bounds import TimeWindow
from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.core.evidence import CopyEvidence
from airflow_provider_kafka_spark.core.offset_range import OffsetRanges
from airflow_provider_kafka_spark.core.options import check_sink_options, check_source_options
from airflow_provider_kafka_spark.core.past_copy import PastCopy
from airflow_provider_kafka_spark.core.plan import ReplayPlan, Target
from airflow_provider_kafka_spark.core.protocol import Transform
from airflow_provider_kafka_spark.core.verification import result_of_empty_plan, result_of_plan
from airflow_provider_kafka_spark.provider_info import get_provider_info
from airflow_provider_kafka_spark.toolchain.settings import (
    ALLOW_CLIENT_CLASSES,
    CACHE_FOLDER,
    CLASS_ARCHIVE,
    DEPLOYMENT,
    HTTP_HOSTS,
    MAVEN_REPOSITORY,
    TOKEN_ENDPOINT_HOSTS,
)

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_PLAN = ReplayPlan("a", "b", Target("copy"), OffsetRanges([]))


def _first_cells(page: str, heading: str) -> list[str]:
    """What the first column of the table below a heading has in backticks."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", (_REFERENCE / page).read_text(), re.M | re.S)
    assert found
    rows = [line.split("|")[1] for line in found[1].splitlines() if line.startswith("| `")]
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


def test_the_keys_of_a_result() -> None:
    plan = replace(_PLAN, window=TimeWindow(0, None))
    assert set(_first_cells("results.md", "Copying operators")) == {*result_of_empty_plan(plan, "r"), "evidence"}


def test_the_keys_of_an_audit() -> None:
    past = PastCopy(("r",), OffsetRanges([]), {}, CopyEvidence(Transform(topic="copy")))
    assert set(_first_cells("results.md", "`AuditReplayOperator`")) == set(result_of_nothing(past))


def test_the_keys_of_a_plan() -> None:
    assert set(_first_cells("results.md", "`plan_only=True`")) == set(
        result_of_plan(_PLAN, "r", Transform(topic="copy"))
    )


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


def test_the_options_of_airflows_configuration_and_their_earlier_names() -> None:
    (section,) = get_provider_info()["config"].values()
    settings = (
        CACHE_FOLDER,
        MAVEN_REPOSITORY,
        HTTP_HOSTS,
        CLASS_ARCHIVE,
        ALLOW_CLIENT_CLASSES,
        DEPLOYMENT,
        TOKEN_ENDPOINT_HOSTS,
    )

    listed = _first_cells("configuration.md", "Section `[kafka_spark]`")
    assert listed == [*section["options"], *(s.earlier_variable for s in settings if s.earlier_variable)]
    assert [setting.option for setting in settings] == list(section["options"])
