"""The cost of waiting: many deferred sensors on one connection, ours and the Kafka provider's."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports
from benchmarks.request_counter import RequestCounter
from benchmarks.rounds import emit
from benchmarks.table import Goal, Section
from benchmarks.waiting import INTERVAL, OURS, PEER

#: Until clients are connected and groups are formed, as far as they are going to be.
_SETTLE_SECONDS = 30.0
_WINDOW_SECONDS = 20.0
_WAKE_SECONDS = 120.0
_POLL_SECONDS = 0.05
PEER_PACKAGE = "apache-airflow-providers-apache-kafka"
NAMES = {OURS: "`KafkaNewRecordsSensor`", PEER: "`AwaitMessageSensor` of the Kafka provider"}


@dataclass(frozen=True)
class Cost:
    """The counts of one process with many waiting triggers.

    :param delays: seconds from the last record's acknowledgement to each wake-up.
    """

    clients: int
    connections: int
    threads: int
    megabytes: float
    requests_per_second: float
    delays: list[float]


def measure(sensors: int, folder: Path) -> Section:
    """Start the sensors, count their requests, and wake them."""
    emit(f"Sensors: {sensors} deferred ones on one connection")
    costs: dict[str, Cost] = {OURS: _cost(OURS, sensors, folder)}
    if importlib.util.find_spec("airflow.providers.apache.kafka") is not None:
        costs[PEER] = _cost(PEER, sensors, folder)
    rows = [[NAMES[kind], *_cells(cost, sensors)] for kind, cost in costs.items()]
    if PEER not in costs:
        rows.append([NAMES[PEER], f"not available: pip install {PEER_PACKAGE}", *[""] * 6])
    ours = costs[OURS]
    slowest = max(ours.delays) if len(ours.delays) == sensors else float("inf")
    return Section(
        "Sensors",
        f"{sensors} triggers of deferred sensors in one event loop, as a triggerer runs them, on one connection and "
        f"one topic of {sensors} partitions; each evaluates every {INTERVAL:g} s. Clients are librdkafka's main "
        f"threads; requests are counted on the wire by a relay in front of the broker, over {_WINDOW_SECONDS:g} s of "
        f"waiting. Then each partition gets a record, and the wake-ups of the next {_WAKE_SECONDS:g} s are timed. All "
        "of the Kafka provider's triggers are members of the connection's one group, so each needs a partition of its "
        "own.",
        [
            "Sensor", "Clients", "Connections", "Threads", "Memory in MB", "Requests per second", "Woken",
            "Median and slowest wake-up in s",
        ],
        rows,
        goals=[
            Goal("Clients of all our sensors together", ours.clients, 1, at_least=False),
            Goal("Our slowest wake-up, in poll intervals", slowest / INTERVAL, 2, at_least=False),
        ],
    )  # fmt: skip


def _cost(kind: str, sensors: int, folder: Path) -> Cost:
    relay_port, broker_port = free_ports(2)
    properties = {
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{relay_port}",
        # Let hundreds of members come before a group is formed.
        "group.initial.rebalance.delay.ms": "3000",
    }
    topic, result, log = "waited-for", folder / f"{kind}-woken", folder / f"{kind}.log"
    with (
        RequestCounter(relay_port, broker_port) as counter,
        KafkaBroker(properties=properties, port=broker_port, jvm_options=("-Xms1g", "-Xmx1g")) as broker,
    ):
        broker.create_topic(topic, sensors)
        extra = {
            "bootstrap.servers": f"{LOOPBACK}:{relay_port}",
            # Required by the Kafka provider's consumers, not by ours.
            "group.id": "waiting",
            "auto.offset.reset": "earliest",
        }
        environment = {**os.environ, "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
        command = [sys.executable, "-m", "benchmarks.waiting", kind, str(sensors), topic, str(result)]
        checkout = Path(__file__).resolve().parents[1]
        with OwnedProcess(command, log, name=f"waiting sensors ({kind})", cwd=checkout, env=environment) as process:
            _until(result.exists, process, 60)
            _pause(process, _SETTLE_SECONDS)
            before, started = counter.requests, time.monotonic()
            _pause(process, _WINDOW_SECONDS)
            rate = (counter.requests - before) / (time.monotonic() - started)
            pid = _pid_of("benchmarks.waiting", kind)
            threads = thread_names(pid)
            clients = sum(name.startswith("rdk:main") for name in threads)
            connections, memory = counter.connections, _megabytes(pid)
            broker.produce(topic, [Record(value=b"{}", partition=number) for number in range(sensors)])
            produced = time.time()
            deadline = time.monotonic() + _WAKE_SECONDS
            while len(woken := result.read_text().split()) < sensors and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
    delays = sorted(max(0.0, float(moment) - produced) for moment in woken)
    cost = Cost(clients, connections, len(threads), memory, rate, delays)
    emit(f"  {NAMES[kind]}: {cost.clients} clients, {rate:.1f} requests per second, {len(delays)} woken")
    return cost


def _cells(cost: Cost, sensors: int) -> list[str]:
    delays = f"{median(cost.delays):.1f}, {cost.delays[-1]:.1f}" if cost.delays else "none"
    return [
        str(cost.clients),
        str(cost.connections),
        str(cost.threads),
        f"{cost.megabytes:.0f}",
        f"{cost.requests_per_second:.1f}",
        f"{len(cost.delays)} of {sensors}",
        delays,
    ]


def _pid_of(module: str, kind: str) -> int:
    """The id of the process itself, not of OwnedProcess's supervisor."""
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[1:4] == ["-m", module, kind]:
            return int(process.pid)
    raise RuntimeError(f"There must be a process 'python -m {module} {kind}'; it is gone.")


def thread_names(pid: int) -> list[str]:
    return [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]


def _megabytes(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def _until(look: Callable[[], bool], process: OwnedProcess, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        _check(process, deadline)
        time.sleep(_POLL_SECONDS)


def _pause(process: OwnedProcess, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _check(process, end + 1)
        time.sleep(_POLL_SECONDS)


def _check(process: OwnedProcess, deadline: float) -> None:
    if not process.running or time.monotonic() > deadline:
        raise RuntimeError(f"The waiting sensors must run; they do not.\n{process.tail(40)}")
