"""The newest result of a task, of this DAG or of another one."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from airflow_provider_kafka_spark.core.errors import AuditInputError

_NAME = re.compile(r"[\w.-]+\.[\w.-]+")
#: In most of Airflow's own run ids, such as ``scheduled__2026-11-20T00:00:00+00:00``.
_MOMENT = re.compile(r"__(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{6})?[+-]\d{2}:\d{2})", re.ASCII)
_CLOCKS = timedelta(minutes=1)


def task_named(text: str) -> str | None:
    """``dag_id.task_id``, if the text has that form.

    >>> task_named("orders.copy"), task_named('{"version": 1}')
    ('orders.copy', None)
    """
    name = text.strip()
    return name if _NAME.fullmatch(name) else None


def given_result(ti: Any, of: Any) -> Any:
    """What was given, or the newest result of the task that it names.

    :param ti: the running task instance.
    :raises AuditInputError: if it has none.
    """
    name = task_named(of) if isinstance(of, str) else None
    return of if name is None else newest_result(ti, name)


def newest_result(ti: Any, name: str) -> Any:
    """The XCom ``return_value`` of the newest run of a task that has one.

    Airflow gives the XComs of earlier runs of a DAG only beside the id of one of its runs. For another DAG that is the
    latest one in which the task has succeeded.

    :param ti: the running task instance.
    :param name: ``dag_id.task_id``; both may have dots.
    :raises AuditInputError: if there is none.
    """
    for dag_id, task_id in _splits(name, ti.dag_id):
        run_id = ti.run_id if dag_id == ti.dag_id else _latest_run(ti, dag_id, task_id)
        if run_id is None:
            continue
        # Without the index, Airflow gives the results of all runs, in any order.
        value = ti.xcom_pull(task_ids=task_id, dag_id=dag_id, run_id=run_id, include_prior_dates=True, map_indexes=-1)
        if value is not None:
            return value
    raise AuditInputError(
        f"of={name!r} must name a task that has returned a result, as 'dag_id.task_id'; Airflow gives none. Of this "
        "DAG it gives the results of this run and of earlier dates; of another DAG those up to the latest run in which "
        "the task has succeeded; never those of mapped tasks, nor what was deleted. Pass the result itself, such as "
        "copy.output, or as JSON."
    )


def _splits(name: str, own_dag_id: str) -> list[tuple[str, str]]:
    """How the name may be read: this DAG first, then the shortest id of a DAG."""
    dots = [i for i, letter in enumerate(name) if letter == "."]
    splits = [(name[:i], name[i + 1 :]) for i in dots if 0 < i < len(name) - 1]
    return sorted(splits, key=lambda split: split[0] != own_dag_id)


def _latest_run(ti: Any, dag_id: str, task_id: str) -> str | None:
    """The id of the latest run in which a task has succeeded, by the moment in the ids."""
    runs = ti.get_task_states(dag_id=dag_id, task_ids=[task_id])
    succeeded = [run_id for run_id, states in runs.items() if "success" in map(str, states.values())]
    return max(succeeded, key=partial(_moment, datetime.now(timezone.utc)), default=None)


def _moment(now: datetime, run_id: str) -> tuple[float, str]:
    """Who triggers a DAG may choose the id: a moment that is still to come counts as none."""
    found = _MOMENT.search(run_id)
    with suppress(ValueError):
        moment = None if found is None else datetime.fromisoformat(found[1])
        return (moment.timestamp() if moment is not None and moment <= now + _CLOCKS else 0.0, run_id)
    return (0.0, run_id)
