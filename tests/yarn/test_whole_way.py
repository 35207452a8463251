"""Two copies on a real YARN, from the submission to the proof; the other tests of this folder are of the long ring.

What only this proves: a driver that runs elsewhere, found by its tag when its worker has died, and followed by a
trigger. It takes a YARN and two applications, which run side by side.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_kafka_spark.state.run_state import RunStateStore
from airflow_provider_kafka_spark.testing.pytest_plugin import TopicFactory
from tests.airflow_fakes import TaskStateStore, Try
from tests.yarn.survivor import Survivor, WorkerDied, die, event_of

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_copy_whose_worker_dies_and_one_that_is_deferred(
    survivor: Survivor, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of the first dies before it has the application's id: the retry finds the application, and starts no
    other. Of the second, a trigger sees the end, and the task takes the report of that job, whatever its templates give
    now. Each record is there once, the link leads to the application, and no report is left.
    """
    deferred = replace(
        survivor,
        source=topic(suffix="deferred-source"),
        target=topic(suffix="deferred-target"),
        parameters={**survivor.parameters, "deferrable": True},
        store=TaskStateStore(),
        name=f"{survivor.name}-deferred",
    )
    first, second = (Try(run_id="manual__deferred") for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(RunStateStore, "started", die)
        with pytest.raises(WorkerDied):
            survivor.run()
    with pytest.raises(TaskDeferred) as left:
        deferred.run(first)

    result = survivor.run()
    event = event_of(left.value.trigger)
    # A clear of another task in the DAG run changes nothing either.
    of_deferred = deferred.run(second, event.payload, clear_number=1, where="offset >= 0")

    trigger = left.value.trigger
    assert left.value.method_name == "resume"
    assert type(trigger)(**trigger.serialize()[1]).serialize() == trigger.serialize()
    assert event.payload["status"] == "ended"
    for copy, found in ((survivor, result), (deferred, of_deferred)):
        assert copy.values() == list(range(100))
        assert (found["delivered_before"], found["records_written"], found["duplicates"]) == (0, 100, 0)
        assert [app["id"] for app in copy.applications()] == [found["application_id"]]
    assert of_deferred["application_id"] in first.pushed["_link_SparkApplicationLink"]
    assert survivor.reports() == []
