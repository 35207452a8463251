"""Names of a run at the brokers of its target. No I/O.

Every transactional id and every consumer group of a run begins with the same prefix, for prefixed ACLs.
"""

from __future__ import annotations

import hashlib
import json

PREFIX = "airflow-kafka-spark-"
#: Kafka's own default, in ms: how long readers of the target wait for a job that died within a transaction.
TRANSACTION_TIMEOUT_MS = 60_000


def instance_id(dag_id: str, dag_run_id: str, task_id: str, map_index: int, called_id: str = "") -> str:
    """What a run is found by at the brokers, also if Airflow has lost the task's state: 16 hexadecimal digits.

    :param dag_run_id: Airflow's id of the DAG run.
    :param map_index: of a mapped task, -1 for another one.
    :param called_id: ``task_id`` of an operator that is called within another task, else empty.

    >>> instance_id("orders", "scheduled__2026-01-01", "copy", -1)
    '899e8e7ad5959a34'
    """
    content = json.dumps([dag_id, dag_run_id, task_id, map_index, called_id])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def run_prefix(instance: str) -> str:
    """The prefix of the transactional ids and groups of a run, whatever its plan.

    :param instance: from :func:`instance_id`, or the id of a stream.
    """
    return f"{PREFIX}{instance}-"


def pace_group(instance: str) -> str:
    """The group whose committed offset is the number of Spark tasks that share the job's pace."""
    return f"{run_prefix(instance)}pace"


def progress_group(instance: str, key: str, number: int) -> str:
    """A group whose committed offsets are the progress of a run's pieces.

    :param key: the delivery key, see ``core.run_protocol``.
    :param number: of the group, from 0.

    >>> progress_group("899e8e7ad5959a34", "3714c25ff037e9ea", 0)
    'airflow-kafka-spark-899e8e7ad5959a34-3714c25ff037e9ea-0'
    """
    return f"{run_prefix(instance)}{key}-{number}"


def owner_group(instance: str) -> str:
    """The group whose committed offset has the mark of the run as its metadata."""
    return f"{run_prefix(instance)}owner"
