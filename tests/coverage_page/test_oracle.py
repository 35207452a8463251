"""An oracle of coverage: after drawn histories of real runs, page, command and ``uncovered()`` say the same, and what
they say is what a plain read of sources and targets finds. No other test compares all four with the brokers.

``DRAWS=60 DRAW_SEED=7 python -m pytest tests/coverage_page/test_oracle.py -m long`` draws more.
"""

from __future__ import annotations

import json
import random
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_kafka_spark import coverage
from airflow_provider_kafka_spark.core.ledger.coverage import Coverage, Stretch
from airflow_provider_kafka_spark.core.ledger.entry import STATE_KEY
from airflow_provider_kafka_spark.core.ledger.pairs import Pair, pairs_of
from airflow_provider_kafka_spark.core.offsets.provenance import provenance_of
from airflow_provider_kafka_spark.operators import available_now, bounded_copy
from airflow_provider_kafka_spark.operators.asset_events import COPIES
from airflow_provider_kafka_spark.state.ledger_api import LedgerApi, Recorded
from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker, Record
from tests.airflow_fakes import TaskStateStore
from tests.core.ledger.test_coverage_cases import recorded_of
from tests.coverage_page.page_modules import Engine
from tests.coverage_page.test_page_modules import _BODY
from tests.draws import SEED, draws
from tests.operators.conftest import in_process_spark as in_process_spark
from tests.operators.conftest import variables as variables
from tests.operators.copy_task import Batch, CopyTask, NewTask, Replay, Stream
from tests.operators.copy_task import new_task as new_task
from tests.required_tools import needs_chromium

pytestmark = [pytest.mark.broker, pytest.mark.spark, needs_chromium]

_RUNS = 9
_PARTITIONS = 2
_NOON = 1_700_000_000_000
_EVEN = "offset % 2 = 0"


