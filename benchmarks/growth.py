"""Growth: what ten times the work costs. A curve is straight if its exponent is 1.

A new curve is a row of ``CURVES``.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from airflow_provider_kafka_spark.testing.kafka_broker import KafkaBroker
from benchmarks import growing_copies, growing_requests
from benchmarks.environment import connect_to
from benchmarks.growing_rules import RULES, Work
from benchmarks.rounds import emit, time_limit
from benchmarks.table import Goal, Section, seconds_text

SECONDS, BYTES = "s", "bytes"
#: n log n is 1.1 or so between these sizes; a small fixed part makes it less.
_STRAIGHT = 1.25
_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Curve:
    """One kind of work, at three sizes.

    :param name: as in the table.
    :param of: what is counted on the x axis.
    :param sizes: ascending; the last one is the largest that large users have, or more.
    :param value_at: does the work at a size, and returns its value: seconds, or what ``unit`` says.
    :param most: the largest value that is wanted at the last size.
    """

    name: str
    of: str
    sizes: Sequence[int]
    value_at: Callable[[int], float]
    most: float
    unit: str = SECONDS
    exponent: float = _STRAIGHT


def seconds_of(prepare: Callable[[int], Work]) -> Callable[[int], float]:
    """The CPU seconds of the work that is prepared, the better of two runs: what else the machine does counts less."""

    def value_at(size: int) -> float:
        found = []
        for _ in range(2):
            work = prepare(size)
            gc.collect()
            started = time.process_time()
            work()
            found.append(time.process_time() - started)
        return min(found)

    return value_at


def result_of(prepare: Callable[[int], Work]) -> Callable[[int], float]:
    """The number that the work returns, such as bytes."""
    return lambda size: float(cast(int, prepare(size)()))


def _rule(name: str, of: str, sizes: Sequence[int], most: float, unit: str = SECONDS) -> Curve:
    return Curve(name, of, sizes, (seconds_of if unit == SECONDS else result_of)(RULES[name]), most, unit)


CURVES: tuple[Curve, ...] = (
    _rule("plan of many partitions", "partitions", (1_000, 3_000, 10_000), 1.0),
    _rule("plan of many topics, `topic_map`", "topics", (100, 500, 2_000), 1.0),
    _rule("check of a report", "ranges", (1_000, 10_000, 100_000), 1.0),
    _rule("ranges less others", "ranges", (1_000, 10_000, 100_000), 2.0),
    _rule("bytes of the events of a copy, `target_topic_expr`", "targets", (10, 100, 1_000), 1e6, BYTES),
    _rule("bytes of the events of a copy, `topic_map`", "targets", (10, 100, 1_000), 1e6, BYTES),
    _rule("bytes of a result", "ranges", (1_000, 10_000, 100_000), 1e6, BYTES),
    _rule("bytes of an entry of the ledger", "ranges", (1_000, 10_000, 100_000), 1e6, BYTES),
    _rule("bytes of the largest value of a task's state", "ranges", (1_000, 10_000, 100_000), 65_535, BYTES),
    _rule("coverage of copies that overlap", "copies", (500, 1_500, 5_000), 1.0),
    _rule("bytes of `coverage --json`", "copies", (500, 1_500, 5_000), 10e6, BYTES),
)


#: At a broker, with the seconds on the clock.
BROKER_CURVES: tuple[tuple[str, str, Sequence[int], float, Callable[[KafkaBroker, int], Any]], ...] = (
    ("ranges with a marker, counted again", "ranges", (10, 100, 1_000), 3.0, growing_requests.ranges_with_markers),
    ("timestamps for a `topic_map`", "targets", (10, 100, 500), 10.0, growing_requests.timestamps_of_targets),
    ("a round of groups", "groups", (10, 100, 1_000), 10.0, growing_requests.groups),
    ("a round of moments", "moments", (100, 300, 1_000), 1.0, growing_requests.moments),
    ("a round of moments that are awaited", "moments", (100, 300, 1_000), 1.0, growing_requests.awaited_moments),
    ("`assign` of ten partitions", "partitions of their topics", (100, 500, 2_000), 1.0, growing_requests.assigned),
)


def measure_all() -> Section:
    """The rules, and what is asked of a broker, copied and planned: each at a broker without the topics of others."""
    measured = _measured(CURVES)
    for curves_at in (_requests_at, _copies_at, _plans_at, _new_targets_at):
        with KafkaBroker() as broker:
            connect_to(broker.bootstrap_servers)
            measured += _measured(curves_at(broker))
    return _section(measured)


def _requests_at(broker: KafkaBroker) -> Iterator[Curve]:
    for name, of, sizes, most, prepare in BROKER_CURVES:
        yield Curve(name, of, sizes, growing_requests.seconds_at(broker, prepare), most)


def _copies_at(broker: KafkaBroker) -> Iterator[Curve]:
    with growing_copies.copies_at(broker) as (of_partitions, of_ranges):
        yield Curve("copy of partitions with five records", "partitions", (100, 500, 2_000), of_partitions, 60.0)
        yield Curve("copy of ranges with gaps of one partition", "ranges", (300, 3_000, 15_000), of_ranges, 10.0)


def _plans_at(broker: KafkaBroker) -> Iterator[Curve]:
    plan, sizes = growing_requests.plans_at(broker), (1_000, 3_000, 10_000)
    yield Curve("plan at a broker, CPU of the task", "partitions", sizes, lambda size: plan(size)[0], 1.0)
    yield Curve("plan at a broker, on the clock", "partitions", sizes, lambda size: plan(size)[1], 3.0)


def _new_targets_at(broker: KafkaBroker) -> Iterator[Curve]:
    value_at = growing_requests.seconds_at(broker, growing_requests.created)
    yield Curve("`create_target_topics`", "partitions", (100, 300, 1_000), value_at, 10.0)


def _measured(curves: Iterable[Curve]) -> list[tuple[Curve, list[float]]]:
    return [(curve, _values(curve)) for curve in curves]


def _section(measured: Sequence[tuple[Curve, list[float]]]) -> Section:
    """Fit the exponent of each curve, and draw it."""
    return Section(
        "Growth",
        "The same work at three sizes. The exponent is fitted: with 1, ten times the work costs ten times as much, and "
        "with 2 a hundred times. CPU seconds, the better of two runs; on the clock where a broker is asked.",
        ["Curve", "Of", "Sizes", "Values", "Exponent", "Largest size tried"],
        [
            [
                curve.name,
                curve.of,
                ", ".join(f"{size:,}" for size in curve.sizes),
                ", ".join(_text(value, curve.unit) for value in values),
                f"{fitted_exponent(curve.sizes, values):.2f}",
                f"{curve.sizes[-1]:,} {curve.of}",
            ]
            for curve, values in measured
        ],
        goals=[goal for curve, values in measured for goal in _goals(curve, values)],
        parts=[_drawn(curve, values) for curve, values in measured],
    )


def fitted_exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms, by least squares.

    >>> fitted_exponent([10, 100, 1000], [3, 300, 30000])
    2.0
    """
    x, y = [math.log(size) for size in sizes], [math.log(max(value, 1e-6)) for value in values]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return round(rise / sum((a - middle_x) ** 2 for a in x), 6)


