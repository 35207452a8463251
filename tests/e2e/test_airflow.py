"""A real Airflow with all its parts: a backfill and a clear, and jobs with recognisable secrets; in full also tasks
that end in one moment, the forms of a connection and of an incident, and sensors and a watcher through the triggerer.

What only this proves: that scheduler, API server, task supervisors and triggerer do with our operators and triggers
what ``dag.test()`` and the tests' fakes do.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.state.deployment import VARIABLE
from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.copy_proof import prove_copy, provenance_of
from tests.e2e.connection_form import LOGIN, PASSWORD, USER, ConnectionForm, extra
from tests.e2e.process_mark import ProcessMark
from tests.e2e.secret_world import DAG as SECRETS
from tests.e2e.secret_world import PRIVATE, World, found_secrets, run_all, secured_world
from tests.e2e.shop import Shop
from tests.services.airflow_standalone import AirflowStandalone

T = TypeVar("T")

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(1500)]

BACKFILLED, INCIDENT = "hourly_window_copy", "replay_incident"
DAG_FILES = (f"{BACKFILLED}.py", f"{INCIDENT}.py", "together.py", "waiting.py")
SECRET_DAGS = Path(__file__).parent / "secret_dags/secrets.py"
HOURS = 2
PER_HOUR = 1_000
SENSORS = 12
#: What the DAGs of ``waiting_dags`` read.
WAITED, WATCHED = "waited", "watched"
_SECONDS = 400.0
#: As a person would take at least, and the scheduler of a busy machine.
_READING_SECONDS = 10.0
#: Airflow's commands one after the other in one process, each as one argument.
_COMMANDS = """
import sys
from airflow.cli.cli_parser import get_parser
for words in sys.argv[1:]:
    arguments = get_parser().parse_args(words.split())
    arguments.func(arguments)
