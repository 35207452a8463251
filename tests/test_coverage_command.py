"""Promises of ``python -m airflow_provider_kafka_spark.coverage``, by answers as Airflow's API gives them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_kafka_spark import coverage
from airflow_provider_kafka_spark.state import ledger_api
from tests.core.ledger.test_coverage import entry

TOKEN = "s3cret-token"


class Api:
    """Answers by path; ``asked`` has the paths and queries of all requests.

    :ivar events: of the ledger's asset and of those whose names begin with its name.
    :ivar tasks: that run or have failed.
    :ivar states: what the state of the task with this id has.
    :ivar results: of tasks, by path.
    :ivar answer: a status and a body in place of what is asked for.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.states: dict[str, list[dict[str, Any]]] = {}
        self.results: dict[str, Any] = {}
        self.answer: tuple[int, bytes] | None = None
        self.asked: list[str] = []
        self.url = ""

    def respond(self, path: str, query: dict[str, list[str]], token: str | None) -> tuple[int, bytes]:
        if self.answer is not None:
            return self.answer
        if path == "/auth/token":
            return 201, json.dumps({"access_token": TOKEN}).encode()
        if token != f"Bearer {TOKEN}":
            return 401, b'{"detail": "Not authenticated"}'
        if path.endswith("/return_value"):
            return (200, json.dumps({"value": self.results[path]}).encode()) if path in self.results else (404, b"{}")
        if path.endswith("/state-store"):
            if path.split("/")[-2] not in self.states:
                return 404, b'{"detail": "not found"}'
            found, key = self.states[path.split("/")[-2]], "task_state_store"
        elif path.endswith("/taskInstances"):
            found, key = self.tasks, "task_instances"
            for name, of in (("operator", "operator_name"), ("task_id", "task_id")):
                found = [t for t in found if t[of] in query.get(name, [t[of]])]
            found = [t for t in found if (t["state"] or "no_status") in query["state"]]
            since = query.get("updated_at_gte", [""])[0]
            found = [t for t in found if t.get("updated_at", "9") >= since]
        else:
            assert query["name_prefix_pattern"] == ["kafka_spark_copies"]
            found, key = self.events, "asset_events"
            since = query.get("timestamp_gte", [""])[0]
            found = [e for e in found if e.get("timestamp", "") >= since]
        start, limit = int(query["offset"][0]), min(int(query["limit"][0]), 100)
        return 200, json.dumps({key: found[start : start + limit], "total_entries": len(found)}).encode()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            parts = urlsplit(self.path)
            status, body = found.respond(parts.path, parse_qs(parts.query), self.headers["Authorization"])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:9/login")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("AIRFLOW_API_TOKEN", TOKEN)
    monkeypatch.setenv("AIRFLOW_API_URL", found.url)
    yield found
    server.shutdown()
    server.server_close()


def event(number: int, *ranges: str, **others: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": "kafka_spark_copies",
        "extra": entry(f"{number:016x}", *ranges, **others),
        "source_dag_id": "hourly",
        "source_run_id": f"run-{number}",
        "source_task_id": "copy",
        "source_map_index": -1,
        "timestamp": f"2026-11-20T10:00:{number % 60:02d}Z",
    }


def instance(task_id: str, state: str, **others: Any) -> dict[str, Any]:
    named = {"dag_id": "hourly", "dag_run_id": "run-9", "task_id": task_id, "map_index": -1, "state": state}
    return {**named, "operator_name": "KafkaToKafkaBatchOperator", **others}


def stored(key: str = "ledger", **others: Any) -> dict[str, Any]:
    return {"key": key, "value": entry("f" * 16, **others), "updated_at": "2026-11-20T11:00:00Z"}