@pytest.fixture(scope="module")
def second_cluster() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@dataclass
class History:
    """Drawn runs, what Airflow has of each, and what this test itself knows of them.

    :ivar events: as Airflow's API has them.
    :ivar tasks: likewise the task instances that have not ended well, with what they have stored.
    :ivar generations: of each source, how often it was recreated; and of a run, that of its source.
    :ivar filtered: ids of runs with a filter.
    :ivar failed: of runs that failed, and may have delivered more than they know.
    """

    task: CopyTask
    brokers: dict[str, KafkaBroker]
    drawn: random.Random
    targets: list[tuple[str, str]]
    events: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    generations: Counter[str] = field(default_factory=Counter)
    run_generations: dict[str, dict[str, int]] = field(default_factory=dict)
    filtered: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        return self.task.sources

    def produce(self) -> None:
        kafka, clock = self.brokers["one"], len(self.said) * 1_000
        for source in self.sources:
            records = [Record(None, b"v", (), _NOON + clock + i, p) for p in kafka.offsets(source) for i in range(4)]
            if self.drawn.random() < 0.5:
                kafka.produce_transaction(source, records)
            else:
                kafka.produce(source, records)

    def act(self, number: int) -> None:
        what = self.drawn.choice(["window", "replay", "replay", "replay", "stream", "map", "queue", "world"])
        self.said.append(what)
        if what == "world":
            self._change(number)
            return
        if what == "queue":
            self._store(number, "queued", {})
            return
        # Each topic of a map has a target on the first cluster.
        cluster, target = self.targets[0] if what == "map" else self.drawn.choice(self.targets)
        kind, given = getattr(self, f"_{what}")()
        given |= {"target_topic": None if what == "map" else target, "target_conn_id": cluster}
        if what != "stream" and self.drawn.random() < 0.2:
            given["where"] = _EVEN
        self._run(number, kind, given, self.drawn.choice(["well", "well", "fail", "retry", "clear"]))

    def _run(self, number: int, kind: type, given: dict[str, Any], end: str = "well") -> None:
        self.task.run_id, self.task.store, self.task.tries, self.task.clears = _run_id(number), TaskStateStore(), 0, 0
        self.said[-1] += f" {end} {given}"
        if end in ("fail", "retry"):
            step, place = ("collected_stream", available_now)
            if kind is not Stream:
                step, place = self.drawn.choice([("collected", bounded_copy), ("_submit", kind)])
            try:
                self.task.die_at(step, place, lambda: self.task.run(kind, **given))
            except pytest.fail.Exception:
                # There was nothing to copy, so nothing was submitted.
                self._note(number, given)
                return
            if end == "fail":
                entry = self.task.store.get(STATE_KEY)
                self._know(entry, given)
                self.failed.add(entry["run_id"])
                self._store(number, self.drawn.choice(["failed", "up_for_retry"]), {STATE_KEY: entry})
                return
        self.task.run(kind, **given)
        self._note(number, given)
        if end == "clear" and kind is not Stream:
            for callback in self.task.operator.on_success_callback:
                callback({"task": self.task.operator, **self.task.context})
            self.task.clears += 1
            self.task.run(kind, **given)
            self._note(number, given)

    def _window(self) -> tuple[type, dict[str, Any]]:
        start = self.drawn.randrange(len(self.said) + 1) * 1_000
        times = {"starting_timestamp": _NOON + start, "ending_timestamp": _NOON + start + 3_000}
        return Batch, {"topics": [self.drawn.choice(self.sources)], **times}

    def _map(self) -> tuple[type, dict[str, Any]]:
        names = [name for _, name in self.targets[:2]]
        return Batch, {"topics": self.sources, "topic_map": dict(zip(self.sources, names, strict=True))}

    def _stream(self) -> tuple[type, dict[str, Any]]:
        return Stream, {"topics": self.sources[:1], "checkpoint_location": str(self.task.folder / f"c{len(self.said)}")}

    def _replay(self) -> tuple[type, dict[str, Any]]:
        source, ranges = self.drawn.choice(self.sources), []
        for p, (_, end) in self.brokers["one"].offsets(source).items():
            start = self.drawn.randrange(max(1, end))
            ranges.append(f"{source}:{p}:{start}:{min(end, start + self.drawn.randint(3, 15))}")
        return Replay, {"offset_ranges": ranges, "merge_overlaps": True, "fail_on_data_loss": False}

    def _change(self, number: int) -> None:
        """What a run has to tell, is told by one: a topic that was recreated."""
        what = self.drawn.choice(["produce", "produce", "target", "source", "age", "grow"])
        self.said[-1] += f" {what}"
        cluster, target = self.drawn.choice(self.targets)
        if what == "target":
            _recreate(self.brokers[cluster], target)
        source = self.drawn.choice(self.sources)
        if what == "source":
            _recreate(self.brokers["one"], source)
            self.generations[source] += 1
        if what == "age":
            ends = self.brokers["one"].offsets(source)
            self.brokers["one"].delete_records(source, {0: min(ends[0][1], ends[0][0] + 3)})
        if what == "grow" and len(self.brokers["one"].offsets(source)) == _PARTITIONS:
            self.brokers["one"].add_partitions(source, _PARTITIONS + 1)
        self.produce()
        if what in ("source", "target"):
            start, _ = self.brokers["one"].offsets(source)[1]
            given = {"offset_ranges": [f"{source}:1:{start}:{start + 2}"], "target_topic": target}
            self._run(number, Replay, {**given, "target_conn_id": cluster})

    def _note(self, number: int, given: dict[str, Any]) -> None:
        if not self.task.operator.outlets:
            return
        extra = json.loads(json.dumps(self.task.event(COPIES).extra))
        if extra:
            self._know(extra, given)
            where = {"source_dag_id": "dag", "source_run_id": _run_id(number), "source_task_id": "task"}
            self.events.append({**where, "source_map_index": -1, "timestamp": _time(len(self.said)), "extra": extra})

    def _know(self, entry: dict[str, Any], given: dict[str, Any]) -> None:
        """What the test knows of a run, whatever its entry says of offsets."""
        self.run_generations[entry["run_id"]] = dict(self.generations)
        if "where" in given:
            self.filtered.add(entry["run_id"])

    def _store(self, number: int, state: str, store: dict[str, Any]) -> None:
        where = {"dag_id": "dag", "dag_run_id": _run_id(number), "task_id": "task", "map_index": -1}
        self.tasks.append({**where, "state": state, "updated_at": _time(len(self.said)), "store": store})

    def recorded(self) -> Recorded:
        return recorded_of(self.events, self.tasks)

    def found(self, pair: Pair) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]], Counter[tuple[int, int]]]:
        """How often the target has the record of each partition and offset of the source: by runs without a filter,
        with one, and by those that failed.
        """
        (cluster,) = [name for name, b in self.brokers.items() if b.bootstrap_servers in pair.targets]
        whole, filtered, failed = (Counter[tuple[int, int]]() for _ in range(3))
        for record in self.brokers[cluster].consume(pair.target_topic):
            of = provenance_of(record.headers)
            assert of is not None
            if of.topic != pair.topic:
                continue
            if self.run_generations[of.run_id].get(pair.topic, 0) == self.generations[pair.topic]:
                counts = filtered if of.run_id in self.filtered else whole
                counts[of.partition, of.offset] += 1
                failed[of.partition, of.offset] += of.run_id in self.failed
        return whole, filtered, failed