"""


class Incident:
    """A run of the DAG that a form starts."""

    def __init__(self, airflow: AirflowStandalone, **form: Any) -> None:
        self.airflow = airflow
        run = airflow.post(f"dags/{INCIDENT}/dagRuns", {"logical_date": None, "conf": form})["dag_run_id"]
        self._path = f"dags/{INCIDENT}/dagRuns/{run}/taskInstances"

    def wait_for(self, task: str, *expected: str) -> None:
        def is_there() -> bool:
            states = {ti["task_id"]: ti["state"] for ti in self.airflow.get(self._path)["task_instances"]}
            assert "failed" not in states.values() or "failed" in expected, f"{states}\n{self.airflow.tail()}"
            return states[task] in expected

        until(self.airflow, is_there, f"task {task} to be one of {expected}")

    def question(self) -> str:
        """What the person sees."""
        details = self.airflow.get(f"{self._path}/approve/-1/hitlDetails")
        return f"{details['subject']}\n{details['body']}"

    def answer(self, choice: str) -> None:
        self.airflow.patch(f"{self._path}/approve/-1/hitlDetails", {"chosen_options": [choice]})

    def result(self, task: str) -> dict[str, Any]:
        value: dict[str, Any] = self.airflow.get(f"{self._path}/{task}/xcomEntries/return_value?stringify=false")
        found: dict[str, Any] = value["value"]
        return found


@dataclass
class Scene:
    """All of Airflow, with what was started in it."""

    airflow: AirflowStandalone
    world: World
    #: The first hour that is backfilled.
    first: datetime
    #: The hour of the incident.
    hour: datetime


@pytest.fixture(scope="module")
def scene(shop: Shop, airflow_home: AirflowHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """At the end no process is left."""
    for name in (WAITED, WATCHED):
        if name in shop.broker.topics():
            shop.broker.delete_topic(name)
        shop.broker.create_topic(name, 2)
    # Each file takes some seconds to parse.
    dags = tmp_path_factory.mktemp("dags")
    for name in DAG_FILES:
        shutil.copy(airflow_home.dags / name, dags)
    shutil.copy(SECRET_DAGS, dags)
    settings = {**airflow_home.settings, "AIRFLOW__CORE__PARALLELISM": "6"}
    home = replace(airflow_home, dags=dags, settings=settings)
    first, hour, mark = shop.end - timedelta(hours=5), shop.end - timedelta(hours=3), ProcessMark()
    with secured_world(home, tmp_path_factory.mktemp("secrets")) as world:
        _create_backfill(world.home, first)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in mark.environment.items():
                patch.setenv(variable, value)
            airflow = AirflowStandalone(world.home)
        with airflow:
            # Not before: a scheduler that is there first starts tasks for which there is no API server yet.
            unpause(airflow, BACKFILLED)
            yield Scene(airflow, world, first, hour)
    assert mark.alive() == []


def test_every_record_of_the_backfilled_hours_lands_in_exactly_one_window(scene: Scene, shop: Shop) -> None:
    airflow = scene.airflow
    runs = _backfilled_runs(airflow)
    results = [_xcom(airflow, BACKFILLED, run, "copy") for run in runs]
    entries = [airflow.get(f"dags/{BACKFILLED}/dagRuns/{run}/taskInstances/copy/xcomEntries") for run in runs]
    buttons = [airflow.get(f"dags/{BACKFILLED}/dagRuns/{run}/taskInstances/copy/links") for run in runs]
    found = airflow.get(f"assets/events?source_dag_id={BACKFILLED}")["asset_events"]
    # Those of the DAG's own outlet.
    events = {event["source_run_id"]: event["extra"] for event in found if event["name"] == "orders_copy"}
    airflow.post(
        f"dags/{BACKFILLED}/clearTaskInstances", {"dry_run": False, "dag_run_id": runs[0], "only_failed": False}
    )
    assert _backfilled_runs(airflow) == runs
    cleared = _xcom(airflow, BACKFILLED, runs[0], "copy")
    after = airflow.get(f"assets/events?source_dag_id={BACKFILLED}")["asset_events"]
    events_of_clear = [event["name"] for event in after if event["id"] not in {e["id"] for e in found}]
    with closing(sqlite3.connect(airflow.home.database)) as database:
        kept = database.execute(
            "SELECT expires_at FROM task_state_store WHERE key = 'kafka_spark_run' AND dag_id = ?", [BACKFILLED]
        ).fetchall()
        named = database.execute("SELECT count(*) FROM variable WHERE key = ?", [VARIABLE]).fetchone()
    assert (len(kept) >= HOURS, set(kept)) == (True, {(None,)})
    # Of two tasks in one moment both may have stored it.
    assert named == (1,)

    # Every record is in exactly one window, by its headers alone.
    target = shop.broker.consume("orders_copy")
    ours = {result["run_id"] for result in results}
    origins = [p for p in map(provenance_of, target) if p is not None and p.run_id in ours]
    assert len(ours) == HOURS
    assert sorted((p.topic, p.partition, p.offset) for p in origins) == sorted(shop.of_hours(scene.first, HOURS))
    assert len(origins) == HOURS * PER_HOUR

    # So is it after a clear, which finds all of its hour, and announces nothing twice: its event is for the ledger.
    assert (cleared["run_id"], cleared["delivered_before"]) == (results[0]["run_id"], PER_HOUR)
    assert events_of_clear == ["kafka_spark_copies"]
    assert cleared["target_ranges"] == results[0]["target_ranges"]

    for number, (run, result, stored, button) in enumerate(zip(runs, results, entries, buttons, strict=True)):
        assert all(p.holds for p in prove_copy(result, {"orders": shop.orders}, target))
        window = shop.of_hours(scene.first + timedelta(hours=number), 1)
        assert {(p.topic, p.partition, p.offset) for p in origins if p.run_id == result["run_id"]} == set(window)
        _check_result(result)
        # The Spark UI has ended with the job.
        assert [entry["key"] for entry in stored["xcom_entries"]] == ["return_value"]
        link = f"dags/{BACKFILLED}/runs/{quote(run, safe='')}/plugin/kafka-coverage-run"
        assert button["extra_links"] == {"Kafka coverage": link, "Spark application": None}
        expected = {
            "run_id": result["run_id"],
            "records_written": PER_HOUR,
            "offset_ranges": ["{topic}:{partition}:{from_offset}:{until_offset}".format(**r) for r in result["ranges"]],
            "target_ranges": result["target_ranges"],
        }
        assert {name: events[run][name] for name in expected} == expected


def test_no_secret_where_it_does_not_belong(scene: Scene) -> None:
    world = scene.world
    unpause(scene.airflow, SECRETS)
    processes, rendered = run_all(world, scene.airflow)

    assert found_secrets(world, processes, rendered) == []
    # And what was private while the jobs ran is gone.
    assert world.modes == {"folder": {0o700}, **{name: {0o600} for name in PRIVATE}}
    assert world.left is not None
    assert not world.left.exists()
    assert list(world.home.scratch.rglob("airflow-kafka-spark-*")) == []


@pytest.mark.long
def test_all_that_end_in_one_moment_end_well(scene: Scene, shop: Shop) -> None:
    """Airflow fails a task, whatever its retries, if another one makes the same asset known in the same moment."""
    airflow = scene.airflow
    airflow.post("dags/together/dagRuns", {"logical_date": None})
    _ended_well(airflow, "together", "manual")

    events = airflow.get("assets/events?source_dag_id=together&order_by=source_map_index")["asset_events"]
    in_kafka = f"kafka://{shop.broker.bootstrap_servers}/together"
    for name in ("kafka_spark_copies", in_kafka):
        assert [event["source_map_index"] for event in events if event["name"] == name] == [0, 1, 2, 3]
    assert len(events) == 2 * 4
    # A run of the DAG that is scheduled by the topic is for those that were there when Airflow made it.
    (woken, *_) = _ended_well(airflow, "after_together", "asset_triggered")
    announced = _xcom(airflow, "after_together", woken, "announced")
    written = [event["extra"]["target_ranges"] for event in events if event["name"] == in_kafka]
    assert announced
    assert all([r] in written for r in announced)


def _check_result(result: dict[str, Any]) -> None:
    """The form of the XCom that the documentation promises."""
    counts = {"version": 1, "records_read": PER_HOUR, "records_written": PER_HOUR, "duplicates": 0, "missing": 0}
    assert {name: result[name] for name in counts} == counts
    assert [set(r) for r in result["ranges"]] == [
        {"topic", "partition", "from_offset", "until_offset", "records_read", "records_written", "topic_id"}
    ] * 4
    assert result["target_topics"] == ["orders_copy"]
    assert result["application_id"].startswith("local-")
    assert result["spark_version"]
    assert result["seconds"] > 0


def _create_backfill(home: AirflowHome, first: datetime) -> None:
    """Ask for the hours before the scheduler runs.

    Airflow reads in a savepoint and then writes; if another of its parts writes in between, SQLite calls the database
    locked at once, however long one would wait.
    """
    start, end = (moment.isoformat() for moment in (first, first + timedelta(hours=HOURS - 1)))
    create = f"backfill create --dag-id {BACKFILLED} --from-date {start} --to-date {end} --max-active-runs 2"
    home.run(
        [sys.executable, "-c", _COMMANDS, "dags reserialize", create], home.logs / "backfill-create.log", timeout=240
    )


def _backfilled_runs(airflow: AirflowStandalone) -> list[str]:
    """Wait for the runs of the backfill and return their ids, in the order of the hours."""
    runs = _ended_well(airflow, BACKFILLED, "backfill")
    assert len(runs) == HOURS
    return runs


def _ended_well(airflow: AirflowStandalone, dag: str, kind: str) -> list[str]:
    """Wait for the runs of a DAG and return their ids, in the order of their dates."""

    def ended() -> dict[str, str]:
        found = airflow.get(f"dags/{dag}/dagRuns?order_by=logical_date&run_type={kind}")["dag_runs"]
        states = {run["dag_run_id"]: run["state"] for run in found}
        return states if states and set(states.values()) <= {"success", "failed"} else {}

    states = until(airflow, ended, f"the runs of {dag} to end")
    logs = sorted(airflow.home.logs.glob(f"dag_id={dag}/*/*/*.log"))
    tails = "\n".join(f"The end of {log}:\n{log.read_text(errors='replace')[-3000:]}" for log in logs[-3:])
    assert set(states.values()) == {"success"}, f"{states}\n{tails}"
    return list(states)


@pytest.mark.long
def test_a_form_a_plan_an_approval_and_exactly_that_replay(scene: Scene, shop: Shop) -> None:
    """As a person fills the form in and approves the plan. Another one rejects it, and that run fails; so does a form
    without records.
    """
    airflow, end = scene.airflow, (scene.hour + timedelta(hours=1)).isoformat()
    unpause(airflow, INCIDENT)
    by_window = Incident(airflow, start=scene.hour.isoformat(), end=end, pace=5000)
    # The topic of the form is for a window, and that of the question is what is replayed.
    rejected = Incident(airflow, topic="payments", ranges=["orders:0:10:20", "orders:1:0:5"])
    nothing = Incident(airflow, end=end)
    for incident in (by_window, rejected):
        incident.wait_for("approve", "awaiting_input", "deferred")
    # Airflow 3.3.2 fails a task whose answer comes before its scheduler knows that the process has ended.
    time.sleep(_READING_SECONDS)
    seen, seen_ranges = by_window.question(), rejected.question()
    nothing.wait_for("plan_window", "failed")
    before = len(shop.broker.consume("orders_replay"))
    by_window.answer("Approve")
    rejected.answer("Reject")
    by_window.wait_for("audit", "success")
    rejected.wait_for("approve", "failed")
    plan, result, audited = (by_window.result(task) for task in ("plan_window", "replay", "audit"))

    records = shop.of_hours(scene.hour, 1)
    assert (audited["once"], audited["state"]) == (result["records_written"], "complete")
    assert plan["markdown"] in seen
    assert f"{len(records):,}" in seen
    assert "- Pace: `at most 5,000 records/s" in seen
    for part in ("- Asked for: `orders from ", "- Asked by: `", "- Brokers: `", "- Copied there before: `"):
        assert part in seen
    assert seen.startswith("Replay orders to orders_replay?")
    assert seen_ranges.startswith("Replay orders to orders_replay?")
    assert "orders[0]" in seen_ranges
    assert result["records_read"] == len(records) == plan["planned_records"]
    assert result["records_written"] == len(records)
    target = shop.broker.consume("orders_replay")
    assert len(target) - before == result["records_written"]
    origins = [origin for origin in map(provenance_of, target) if origin and origin.run_id == result["run_id"]]
    assert {(o.topic, o.partition, o.offset) for o in origins} == set(records)


@pytest.mark.long
def test_the_form_of_a_connection(scene: Scene, shop: Shop) -> None:
    """Its page sends these requests. The button "Test" uses the stored password, which the page never has; the port is
    not hidden, and Airflow 3.3.2 does not test a stored connection without one (if a newer one does, change the
    documentation).
    """
    form = ConnectionForm(scene.airflow)
    with KafkaBroker(sasl_users={USER: PASSWORD}) as broker:
        servers = broker.sasl_bootstrap_servers
        form.add("made", host=servers, port="9092", login=USER, password=PASSWORD, extra=extra(**LOGIN))
        passes, message = form.test("made")
        assert passes, message
        assert f"login: {USER} by SCRAM-SHA-512" in message
        form.edit("made", login="somebody")
        passes, message = form.test("made")
        assert not passes
        assert message.startswith("Login failed. The broker refused the user or the password.")
        assert 'sasl.username is "User" (login)' in message

    form.add("portless", host=shop.broker.bootstrap_servers)
    with pytest.raises(LocalServiceError, match="400: Bad Request"):
        form.test("portless")
    form.edit("portless", port="9092")
    passes, message = form.test("portless")
    assert passes, message

    meta = form.fields()
    assert meta["standard_fields"]["port"]["hidden"] is False
    sections = list(dict.fromkeys(field["schema"]["section"] for field in meta["extra_fields"].values()))
    assert (sections[0], len(sections)) == ("Protocol and login (for every secured cluster)", 5)
    assert list(meta["extra_fields"])[:3] == ["security_protocol", "sasl_mechanism", "ssl_ca"]


@pytest.mark.long
def test_sensors_wake_up_and_a_watcher_goes_on_after_a_restart(scene: Scene, shop: Shop) -> None:
    """Deferred sensors end as they would by poking; the watcher announces every record once, those too that arrive
    while there is no triggerer.
    """
    airflow, broker = scene.airflow, shop.broker
    # Not before, since Airflow on SQLite may fail a sensor that is rescheduled often.
    unpause(airflow, "waiting")
    run = until(airflow, lambda: _runs(airflow, "waiting"), "a run of the DAG 'waiting'")[0]
    until(
        airflow,
        lambda: list(_states(airflow, run, "new").values()) == ["deferred"] * SENSORS,
        "all sensors to be deferred",
    )
    _produce(broker, WAITED, 10)
    _produce(broker, WATCHED, 10)
    ended = until(
        airflow,
        lambda: (s := _states(airflow, run)) and not set(s.values()) - {"success", "failed", "skipped"} and s,
        "the run to end",
    )
    assert ended == {
        **{("new", number): "success" for number in range(SENSORS)},
        ("reached", -1): "success",
        ("poked", -1): "success",
        ("impossible", -1): "failed",
        ("too_late", -1): "skipped",
        ("lag", -1): "success",
    }
    found = [_xcom(airflow, "waiting", run, "new", number) for number in range(SENSORS)]
    assert all(ranges == found[0] for ranges in found)
    assert _count(found[0]) > 0
    for task in ("reached", "poked"):
        offsets = _xcom(airflow, "waiting", run, task)[WAITED]
        assert offsets.pop("topic_id")
        assert offsets == {"0": 0, "1": 0}
    until(airflow, lambda: _covered(airflow) == 10, "the watched records to be announced")

    airflow.stop()
    _produce(broker, WATCHED, 6)
    airflow.start()
    until(airflow, lambda: _covered(airflow) >= 16, "what arrived meanwhile to be announced")
    _produce(broker, WATCHED, 4)
    until(airflow, lambda: _covered(airflow) >= 20, "what arrived then to be announced")
    announced = _announced(airflow)
    # The run for the last event may come a moment after those before it have ended.
    taken = until(
        airflow, lambda: (r := _taken(airflow)) and _count(r) >= 20 and r, "the woken runs to take it all and end"
    )

    # Every offset once, and consecutive.
    for partition in (0, 1):
        of_partition = sorted(
            (r["from_offset"], r["until_offset"]) for p in announced for r in p["ranges"] if r["partition"] == partition
        )
        assert [start for start, _ in of_partition] == [0, *(end for _, end in of_partition[:-1])]
        assert of_partition[-1][1] == 10
    assert sorted(p["number"] for p in announced) == list(range(1, len(announced) + 1))
    assert _count(taken) == 20


def unpause(airflow: AirflowStandalone, *dags: str) -> None:
    for dag in dags:
        airflow.patch(f"dags/{dag}", {"is_paused": False})


def _produce(broker: KafkaBroker, topic: str, count: int) -> None:
    broker.produce(topic, [Record(value=b"v", partition=i % 2) for i in range(count)])


def until(airflow: AirflowStandalone, condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + _SECONDS
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"Expected {what} within {_SECONDS:.0f} s.\n{airflow.tail()}"
        time.sleep(0.5)


def _runs(airflow: AirflowStandalone, dag: str) -> list[str]:
    return [r["dag_run_id"] for r in airflow.get(f"dags/{dag}/dagRuns?order_by=run_after")["dag_runs"]]


def _states(airflow: AirflowStandalone, run: str, task: str | None = None) -> dict[Any, Any]:
    found = airflow.get(f"dags/waiting/dagRuns/{run}/taskInstances?limit=500")["task_instances"]
    return {(i["task_id"], i["map_index"]): i["state"] for i in found if task in (None, i["task_id"])}


def _xcom(airflow: AirflowStandalone, dag: str, run: str, task: str, index: int = -1) -> Any:
    path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value?stringify=false&map_index={index}"
    return airflow.get(path)["value"]


def _announced(airflow: AirflowStandalone) -> list[dict[str, Any]]:
    found = airflow.get("assets/events?limit=100&order_by=-timestamp")["asset_events"]
    return [event["extra"]["payload"] for event in found if event["uri"] == "x-kafka-spark://arrived"]


def _covered(airflow: AirflowStandalone) -> int:
    return sum(_count(p["ranges"]) for p in _announced(airflow))


def _taken(airflow: AirflowStandalone) -> list[dict[str, Any]]:
    """The ranges of all woken runs; none while one of them has not ended well."""
    runs = _runs(airflow, "woken")
    if any(airflow.get(f"dags/woken/dagRuns/{run}")["state"] != "success" for run in runs):
        return []
    return [r for run in runs for r in _xcom(airflow, "woken", run, "announced")]


def _count(ranges: list[dict[str, Any]]) -> int:
    return sum(r["until_offset"] - r["from_offset"] for r in ranges)