def test_gaps_failures_and_what_is_no_entry_are_listed(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.events = [
        event(1, "orders:0:0:10"),
        event(2, "orders:0:15:20"),
        event(8, "orders:0:0:40", target_topics=["\x1b[2J\nNo gaps"]),
        {**event(3), "extra": {"payload": {}}},
        {**event(4), "extra": {}},
        {**event(6, "orders:0:10:15"), "source_task_id": None},
        {**event(7, "orders:0:10:15"), "extra": {**entry("7", "orders:0:10:15"), "from_rest_api": True}},
        # Airflow finds events by the beginning of the asset's name.
        {**event(5, "orders:0:10:15"), "name": "kafka_spark_copies_of_mine"},
    ]
    api.tasks = [
        instance("copy", "failed"),
        instance("now", "running"),
        instance("later", "up_for_retry"),
        instance("other", "failed", operator_name="BashOperator"),
        instance("deleted", "failed"),
        # The path of its state would lead elsewhere.
        instance("copy", "failed", dag_run_id="."),
    ]
    api.states = {
        "copy": [stored(state="partial", offset_ranges=["orders:0:20:22"], planned_ranges=["orders:0:20:25"])],
        "now": [
            {"key": "kafka_spark_run", "value": {}},
            stored("ledger/called", state="running", planned_ranges=["orders:0:25:30"]),
        ],
        "later": [stored(state="partial", planned_ranges=["orders:0:30:35"])],
    }

    assert coverage.main(["orders", "--window", "orders:0:0:40"]) == 1

    printed = capsys.readouterr().out
    assert "orders -> copy: 5 runs\nfrom broker-1:9092 to broker-2:9092\norders[0]  0 |" in printed
    assert "17 covered, 10 unfinished, 3 failed, 10 missing\n" in printed
    assert r"\x1b[2J\nNo gaps" in printed
    assert "No run has copied 10 offsets in 2 ranges:\n  orders:0:10:15\n  orders:0:35:40\n" in printed
    assert "clear the task, which copies the rest:\n  orders:0:22:25 by hourly / run-9 / copy\n" in printed
    assert "1 entries are of another version" in printed
    assert "2 asset events were made by no task" in printed
    assert "other" not in "".join(api.asked)
    assert TOKEN not in "".join(api.asked) + printed


def test_each_pair_is_judged_by_itself(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """What was copied elsewhere is still to be copied to this one. The exit code is the worst."""
    api.events = [event(1, "orders:0:0:10"), event(2, "orders:0:0:20", target_topics=["elsewhere"])]
    arguments = ["orders", "--json", "--window", "orders:0:0:20"]

    assert coverage.main(arguments) == 1
    found = json.loads(capsys.readouterr().out)
    assert coverage.main([*arguments, "--target-topic", "elsewhere"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["pairs"]

    gap = {"topic": "orders", "partition": 0, "from_offset": 10, "until_offset": 20, "topic_id": "id-1"}
    assert [(p["target_topic"], p["missing"]) for p in found["pairs"]] == [("copy", [gap]), ("elsewhere", [])]
    assert [s["coverage"] for s in found["pairs"][0]["stretches"]] == ["covered", "missing"]
    assert one == found["pairs"][1]
    assert one["ledger"][one["stretches"][0]["by"][0]]["dag_run_id"] == "run-2"


def test_what_nobody_has_looked_at_is_counted_and_is_not_complete(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    log = {"at": "2026-11-20T10:00:01+00:00", "source": ["orders:0:0:7000"], "target": ["copy:0:0:5460"]}
    api.events = [event(1, "orders:0:236:1000", log=log)]

    assert coverage.main(["orders"]) == 4

    printed = capsys.readouterr().out
    assert "764 covered, 6,236 unseen\n" in printed
    assert "orders had 7,000 offsets when a run last looked, at 2026-11-20T10:00:01+00:00.\n" in printed
    assert "copy had 5,460 offsets" in printed
    assert coverage.main(["orders", "--window", "orders:0:236:1000"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ordres"], "TOPIC must be one that a recorded copy has read: orders; got 'ordres'. Did you mean 'orders'?"),
        (["ordres", "--since", "2026-11-01"], "has read since 2026-11-01T00:00:00+00:00: orders; got"),
        (["orders", "--target-topic", "cpoy"], "--target-topic must be one of the recorded copies of 'orders': copy; "),
        (["orders", "--target-topic", "cpoy", "--window", "orders:0:0:5"], "Did you mean 'copy'?"),
        (["orders", "--source", "broker-2:9092"], "--source must be one of the recorded copies of 'orders': "),
        (["orders", "--target", "elsewhere:9092"], "broker-2:9092, two; got 'elsewhere:9092'"),
        (
            ["orders", "--since", "2126-11-01"],
            "--since must not lie in the future; got 2126-11-01T00:00:00+00:00. It is ",
        ),
        (["orders", "--since", "2026-11-02", "--until", "2026-11-01"], "--since must be before --until"),
    ],
)
def test_what_nothing_matches_is_an_error(
    api: Api, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    api.events = [event(1, "orders:0:0:10")]

    assert coverage.main(arguments) == 2

    assert said in capsys.readouterr().err


def test_all_pages_are_read(api: Api, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A user and a password are exchanged for a token. What runs with a filter left out is said."""
    monkeypatch.delenv("AIRFLOW_API_TOKEN")
    monkeypatch.setenv("AIRFLOW_API_USERNAME", "admin")
    monkeypatch.setenv("AIRFLOW_API_PASSWORD", "pa55word")
    api.events = [event(n, f"orders:0:{n * 10}:{n * 10 + 10}") for n in range(250)]
    api.events.append(event(250, "orders:0:2495:2520", filtered=True))

    assert coverage.main(["orders"]) == 0

    printed = capsys.readouterr().out
    assert "251 runs" in printed
    assert "Of 20 covered offsets, all runs had a filter" in printed
    assert api.asked[0] == "/auth/token"
    # The last one is for what has ended meanwhile.
    assert sum("assets/events" in path for path in api.asked) == 3 + 1


def test_a_task_that_ends_while_the_command_reads_is_no_gap(api: Api) -> None:
    """Its events were read before, and its state after."""
    api.events = [event(1, "orders:0:0:10")]
    asked = api.respond

    def respond(path: str, query: dict[str, list[str]], token: str | None) -> tuple[int, bytes]:
        answer = asked(path, query, token)
        if path.endswith("/taskInstances"):
            now = {"timestamp": datetime.now(timezone.utc).isoformat()}
            api.events[1:] = [{**event(2, "orders:0:10:20"), **now}]
        return answer

    api.respond = respond  # type: ignore[method-assign]

    assert coverage.main(["orders", "--window", "orders:0:0:20"]) == 0


def test_a_task_that_was_cleared_goes_on(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no state until it is scheduled; its entry is of the failure before. What nobody has copied is missing."""
    assert coverage.main(["orders"]) == 2
    assert "has read: none; got 'orders'" in capsys.readouterr().err
    assert coverage.main(["orders", "--window", "orders:0:0:5"]) == 1
    assert "orders -> (no target is known): 0 runs" in capsys.readouterr().out
    api.tasks = [instance("copy", "failed") | {"state": None}]
    api.states = {"copy": [stored(state="partial", planned_ranges=["orders:0:0:5"])]}

    assert coverage.main(["orders"]) == 4
    assert "> unfinished" in capsys.readouterr().out


def test_what_a_backfill_in_the_queue_is_to_copy_waits(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a task that has not begun, nothing is read."""
    hours = [f"backfill__2026-11-20T0{hour}:00:00+00:00" for hour in range(3)]
    api.events = [event(i, f"orders:0:{i * 10}:{i * 10 + 10}") | {"source_run_id": hours[i]} for i in (0, 2)]
    new = {"start_date": None, "try_number": 0, "dag_run_id": hours[1]}
    api.tasks = [instance("copy", "queued", **new), instance("copy", "queued", **new, dag_id="another")]

    assert coverage.main(["orders"]) == 4
    printed = capsys.readouterr().out
    assert "~ waiting" in printed
    assert "20 covered, 10 waiting" in printed
    assert f"Do not replay it before:\n  hourly / {hours[1]} / copy (queued)" in printed
    assert "another" not in printed
    assert not [path for path in api.asked if "state-store" in path]


def test_a_copy_that_waits_longer_than_the_time_is_unfinished(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """A deferred task is not updated while it waits."""
    api.events = [event(1, "orders:0:0:10")]
    api.tasks = [instance("copy", "deferred", updated_at="2026-11-01T00:00:00+00:00")]
    api.states = {"copy": [stored(state="running", planned_ranges=["orders:0:10:20"])]}

    assert coverage.main(["orders", "--since", "2026-11-19"]) == 4
    assert "> unfinished" in capsys.readouterr().out


def test_what_was_not_read_is_said_and_is_not_complete(
    api: Api, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions that were not searched for failed runs, and what tasks of another version have stored. An event that is
    not read can only add to what is there.
    """
    monkeypatch.setattr(ledger_api, "MAX_FUNCTIONS", 1)
    api.events = [{**event(n, f"orders:0:{n}:{n + 1}"), "source_dag_id": f"dag-{n}"} for n in range(2)]
    assert coverage.main(["orders"]) == 4
    assert "of 2 tasks with events only 1 were searched" in capsys.readouterr().out

    api.events = [event(1, "orders:0:0:10"), event(2, "orders:0:10:20", version=2)]
    assert coverage.main(["orders"]) == 0
    api.tasks, api.states = [instance("copy", "failed")], {"copy": [stored(version=2)]}
    assert coverage.main(["orders"]) == 4
    assert "has stored is of another version" in capsys.readouterr().out


def test_a_time_limits_what_is_asked_for(api: Api) -> None:
    coverage.main(["orders", "--since", "2026-11-01T00:00:00", "--until", "2026-11-20T00:00:00Z"])

    for path in api.asked:
        query = parse_qs(urlsplit(path).query)
        begins, ends = ("timestamp_gte", "timestamp_lt") if "events" in path else ("updated_at_gte", "start_date_lt")
        assert query[ends] == ["2026-11-20T00:00:00+00:00"]
        # A task that goes on is of every time.
        assert query.get(begins) == (None if "running" in query.get("state", ()) else ["2026-11-01T00:00:00+00:00"])
    # What ends now is not of this time.
    assert sum("assets/events" in path for path in api.asked) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, b"{}"), "refuses"),
        ((403, b"{}"), "refuses"),
        ((302, b""), "refuses"),
        ((404, b"{}"), "status 404"),
        ((500, b"oops"), "status 500"),
        ((200, b"<html>"), "must answer"),
        ((200, b"[]"), "must answer"),
        ((200, b"{}"), "must list"),
    ],
)
def test_an_answer_that_is_none_ends_the_command_with_a_name(
    api: Api, capsys: pytest.CaptureFixture[str], answer: tuple[int, bytes], said: str
) -> None:
    api.answer = answer

    assert coverage.main(["orders"]) == 3

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("AirflowApiError: ")
    assert said in printed.err
    assert TOKEN not in printed.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a/b"], "topic name"),
        (["orders", "--window", "orders:0:5"], "offset range"),
        (["orders", "--window", "payments:0:0:5"], "must be of the topic 'orders'"),
        (["orders", "--since", "yesterday"], "--since must be a time"),
        (["orders", "--url", "ftp://airflow"], "must be a URL"),
        (["orders", "--url", "http://me:hidden@airflow"], "must be a URL without a user"),
        (["orders", "--source-conn-id", "x", "--source", "y"], "leave --window and --source out"),
        (["orders", "--target-conn-id", "x", "--target", "y"], "leave --target out"),
        (["orders"], "AIRFLOW_API_TOKEN"),
        (["orders", "--url", "http://127.0.0.1:9"], "Check the address, and that the API server runs"),
    ],
)
def test_bad_input_has_a_name(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    if arguments == ["orders"]:
        monkeypatch.delenv("AIRFLOW_API_TOKEN")
    assert coverage.main(arguments) == (3 if said.startswith("Check") else 2)

    error = capsys.readouterr().err
    assert said in error
    assert "hidden" not in error
    assert api.asked == []