def _recreate(broker: KafkaBroker, name: str) -> None:
    broker.delete_topic(name)
    broker.create_topic(name, _PARTITIONS)


def _run_id(number: int) -> str:
    return f"{'manual' if number % 3 else 'scheduled'}__2026-11-20T{number:02d}:00:00+00:00"


def _time(number: int) -> str:
    return f"2026-11-21T{number:02d}:00:00Z"


@pytest.mark.parametrize("draw", [0, pytest.param(1, marks=pytest.mark.long)], ids=["one", "more"])
def test_what_page_and_command_say_is_what_a_plain_read_finds(
    new_task: NewTask,
    second_cluster: KafkaBroker,
    connection: Any,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    draw: int,
    tmp_path: Path,
) -> None:
    for number in [0] if draw == 0 else list(draws(4))[1:] or [1]:
        task = new_task(CopyTask, _PARTITIONS, 2)
        connection("one", extra={"bootstrap.servers": task.kafka.bootstrap_servers})
        connection("two", extra={"bootstrap.servers": second_cluster.bootstrap_servers})
        task.folder = tmp_path / f"{number}"
        task.folder.mkdir()
        task.sources.append(f"{task.source}-2")
        task.kafka.create_topic(task.sources[1], _PARTITIONS)
        targets = [("one", task.target), ("one", f"{task.target}-2"), ("two", task.target)]
        task.kafka.create_topic(targets[1][1], 2)
        second_cluster.create_topic(task.target, 2)
        brokers = {"one": task.kafka, "two": second_cluster}
        history = History(task, brokers, random.Random(f"{SEED}.{number}"), targets)
        history.produce()
        for run in range(_RUNS):
            history.act(run)
        try:
            _judge(history, engine, monkeypatch, capsys)
        except AssertionError as error:
            raise AssertionError(f"draw {number} of seed {SEED}: {history.said}") from error


