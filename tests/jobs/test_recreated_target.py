"""A target that is deleted and recreated: nothing counts as delivered that went to the topic before. That the driver
looks at it once more when its tasks have ended is in ``test_stream_tries.py``.
"""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.errors import TargetRecreatedError
from tests.jobs.conftest import Pair
from tests.jobs.runs import SLOW, SMALL_COMMITS, in_background, numbered, wait_for_copies

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_COUNT = 200
_VALUES = [b"%d" % i for i in range(_COUNT)]


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
@pytest.mark.usefixtures("small_commits")
def test_while_tasks_write(pair: Pair, delivery: str) -> None:
    """What was committed before is lost with the topic, and is written again."""
    pair.fill(numbered(_COUNT), in_batch=10)
    slow = {**SLOW, "kafka.fetch.max.wait.ms": "500"}
    first = in_background(lambda: pair.copy(_COUNT, source_options=slow, delivery=delivery))
    wait_for_copies(pair.broker, pair.target, SMALL_COMMITS)
    pair.recreate_target()
    failure = first.exception(180)

    pair.retry(_COUNT, delivery=delivery)

    assert isinstance(failure, TargetRecreatedError), failure
    found = pair.values()
    if delivery == "exactly_once":
        assert found == _VALUES
    assert set(found) == set(_VALUES)
    assert len(found) == _COUNT


@pytest.mark.long
def test_one_that_held_many_records_of_others(pair: Pair) -> None:
    """The records of the run began at an offset that the new topic does not have."""
    pair.fill(numbered(_COUNT))
    pair.broker.produce(pair.target, numbered(1_000))
    begins = {"audit_from": {pair.target: {"0": 1_000}}}
    pair.copy(_COUNT, **begins)
    pair.recreate_target()
    # A retry that failed has delivered something to the new topic.
    pair.retry(50, **begins)

    report = pair.retry(_COUNT, **begins)

    assert pair.values() == _VALUES
    assert (report.delivered_before, report.records_written) == (50, _COUNT)
    assert [r.from_offset for r in report.target_ranges] == [0]
