"""The audit of a copy, beside the copy itself: one writes what the other reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import airflow_task
from benchmarks.environment import connect_to
from benchmarks.orders import mean_value_size, orders
from benchmarks.rounds import Variant, alternate, emit
from benchmarks.table import Goal, Section, median_and_range, ratio_text, rounds_text
from benchmarks.topics import WrongCopyError, check_count, fill, new_broker

SOURCE, TARGET, PARTITIONS = "orders", "orders-copy", 4
_LIMIT_SECONDS = 600.0
_COPY, _AUDIT = "`KafkaToKafkaBatchOperator`", "`AuditReplayOperator`"


def measure(records: int, rounds: int, folder: Path) -> Section:
    """Copy a topic and audit the copy, in turn, each as a whole task."""
    emit(f"Audit: {records:,} records, {rounds} rounds")
    with new_broker() as broker:
        connect_to(broker.bootstrap_servers)
        fill(broker, SOURCE, PARTITIONS, orders(records, PARTITIONS), records)
        copied: list[Mapping[str, Any]] = []

        def copy() -> float:
            if copied:
                broker.delete_topic(TARGET)
            broker.create_topic(TARGET, PARTITIONS)
            arguments = {"topics": [SOURCE], "target_topic": TARGET}
            seconds, result = airflow_task.run_in_child(airflow_task.BATCH, arguments, folder)
            check_count(broker, TARGET, records)
            copied.append(result)
            return seconds

        def audit() -> float:
            seconds, result = airflow_task.run_in_child(airflow_task.AUDIT, {"of": copied[-1]}, folder)
            if (result["once"], result["state"]) != (records, "complete"):
                raise WrongCopyError(f"The audit must find {records:,} records once; it found {result['once']:,}.")
            return seconds

        variants = [Variant(_COPY, copy), Variant(_AUDIT, audit)]
        alternate(variants, rounds, _LIMIT_SECONDS)
    of_copy, of_audit = variants
    return Section(
        "Audit",
        f"{records:,} JSON orders of {mean_value_size():.0f} bytes on average, copied and audited in turn, each as the "
        f"whole `execute` of a task. Median of {rounds_text(rounds)}. The ratio is the time against the copy.",
        ["Variant", "Seconds", "Range", "Ratio"],
        [[v.name, *median_and_range(v), ratio_text(v.median, of_copy.median)] for v in variants],
        [Goal("The audit's time against the copy's", of_audit.median / of_copy.median, 1.5, False)],
    )
