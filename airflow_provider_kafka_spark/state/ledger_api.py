"""The ledger's entries as Airflow's REST API gives them, with the rights of the user who asks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from airflow_provider_kafka_spark.core.errors import AirflowApiError, InvalidInputError
from airflow_provider_kafka_spark.core.ledger.entry import (
    ASSET_NAME,
    STATE_KEY,
    Delivery,
    TaskRun,
    deliveries_of_event,
    is_by_api,
)
from airflow_provider_kafka_spark.core.ledger.waiting import WaitingTask
from airflow_provider_kafka_spark.core.shown_text import one_line, shown
from airflow_provider_kafka_spark.core.wire.state_parts import published

#: Of the copying operators, by which their task instances are found.
OPERATORS = frozenset({"KafkaToKafkaBatchOperator", "ReplayOffsetRangesOperator", "KafkaToKafkaAvailableNowOperator"})
#: Of task instances that may have copied, and have no asset event of it. A task that was cleared has no state until it
#: is scheduled.
_GOES_ON = (
    "running",
    "deferred",
    "up_for_retry",
    "up_for_reschedule",
    "queued",
    "scheduled",
    "restarting",
    "no_status",
)
_ENDED_BADLY = ("failed", "upstream_failed", "removed")
#: To connect, and to read, in seconds.
_TIMEOUTS = (5, 30)
_PAGE = 100
#: How far clocks may differ, and more than a reading takes.
_OVERLAP = timedelta(minutes=10)
_STATE = "/state-store"
#: What is read at most, so that the command ends.
MAX_EVENTS = 100_000
MAX_TASKS = 2_000
MAX_FUNCTIONS = 100


@dataclass(slots=True)
class Recorded:
    """What Airflow has recorded.

    :param deliveries: in the order of their time.
    :param skipped: entries that were not read: of another version, or malformed.
    :param not_by_a_task: events that no task has made, such as by Airflow's API. They say nothing.
    :param cut: what there was too much of, as text.
    :param waiting: tasks that go on, and have stored nothing of a copy.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    skipped: int = 0
    not_by_a_task: int = 0
    cut: list[str] = field(default_factory=list)
    waiting: list[WaitingTask] = field(default_factory=list)

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Add an asset event, as the API gives it. One without an extra is of a function that copied nothing."""
        by, extra = _by_event(event), event.get("extra")
        if not by.task_id or is_by_api(extra):
            self.not_by_a_task += 1
            return
        found, skipped = deliveries_of_event(extra, by, _time(event.get("timestamp")))
        self.deliveries += found
        self.skipped += skipped

    def add_task(self, by: TaskRun, rows: Iterable[Mapping[str, Any]], task: Mapping[str, Any]) -> None:
        """Add what the state of a task instance has of its operators, as the API gives it.

        :param task: as the API gives it.
        """
        is_active, has_entry = _is_active(task), False
        by_key = {str(row.get("key")): row for row in rows}
        values = {key: row.get("value") for key, row in by_key.items()}
        for key, row in by_key.items():
            if key.partition("/")[0] == STATE_KEY:
                has_entry = True
                entry = published(values, key)
                found = Delivery.parse(entry, by, _time(row.get("updated_at")), is_active=is_active)
                if found is not None:
                    self.deliveries.append(found)
                    continue
                # An event can only add to what is there; a task that is not read may hide what is not.
                self.skipped += 1
                self.cut.append(f"what {one_line(str(by))} has stored is of another version or malformed")
        if is_active and not has_entry:
            self.waiting.append(WaitingTask(by, str(task.get("state") or "")))


class LedgerApi:
    """Airflow's REST API, for one user.

    :param url: of the API server, such as ``https://airflow.example.com``.
    :param token: of the user; None to log in with ``username`` and ``password``.
    :raises InvalidInputError: if the URL is malformed, or neither a token nor a user is given.
    """

    def __init__(
        self, url: str, token: str | None = None, *, username: str | None = None, password: str | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise InvalidInputError(
                f"The address of Airflow's API server must be a URL without a user, such as 'http://localhost:8080'; "
                f"got {url.rpartition('@')[2]!r}."
            )
        if token is None and (username is None or password is None):
            raise InvalidInputError(
                "Airflow's API needs a login: set AIRFLOW_API_TOKEN, or AIRFLOW_API_USERNAME and AIRFLOW_API_PASSWORD, "
                "in the environment."
            )
        self._url = url.rstrip("/")
        self._session = requests.Session()
        if token is None:
            token = str(
                self._ask("POST", "/auth/token", json={"username": username, "password": password}).get("access_token")
            )
        # A netrc file of this user would take its place.
        self._session.auth = _Bearer(token)

    @classmethod
    def from_environment(cls, url: str | None = None) -> LedgerApi:
        """With the login of ``AIRFLOW_API_TOKEN``, or of ``AIRFLOW_API_USERNAME`` and ``AIRFLOW_API_PASSWORD``.

        :param url: None for that of ``AIRFLOW_API_URL``, or of Airflow's configuration.
        :raises InvalidInputError: as the class.
        """
        found = os.environ
        return cls(
            url or found.get("AIRFLOW_API_URL") or _configured_url(),
            found.get("AIRFLOW_API_TOKEN"),
            username=found.get("AIRFLOW_API_USERNAME"),
            password=found.get("AIRFLOW_API_PASSWORD"),
        )

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned.

        :raises InvalidInputError: if Airflow has no result of it, or does not show it to the user.
        :raises AirflowApiError: if the API does not answer, or refuses.
        """
        where = f"{dag_id} / {run_id} / {task_id}"
        # Such a part of an address is left out on the way.
        if {".", ".."} & {dag_id, run_id, task_id}:
            raise InvalidInputError(f"--run must name a DAG, a run and a task; got {where}.")
        path = "/api/v2/dags/{}/dagRuns/{}/taskInstances/{}/xcomEntries/return_value".format(
            *(quote(name, safe="") for name in (dag_id, run_id, task_id))
        )
        missing = (
            f"--run must name a task whose result Airflow's API has; it has none of {one_line(where)}. Results of "
            "mapped tasks, and of an XCom backend that keeps them elsewhere, are not found; store them in files."
        )
        value = self._ask("GET", path, missing, params={"stringify": "false"}).get("value")
        try:
            # The API gives what its database has: text.
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise InvalidInputError(missing) from None

    def recorded(self, since: datetime | None = None, until: datetime | None = None) -> Recorded:
        """Every entry that the user may see, of events and runs within a time.

        :raises AirflowApiError: if the API does not answer, or refuses.
        """
        recent = datetime.now(timezone.utc) - _OVERLAP
        events, cut = self._events(since, until)
        functions = {(by.dag_id, by.task_id) for by in map(_by_event, events) if by.dag_id and by.task_id}
        tasks, cut_tasks = self._tasks(since, until, functions)
        # Such a part of an address is left out on the way.
        unread = [by for by in tasks if {".", ".."} & {by.dag_id, by.run_id, by.task_id}]
        cut_tasks += [f"what {one_line(str(by))} left cannot be read" for by in unread]
        found = Recorded(cut=[*cut, *cut_tasks])
        for by, task in tasks.items():
            if by not in unread:
                found.add_task(by, () if _is_new(task) else self._rows(by), task)
        # A task may have ended since its events were read. Clocks may differ.
        if until is None or until > recent:
            events += self._events(max(since or recent, recent), until)[0]
        by_id = {event.get("id") or f"{number} without an id": event for number, event in enumerate(events)}
        for event in by_id.values():
            found.add_event(event)
        found.deliveries.sort(key=lambda d: d.at.timestamp() if d.at else 0.0)
        return found

    def _events(self, since: datetime | None, until: datetime | None) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Those of the ledger's asset, by its name: an event that arrives meanwhile is on the last page."""
        query = [("name_prefix_pattern", ASSET_NAME), ("order_by", "timestamp"), *_between("timestamp", since, until)]
        found, cut = self._pages("/api/v2/assets/events", "asset_events", query, MAX_EVENTS, "asset events")
        return [event for event in found if event.get("name") == ASSET_NAME], cut

    def _tasks(
        self, since: datetime | None, until: datetime | None, functions: Iterable[tuple[str, str]]
    ) -> tuple[dict[TaskRun, Mapping[str, Any]], list[str]]:
        """Those that may have copied, or are going to, as the API gives them.

        :param functions: DAG and task of those that have events: an operator may be called by a function.
        """
        found, cut = dict[TaskRun, Mapping[str, Any]](), list[str]()

        def search(dag: str, only: list[tuple[str, str]]) -> None:
            path = f"/api/v2/dags/{dag}/dagRuns/~/taskInstances"
            for query in _of_states(since, until):
                tasks, cut_here = self._pages(path, "task_instances", [*query, *only], MAX_TASKS, "task instances")
                found.update({_by(t, "dag_id", "dag_run_id", "task_id", "map_index"): t for t in tasks})
                cut.extend(cut_here)

        search("~", [("operator", name) for name in OPERATORS])
        others = sorted(set(functions) - {(by.dag_id, by.task_id) for by in found})
        for dag, task in others[:MAX_FUNCTIONS]:
            search(quote(dag, safe=""), [("task_id", task)])
        if len(others) > MAX_FUNCTIONS:
            cut.append(f"of {len(others):,} tasks with events only {MAX_FUNCTIONS} were searched for failed runs")
        return found, cut

    def _rows(self, by: TaskRun) -> list[Mapping[str, Any]]:
        """Of the state of one task instance."""
        names = (quote(name, safe="") for name in (by.dag_id, by.run_id, by.task_id))
        path = "/api/v2/dags/{}/dagRuns/{}/taskInstances/{}".format(*names) + _STATE
        return self._pages(path, "task_state_store", [("map_index", str(by.map_index))], _PAGE, "")[0]

    def _pages(
        self, path: str, key: str, query: list[tuple[str, str]], most: int, what: str
    ) -> tuple[list[Mapping[str, Any]], list[str]]:
        """All items of a list, and what was left out."""
        items: list[Mapping[str, Any]] = []
        while True:
            page = self._ask("GET", path, params=[*query, ("limit", str(_PAGE)), ("offset", str(len(items)))])
            found, total = page.get(key), page.get("total_entries")
            if not isinstance(found, list):
                raise AirflowApiError(f"Airflow's API must list {key!r} at {path}; its answer has none.")
            items += [item for item in found if isinstance(item, Mapping)]
            if not found or (isinstance(total, int) and len(items) >= total):
                return items, []
            if len(items) >= most:
                return items, [f"only {most:,} of {total} {what} were read"] if what else []

    def _ask(self, method: str, path: str, missing: str | None = None, **arguments: Any) -> Mapping[str, Any]:
        """:param missing: the message of the error if there is no such thing."""
        try:
            answer = self._session.request(
                method, f"{self._url}{path}", timeout=_TIMEOUTS, allow_redirects=False, **arguments
            )
            content = answer.json() if answer.status_code // 100 == 2 else None
        except (requests.RequestException, ValueError) as error:
            raise AirflowApiError(
                f"Airflow's API at {self._url} must answer {path}; {shown(str(error), 200)}. Check the address, "
                "and that the API server runs."
            ) from None
        if answer.is_redirect or answer.status_code in (401, 403):
            raise AirflowApiError(
                f"Airflow's API at {self._url} refuses {path} (status {answer.status_code}). Check the token or the "
                "user, and that it may read assets and task instances."
            )
        if answer.status_code == 404 and missing is not None:
            raise InvalidInputError(missing)
        if answer.status_code == 404 and path.endswith(_STATE):
            # The task instance was deleted since it was listed.
            return {"task_state_store": []}
        if not isinstance(content, Mapping):
            raise AirflowApiError(
                f"Airflow's API at {self._url} must answer {path} with an object; it answered with status "
                f"{answer.status_code}. Check the address: Airflow 3.3.1 or newer is needed."
            )
        return content


