"""Run the main job on real components: Airflow replays offset ranges of a Kafka topic through Spark into another, with
the proof that every record arrived.

``make demo``, or ``python -m tests.demo``. Ctrl-C ends it at any moment,
with all its processes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.testing.stoppable import Stoppable

if TYPE_CHECKING:
    from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome
    from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
    from airflow_provider_kafka_spark.testing.record import Record
    from tests.services.dag_runs import DagRuns

CHECKOUT = Path(__file__).resolve().parents[1]
PARTITIONS = 4
HOURS = 24
#: The replay's ranges end at offset 5,000 of each partition.
FEWEST_RECORDS = 20_000
_TOPICS = ("orders", "orders_copy", "orders_replay")


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 if all records were where they should be."""
    stoppable = Stoppable("demo")
    options = _parse(argv)
    scratch = Path(tempfile.mkdtemp(prefix="kafka-spark-demo-"))
    # The broker's files too: nothing is left when the demo is interrupted.
    tempfile.tempdir = str(scratch)
    demo = Demo(options.records, CHECKOUT / "dags", options.home.resolve(), scratch, stoppable.emit)
    try:
        return stoppable.run(
            demo.open_ui if options.ui else demo.run, lambda: shutil.rmtree(scratch, ignore_errors=True)
        )
    except KafkaSparkError as error:
        sys.stderr.write(f"\ndemo: {type(error).__name__}: {error}\n")
        return 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.demo",
        description="Run two example DAGs on an embedded Kafka broker, and compare source and target. Ctrl-C ends it.",
    )
    parser.add_argument(
        "--records", type=int, default=200_000, metavar="N", help="orders in the source topic (default: 200000)"
    )
    parser.add_argument(
        "--home",
        type=Path,
        default=CHECKOUT / ".demo",
        metavar="FOLDER",
        help="the demo's AIRFLOW_HOME (default: .demo)",
    )
    parser.add_argument("--ui", action="store_true", help="open the Airflow UI on the demo's environment instead")
    options = parser.parse_args(argv)
    if options.records < FEWEST_RECORDS:
        parser.error(f"--records: expected at least {FEWEST_RECORDS}, for the replay's ranges; got {options.records}")
    return options


@dataclass(frozen=True, slots=True)
class Example:
    """A DAG that the demo runs.

    :param task_id: the copying task.
    :param target: the target topic.
    :param what: a description of the copied records.
    :param keep: the same as its ``where``, in Python.
    """

    dag_id: str
    task_id: str
    target: str
    what: str
    keep: Callable[[Record], bool] = lambda _: True


def _last_full_hour() -> datetime:
    return datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


def _is_cancelled(order: Record) -> bool:
    """The same as the ``where`` of ``dags/replay_offset_ranges.py``, in Python."""
    if order.value is None:
        return False
    status: str = json.loads(order.value)["status"]
    return status == "cancelled"


_EXAMPLES = (
    Example("hourly_window_copy", "copy", "orders_copy", "the last full hour of orders"),
    Example(
        "replay_offset_ranges", "replay", "orders_replay", "the cancelled orders of five offset ranges", _is_cancelled
    ),
)


