"""Each parameter of a copying operator is declared, with a default that can be read."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.copies.declaration import Decides
from airflow_provider_kafka_spark.operators.available_now import KafkaToKafkaAvailableNowOperator
from airflow_provider_kafka_spark.operators.batch import KafkaToKafkaBatchOperator
from airflow_provider_kafka_spark.operators.bounded_copy import _defaults_of
from airflow_provider_kafka_spark.operators.deferral import DeferrableOperator
from airflow_provider_kafka_spark.operators.kafka_to_kafka import KafkaToKafkaOperator
from airflow_provider_kafka_spark.operators.replay import ReplayOffsetRangesOperator
from tests.docs.test_parameters import own_parameters

#: Of Airflow, which reads it when the DAG is read.
_OUTLETS = {"outlets"}


@pytest.mark.parametrize(
    "kind", [KafkaToKafkaBatchOperator, ReplayOffsetRangesOperator, KafkaToKafkaAvailableNowOperator]
)
def test_signature_and_declaration_are_the_same(kind: type[KafkaToKafkaOperator]) -> None:
    of_kind = kind._declared  # noqa: SLF001
    declared = {p.name: p for p in of_kind}

    assert len(declared) == len(of_kind)
    assert declared.keys() == own_parameters(kind).keys() - own_parameters(DeferrableOperator).keys() - _OUTLETS
    assert declared.keys() <= set(kind.template_fields)
    defaults = _defaults_of(kind)
    for name, p in declared.items():
        if p.decides is not Decides.RECORDS and name in defaults:
            read = p.read(defaults[name])
            assert p.read(read) == read, name


def test_a_default_of_a_subclass_may_be_one_that_only_it_reads() -> None:
    """It is then compared as it is, where a plan says the parameter."""
    declared = {p.name: p for p in ReplayOffsetRangesOperator._declared}  # noqa: SLF001

    assert declared["source_conn_id"].read_default(None) is None
    assert declared["preserve_partition"].read_default("{{ params.p }}") == "{{ params.p }}"
    assert declared["columns"].read_default(None) == {}
