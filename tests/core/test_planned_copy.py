from __future__ import annotations

import json

from hypothesis import given, settings

from airflow_provider_kafka_spark.core.codec import decode, encode
from airflow_provider_kafka_spark.core.planned_copy import PlannedCopy
from tests.dataclass_values import values_of


@settings(max_examples=5)
@given(values_of(PlannedCopy))
def test_every_plan_survives_json(planned: PlannedCopy) -> None:
    """The task that proves a bundle's job has all that the one that planned it has decided."""
    assert decode(PlannedCopy, json.loads(json.dumps(encode(planned)))) == planned