@dataclass(frozen=True, slots=True)
class Demo:
    """The steps of the demo.

    :param records: orders in the source topic.
    :param dags: folder with the example DAGs.
    :param home: the demo's ``AIRFLOW_HOME``, kept for the next time.
    :param scratch: a folder for temporary files.
    :param emit: prints.
    """

    records: int
    dags: Path
    home: Path
    scratch: Path
    emit: Callable[..., None]

    def run(self) -> int:
        """Copy an hour, replay some ranges, prove both. Returns 0 if the proof holds."""
        from tests.services.dag_runs import DagRuns

        started = time.monotonic()
        end = _last_full_hour()
        with self._broker() as broker:
            home = self._airflow(broker)
            self._fill(broker, end)
            if not home.database.exists():
                self.emit("Airflow: making the database of the demo ...")
            home.migrate()
            source = broker.consume("orders")
            with DagRuns(home) as runs:
                # Run both, even if the first fails.
                proofs = [self._show(home, runs, broker, source, end, example) for example in _EXAMPLES]
        holds = all(proofs)
        self.emit()
        self.emit(
            "PROVED: every planned record is in its target exactly once, with the same key, value and headers."
            if holds
            else "FAILED: source and target differ; see the tables above."
        )
        self.emit(f"{time.monotonic() - started:.0f} seconds. Logs: {home.logs}. `make demo-ui` opens the Airflow UI.")
        return 0 if holds else 1

    def open_ui(self) -> int:
        """Start all of Airflow on the demo's environment, until Ctrl-C."""
        from tests.services.airflow_standalone import AirflowStandalone

        with self._broker() as broker:
            home = self._airflow(broker)
            self._fill(broker, _last_full_hour())
            self.emit("Airflow: starting scheduler, API server, DAG processor and triggerer ...")
            home.migrate()
            home.fail_unfinished_runs()
            with AirflowStandalone(home) as airflow:
                self.emit()
                self.emit(f"Airflow UI   {airflow.url}")
                self.emit(f"user         {airflow.user}")
                self.emit(f"password     {airflow.password}")
                self.emit(f"Kafka        {broker.bootstrap_servers}")
                self.emit(f"log          {airflow.log}")
                self.emit(
                    "Trigger one of the DAGs; hourly_window_copy also runs by itself, each hour. Ctrl-C ends "
                    "everything."
                )
                while airflow.running and broker.running:
                    time.sleep(0.2)
                self.emit(f"A part ended by itself.\n{airflow.tail() if not airflow.running else broker.log}")
                return 1

    def _broker(self) -> KafkaBroker:
        from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker

        self.emit("Kafka: starting a broker (the first time, its jars are fetched) ...")
        return KafkaBroker()

    def _airflow(self, broker: KafkaBroker) -> AirflowHome:
        from airflow_provider_kafka_spark.testing.airflow_home import AirflowHome

        return AirflowHome(
            self.home,
            self.dags,
            self.scratch,
            connections={
                "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}},
                "spark_default": {"conn_type": "spark", "host": "local[2]"},
            },
            settings={
                "AIRFLOW_VAR_CHECKPOINTS": str(self.home / "checkpoints"),
                # In the UI a DAG runs only after it is unpaused, so that not all examples start at once.
                "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            },
        )

    def _fill(self, broker: KafkaBroker, end: datetime) -> None:
        from airflow_provider_kafka_spark.testing.orders import orders

        for topic in _TOPICS:
            broker.create_topic(topic, PARTITIONS)
        started = time.monotonic()
        length = timedelta(hours=HOURS)
        broker.produce("orders", orders(self.records, PARTITIONS, end - length, length))
        self.emit(
            f"Kafka: {self.records:,} orders of {end - length:%d %B %H:%M} to {end:%d %B %H:%M} UTC in {PARTITIONS} "
            f"partitions of 'orders' at {broker.bootstrap_servers} ({time.monotonic() - started:.1f} s)."
        )

    def _show(
        self,
        home: AirflowHome,
        runs: DagRuns,
        broker: KafkaBroker,
        source: list[Record],
        end: datetime,
        example: Example,
    ) -> bool:
        """Run one DAG, print its task's log lines, compare source and target, and return whether the proof holds."""
        from tests.copy_proof import prove_copy
        from tests.task_log import TaskLog

        log = home.logs / f"{example.dag_id}.log"
        self.emit()
        self.emit(f"== DAG {example.dag_id}: {example.what} -> {example.target}")
        self.emit(f"   dags/{example.dag_id}.py, log {log}")
        log.unlink(missing_ok=True)
        follower = TaskLog(log)
        started = time.monotonic()

        def show_messages() -> None:
            for message in follower.new_messages():
                # The result is printed as a table below.
                text = message.replace("\n", "\n         ")
                self.emit(f"{time.monotonic() - started:6.1f} s {text}")

        left = runs.run(example.dag_id, log, logical_date=end.isoformat(), watch=show_messages)
        result = left["tasks"][example.task_id]["-1"]["xcom"]["return_value"]
        self.emit()
        self.emit(
            f"The report of run {result['run_id']} (Spark {result['spark_version']}, {result['application_id']}):"
        )
        self._table(
            ("range", "read", "written"),
            [
                (
                    f"{r['topic']}[{r['partition']}] {r['from_offset']:,}..{r['until_offset']:,}",
                    r["records_read"],
                    r["records_written"],
                )
                for r in result["ranges"]
            ],
        )
        proofs = prove_copy(result, {"orders": source}, broker.consume(example.target), example.keep)
        self.emit(
            f"Source and target, read back by another client (header x-kafka-spark-source of run {result['run_id']}):"
        )
        self._table(
            ("source", "to copy", "exactly once", "byte for byte", "unexpected"),
            [(str(p.source), p.expected, p.once, p.identical, p.unexpected) for p in proofs],
        )
        written: int = result["records_written"]
        return all(p.holds for p in proofs) and sum(p.expected for p in proofs) == written > 0

    def _table(self, headings: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
        """Print with totals."""
        rows = list(rows)
        numbers = [[int(row[i]) for row in rows] for i in range(1, len(headings))]
        cells = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
        cells = [list(headings), *cells, ["total", *(f"{sum(column):,}" for column in numbers)]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
        for row in cells:
            first, *others = row
            right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            self.emit("   " + "  ".join([first.ljust(widths[0]), *right]))


if __name__ == "__main__":
    sys.exit(main())