def _judge(
    history: History, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = history.recorded()
    assert recorded.skipped == recorded.not_by_a_task == 0
    pairs, outdated = pairs_of(recorded.deliveries, waiting=recorded.waiting)
    page = engine.run(_BODY, {"events": history.events, "tasks": history.tasks})
    assert page["outdated"] == outdated
    assert page["pairs"].keys() == {str(pair) for pair in pairs}
    api = SimpleNamespace(recorded=lambda *_: recorded)
    monkeypatch.setattr(LedgerApi, "from_environment", lambda *_: api)
    for pair in pairs:
        stretches = pair.stretches()
        drawn = [line.split(" ")[:2] for line in page["pairs"][str(pair)]]
        assert drawn == [[_place(s), s.coverage.value] for s in stretches], pair
        _compare_with_command(pair, stretches, capsys)
        _compare_with_brokers(history, pair, stretches)


def _compare_with_command(pair: Pair, stretches: list[Stretch], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    code = coverage.show(_options(pair))
    (report,) = json.loads(capsys.readouterr().out)["pairs"]
    counts: Counter[str] = Counter()
    for s in stretches:
        counts[s.coverage.value] += s.offsets.size
    assert report["counts"] == dict(counts)
    assert code == (1 if counts["missing"] or counts["failed"] else 4 if _is_open(counts) else 0)


def _options(pair: Pair) -> Namespace:
    given = {name.removeprefix("--").replace("-", "_"): of.get("default") for name, of in coverage.ARGUMENTS.items()}
    return Namespace(
        **given | {"topic": pair.topic, "target_topic": pair.target_topic, "target": pair.target, "json": True}
    )


def _is_open(counts: Counter[str]) -> bool:
    return any(counts[name] for name in ("unfinished", "waiting", "unseen"))


def _place(s: Stretch) -> str:
    return f"{s.offsets.partition}:{s.offsets.from_offset}:{s.offsets.until_offset}"


def _compare_with_brokers(history: History, pair: Pair, stretches: list[Stretch]) -> None:
    source = history.brokers["one"]
    there = {(r.partition, r.offset) for r in source.consume(pair.topic)}
    whole, filtered, failed = history.found(pair)
    known: dict[int, int] = defaultdict(int)
    for s in stretches:
        places = [(s.offsets.partition, o) for o in range(s.offsets.from_offset, s.offsets.until_offset)]
        known[s.offsets.partition] = max(known[s.offsets.partition], s.offsets.until_offset)
        records = [place for place in places if place in there]
        of_whole, of_both = {whole[p] for p in records}, {whole[p] + filtered[p] for p in records}
        even = {filtered[p] for p in records if p[1] % 2 == 0}
        expected = {
            Coverage.COVERED: 0 not in even
            if s.filtered
            else all(whole[p] - failed[p] <= 1 <= whole[p] for p in records),
            Coverage.DUPLICATED: min(of_whole, default=2) > 1,
            Coverage.EMPTY: not records,
            Coverage.LOST: not records,
            Coverage.MISSING: of_both <= {0},
            Coverage.WAITING: of_both <= {0},
            Coverage.UNSEEN: of_both <= {0},
            # It is not known what of them was delivered.
            Coverage.FAILED: True,
            Coverage.UNFINISHED: True,
        }
        assert expected[s.coverage], (str(pair), _place(s), s.coverage, of_whole, of_both, s.filtered)
    _compare_uncovered(history, pair, there, whole + filtered, known)


def _compare_uncovered(
    history: History,
    pair: Pair,
    there: set[tuple[int, int]],
    counts: Counter[tuple[int, int]],
    known: dict[int, int],
) -> None:
    """A DAG has events only: what it does not call missing is in the target, or no record."""
    window = [f"{pair.topic}:{p}:0:{end}" for p, end in known.items() if end]
    events = [SimpleNamespace(extra=e["extra"], source_task_id="task", timestamp=None) for e in history.events]
    gaps = (
        coverage.uncovered(
            events, pair.topic, target=pair.target, target_topic=pair.target_topic, window=window or None
        )
        if events
        else []
    )
    missing = {(r["partition"], o) for r in gaps for o in range(r["from_offset"], r["until_offset"])}
    for place in there - missing:
        filtered_out = place[1] % 2 == 1
        assert counts[place] or filtered_out or place[1] >= known[place[0]] or not events, (str(pair), place)
