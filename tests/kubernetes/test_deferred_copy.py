"""A deferred copy in a pod, which a trigger follows: no other test of the short rings has this trigger."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import TaskDeferred

from tests.airflow_fakes import Try
from tests.kubernetes.copies import RECORDS, Copies
from tests.required_tools import needs_go
from tests.yarn.survivor import event_of

pytestmark = [
    needs_go,
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.kubernetes,
    # The control plane is built once.
    pytest.mark.timeout(2_700),
]


def test_a_trigger_follows_the_driver(copies: Copies) -> None:
    """It sees the end, and the task takes the report of that job."""
    with pytest.raises(TaskDeferred) as left:
        copies.run(Try(), deferrable=True)
    trigger = left.value.trigger
    event = event_of(trigger)
    result = copies.run(Try(), event.payload, deferrable=True)

    assert type(trigger)(**trigger.serialize()[1]).serialize() == trigger.serialize()
    assert event.payload["status"] == "ended"
    assert copies.values() == list(range(RECORDS))
    assert [pod.application_id for pod in copies.drivers()] == [result["application_id"]]
    assert copies.items("secrets") == []
