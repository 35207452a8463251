"""Names of a run at the brokers of its target. No I/O.

Every transactional id and every consumer group of a run begins with the same prefix, for prefixed ACLs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

PREFIX = "airflow-kafka-spark-"
#: Kafka's own default, in ms: how long readers of the target wait for a job that died within a transaction.
TRANSACTION_TIMEOUT_MS = 60_000
#: Of a longer item, a digest tells the rest.
_SHOWN_CHARACTERS = 200


def instance_id(
    deployment: str, dag_id: str, dag_run_id: str, task_id: str, item: str = "", called_id: str = ""
) -> str:
    """What a run is found by at the brokers, also if Airflow has lost the task's state: 16 hexadecimal digits.

    :param deployment: of Airflow: two that write to one Kafka may have the same DAGs.
    :param dag_run_id: Airflow's id of the DAG run.
    :param item: of a mapped task, from :func:`item_text`; else empty. A map index is only a place in a list.
    :param called_id: ``task_id`` of an operator that is called within another task, else empty.

    >>> instance_id("production", "orders", "scheduled__2026-01-01", "copy")
    'd65c9257da601d38'
    """
    content = json.dumps([deployment, dag_id, dag_run_id, task_id, item, called_id])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def item_text(parameters: Mapping[str, object]) -> str:
    """An item of a mapped task: what tells it from the others, at most some 220 characters.

    :param parameters: by name, as plain JSON.

    >>> item_text({"offset_ranges": ["orders:0:0:10"]})
    '{"offset_ranges": ["orders:0:0:10"]}'
    """
    text = json.dumps(parameters, sort_keys=True)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}... ({hashlib.sha256(text.encode()).hexdigest()[:16]})"


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

    :param key: the delivery key, see ``core.runs.run_protocol``.
    :param number: of the group, from 0.

    >>> progress_group("899e8e7ad5959a34", "3714c25ff037e9ea", 0)
    'airflow-kafka-spark-899e8e7ad5959a34-3714c25ff037e9ea-0'
    """
    return f"{run_prefix(instance)}{key}-{number}"


def owner_group(instance: str) -> str:
    """The group whose committed offset has the mark of the run as its metadata."""
    return f"{run_prefix(instance)}owner"
