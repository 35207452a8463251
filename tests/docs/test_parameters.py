"""The tables of parameters are those of the code: names, defaults, and which are templated."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.operators.audit import AuditReplayOperator
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.consumer_group import TranslateGroupOffsetsOperator
from airflow_provider_kafka_spark.operators.delegation_token import (
    ExpireDelegationTokensOperator,
    RenewDelegationTokensOperator,
)
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from airflow_provider_kafka_spark.operators.spark_job import SparkJobOperator
from airflow_provider_kafka_spark.sensors.delegation_token import DelegationTokenExpirySensor
from airflow_provider_kafka_spark.sensors.offsets import (
    ConsumerGroupLagSensor,
    KafkaNewRecordsSensor,
    KafkaTimestampReachedSensor,
)
from airflow_provider_kafka_spark.triggers.new_records import KafkaNewRecordsTrigger

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_ROW = re.compile(r"^\| `(\w+)`( \*t\*)? \| ([^|]+) \|", re.MULTILINE)
_OF_ALL_COPIES = ("Source and target", "Records", "Delivery", "Clients", "Spark")
_OF_TOKENS = ("`RenewDelegationTokensOperator`, `ExpireDelegationTokensOperator`",)
_OF_OFFSET_SENSORS = ("Parameters of all sensors on offsets",)
#: Class -> headings with tables of its parameters.
_OPERATORS: dict[type, tuple[str, ...]] = {
    KafkaToKafkaBatchOperator: (*_OF_ALL_COPIES, "`KafkaToKafkaBatchOperator`"),
    ReplayOffsetRangesOperator: (*_OF_ALL_COPIES, "`ReplayOffsetRangesOperator`"),
    KafkaToKafkaAvailableNowOperator: (*_OF_ALL_COPIES, "`KafkaToKafkaAvailableNowOperator`"),
    TranslateGroupOffsetsOperator: ("`TranslateGroupOffsetsOperator`",),
    AuditReplayOperator: ("Spark", "`AuditReplayOperator`"),
    RenewDelegationTokensOperator: _OF_TOKENS,
    ExpireDelegationTokensOperator: _OF_TOKENS,
}
_SENSORS: dict[type, tuple[str, ...]] = {
    KafkaNewRecordsSensor: (*_OF_OFFSET_SENSORS, "`KafkaNewRecordsSensor`"),
    KafkaTimestampReachedSensor: (*_OF_OFFSET_SENSORS, "`KafkaTimestampReachedSensor`"),
    ConsumerGroupLagSensor: (*_OF_OFFSET_SENSORS, "`ConsumerGroupLagSensor`"),
    DelegationTokenExpirySensor: ("`DelegationTokenExpirySensor`",),
    KafkaNewRecordsTrigger: ("`KafkaNewRecordsTrigger`",),
}
#: Of one of the two operators that share a table.
_NOT_OF = {RenewDelegationTokensOperator: "expire_in", ExpireDelegationTokensOperator: "renew_for"}


def _section(page: Path, heading: str) -> str:
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page.name} must have the heading {heading!r}"
    return found[1]


def own_parameters(kind: type) -> dict[str, inspect.Parameter]:
    """Those of the class and of its bases in this package."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("airflow_provider_kafka_spark") and "__init__" in vars(base):
            found |= {**inspect.signature(base.__init__).parameters, **found}  # type: ignore[misc]
    return {
        name: parameter
        for name, parameter in found.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _default(cell: str) -> Any:
    """The default that a cell names; what is no literal is returned as it is."""
    text = cell.strip().strip("`")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return inspect.Parameter.empty if text == "required" else text


def _submit_options() -> tuple[set[str], set[str]]:
    """The templated ones and the others, as the page lists them."""
    text = _section(_REFERENCE / "operators.md", "Spark")
    templated, others = re.findall(r"^- (?:Templated|Not templated): (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`(\w+)`", templated)), set(re.findall(r"`(\w+)`", others))


@pytest.mark.parametrize("kind", [*_OPERATORS, *_SENSORS], ids=lambda kind: kind.__name__)
def test_the_tables_have_the_parameters_of_the_class(kind: type) -> None:
    """With their defaults, and the mark of those that are templated."""
    page = _REFERENCE / ("operators.md" if kind in _OPERATORS else "sensors.md")
    text = "".join(_section(page, heading) for heading in {**_OPERATORS, **_SENSORS}[kind])
    rows = {name: (bool(mark), _default(cell)) for name, mark, cell in _ROW.findall(text)}
    rows.pop(_NOT_OF.get(kind, ""), None)
    templated = set(getattr(kind, "template_fields", ()))
    submit_options = set().union(*_submit_options()) if issubclass(kind, SparkJobOperator) else set()
    expected = {
        name: (name in templated, parameter.default)
        for name, parameter in own_parameters(kind).items()
        if name not in submit_options
    }
    if "deferrable" in expected:
        expected["deferrable"] = (False, "[operators] default_deferrable")
    if "outlets" in expected:
        expected["outlets"] = (False, "[COPIES]")

    assert rows == expected


def test_the_submit_options_are_listed() -> None:
    templated, others = _submit_options()
    rows = {name for name, _, _ in _ROW.findall(_section(_REFERENCE / "operators.md", "Spark"))}

    assert templated | others | rows == set(own_parameters(SparkJobOperator))
    assert templated | rows == set(SparkJobOperator.template_fields)