class _Bearer(requests.auth.AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _configured_url() -> str:
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "http://localhost:8080")


def _by_event(event: Mapping[str, Any]) -> TaskRun:
    return _by(event, "source_dag_id", "source_run_id", "source_task_id", "source_map_index")


def _of_states(since: datetime | None, until: datetime | None) -> Iterator[list[tuple[str, str]]]:
    """What is asked of tasks: those that go on are of every time, since one that waits is not updated; of those that
    failed only what was updated since. A task that was cleared has not started again.
    """
    before = [("order_by", "-start_date"), *([] if until is None else [("start_date_lt", until.isoformat())])]
    yield [*before, *(("state", state) for state in _GOES_ON)]
    after = [] if since is None else [("updated_at_gte", since.isoformat())]
    yield [*before, *after, *(("state", state) for state in _ENDED_BADLY)]


def _is_active(task: Mapping[str, Any]) -> bool:
    return (task.get("state") or "no_status") in _GOES_ON


def _is_new(task: Mapping[str, Any]) -> bool:
    """Whether it has not begun, and so has stored nothing: of a backfill there are thousands."""
    return "start_date" in task and not task["start_date"] and (task.get("try_number") or 0) <= 1


def _by(item: Mapping[str, Any], dag_id: str, run_id: str, task_id: str, map_index: str) -> TaskRun:
    number, (dag, run, task) = item.get(map_index), (str(item.get(name) or "") for name in (dag_id, run_id, task_id))
    return TaskRun(dag, run, task, number if isinstance(number, int) else -1)


def _between(name: str, since: datetime | None, until: datetime | None) -> list[tuple[str, str]]:
    given = ((f"{name}_gte", since), (f"{name}_lt", until))
    return [(key, time.isoformat()) for key, time in given if time is not None]


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
