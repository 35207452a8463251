"""Many deferred sensors through a real scheduler and a real triggerer, ours and the Kafka provider's."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from benchmarks.rounds import emit
from benchmarks.sensors import NAMES, PEER_PACKAGE, thread_names
from benchmarks.table import Goal, Section
from benchmarks.waiting import OURS, PEER
from tests.services.airflow_standalone import AirflowStandalone

INTERVAL = 5.0
_TOPIC = "waited-for"
_START_SECONDS = 900.0
_SETTLE_SECONDS = 20.0
_WAKE_SECONDS = 240.0


def measure(sensors: int, folder: Path) -> Section:
    """Defer the sensors, wake them, and read in the triggerer's logs when each fired."""
    emit(f"Triggerer: {sensors} deferred sensors in a real Airflow")
    found = {OURS: _wake(OURS, sensors, folder)}
    if importlib.util.find_spec("airflow.providers.apache.kafka") is not None:
        found[PEER] = _wake(PEER, sensors, folder)
    rows = [
        [
            NAMES[kind],
            str(clients),
            f"{len(delays)} of {sensors}",
            f"{median(delays):.1f}, {delays[-1]:.1f}" if delays else "none",
        ]
        for kind, (clients, delays) in found.items()
    ]
    if PEER not in found:
        rows.append([NAMES[PEER], f"not available: pip install {PEER_PACKAGE}", "", ""])
    clients, delays = found[OURS]
    slowest = delays[-1] if len(delays) == sensors else float("inf")
    return Section(
        "Sensors through a triggerer",
        f"{sensors} mapped tasks of one DAG in `airflow standalone`, deferred on one connection with an interval of "
        f"{INTERVAL:g} s (`poll_interval` of the Kafka provider, whose `poll_timeout` is its default). Then each of "
        f"the topic's {sensors} partitions gets a record; the time until the trigger fires is read in the triggerer's "
        f"logs, over {_WAKE_SECONDS:g} s. What the scheduler takes to resume the tasks comes on top, the same for "
        "both.",
        ["Sensor", "Clients of the triggerer", "Woken", "Median and slowest wake-up in s"],
        rows,
        goals=[
            Goal("Clients of all our sensors together", clients, 1, at_least=False),
            Goal("Our slowest wake-up, in poll intervals", slowest / INTERVAL, 2, at_least=False),
        ],
    )


def _wake(kind: str, sensors: int, folder: Path) -> tuple[int, list[float]]:
    properties = {"group.initial.rebalance.delay.ms": "3000"}
    with KafkaBroker(properties=properties, jvm_options=("-Xms512m", "-Xmx1g")) as broker:
        broker.create_topic(_TOPIC, sensors)
        extra = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "waiting", "auto.offset.reset": "earliest"}
        (folder / f"scratch-{kind}").mkdir()
        home = AirflowHome(
            folder / f"airflow-{kind}",
            Path(__file__).parent / "waiting_dags",
            folder / f"scratch-{kind}",
            connections={"kafka_default": {"conn_type": "kafka", "extra": extra}},
            settings={
                "AIRFLOW__CORE__PARALLELISM": "4",
                "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(sensors),
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
                "WAITING_KIND": kind,
                "WAITING_SENSORS": str(sensors),
                "WAITING_INTERVAL": str(INTERVAL),
                "WAITING_TOPIC": _TOPIC,
            },
        )
        home.migrate()
        with AirflowStandalone(home) as airflow:
            _until(lambda: _deferred(airflow) == sensors, airflow, _START_SECONDS)
            time.sleep(_SETTLE_SECONDS)
            clients = _clients(home)
            broker.produce(_TOPIC, [Record(value=b"{}", partition=number) for number in range(sensors)])
            produced, deadline = time.time(), time.monotonic() + _WAKE_SECONDS
            while len(fired := _fired(home)) < sensors and time.monotonic() < deadline:
                time.sleep(1.0)
    delays = sorted(max(0.0, moment - produced) for moment in fired)
    emit(
        f"  {NAMES[kind]}: {clients} clients, {len(delays)} woken, the slowest after "
        f"{delays[-1] if delays else 0:.1f} s"
    )
    return clients, delays


def _deferred(airflow: AirflowStandalone) -> int:
    path = "dags/waiting_sensors/dagRuns/~/taskInstances?state=deferred&limit=1"
    if not any(dag["dag_id"] == "waiting_sensors" for dag in airflow.get("dags")["dags"]):
        return 0
    return int(airflow.get(path)["total_entries"])


def _fired(home: AirflowHome) -> list[float]:
    """When each trigger fired: the triggerer writes a log for each."""
    moments = []
    for log in home.logs.glob("dag_id=waiting_sensors/*/task_id=wait/*/*.trigger.*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if '"Trigger fired event"' in line:
                entry: dict[str, Any] = json.loads(line)
                moments.append(datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp())
    return moments


def _clients(home: AirflowHome) -> int:
    """librdkafka clients of the one process of this Airflow that has the most: the triggerer's."""
    most = 0
    for process in psutil.process_iter(["environ"]):
        with suppress(OSError):
            if (process.info["environ"] or {}).get("AIRFLOW_HOME") == str(home.folder):
                most = max(most, sum(name.startswith("rdk:main") for name in thread_names(process.pid)))
    return most


def _until(look: Callable[[], bool], airflow: AirflowStandalone, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        if not airflow.running or time.monotonic() > deadline:
            raise RuntimeError(f"All sensors must be deferred within {seconds:.0f} s.\n{airflow.tail()}")
        time.sleep(2.0)
