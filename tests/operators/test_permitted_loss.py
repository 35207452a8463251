"""What a strict try has delivered counts, when its retry permits a loss."""

from __future__ import annotations

from collections import Counter

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.testing.kafka_broker import Record
from tests.operators.copy_task import KINDS, Batch, NewTask, Replay, Stream, covering, large

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize(
    ("kind", "provenance"),
    covering([(Batch, "headers"), (Replay, "segments"), (Stream, "segments")], KINDS, ("headers", "segments")),
)
def test_what_a_strict_try_delivered_counts(new_task: NewTask, kind: type, provenance: str) -> None:
    """A try is stopped in the middle, records age out that it has delivered, and the loss is permitted."""
    records = [Record(value=b"%d" % i) for i in range(20)]
    records[12] = large()
    task = new_task(records=records, provenance=provenance, preserve_partition=True)
    delivered = task.fail_at_large(lambda: task.run(kind), 5)
    assert 0 < delivered.total() < 20
    task.kafka.delete_records(task.source, {0: 3})

    with pytest.raises(AirflowFailException, match="fail_on_data_loss=False"):
        task.run(kind)
    result = task.succeed(kind, fail_on_data_loss=False)

    assert (task.values() - delivered).total() == 20 - delivered.total()
    assert task.values() == Counter(record.value or b"" for record in records)
    assert result["duplicates"] == 0
    assert [w for w in result["warnings"] if "again" in w or "more than once" in w] == []