def _values(curve: Curve) -> list[float]:
    emit(f"Growth: {curve.name}")
    values = []
    for size in curve.sizes:
        with time_limit(_LIMIT_SECONDS, f"{curve.name} of {size:,} {curve.of}"):
            values.append(curve.value_at(size))
        emit(f"  {size:,} {curve.of}: {_text(values[-1], curve.unit)}")
    return values


def _goals(curve: Curve, values: Sequence[float]) -> list[Goal]:
    largest = f"{curve.name}, {curve.sizes[-1]:,} {curve.of}"
    return [
        Goal(f"{largest}: exponent", fitted_exponent(curve.sizes, values), curve.exponent, at_least=False),
        Goal(f"{largest}: {curve.unit}", values[-1], curve.most, at_least=False),
    ]


def _drawn(curve: Curve, values: Sequence[float]) -> Section:
    straight = [values[0] * size / curve.sizes[0] for size in curve.sizes]
    return Section(
        curve.name.capitalize(),
        f"The bars are the {curve.unit} of each size; the line is straight growth from the first one.",
        [curve.of.capitalize(), curve.unit, f"For each of the {curve.of}"],
        [
            [f"{size:,}", _text(value, curve.unit), f"{value / size:.3g} {curve.unit}"]
            for size, value in zip(curve.sizes, values, strict=True)
        ],
        notes=[
            "```mermaid",
            "xychart-beta",
            f'    x-axis "{curve.of}" [{", ".join(f"{chr(34)}{size:,}{chr(34)}" for size in curve.sizes)}]',
            f'    y-axis "{curve.unit}"',
            f"    bar [{', '.join(f'{value:.6g}' for value in values)}]",
            f"    line [{', '.join(f'{value:.6g}' for value in straight)}]",
            "```",
        ],
    )


def _text(value: float, unit: str) -> str:
    return seconds_text(value) if unit == SECONDS else f"{value:,.0f}"
