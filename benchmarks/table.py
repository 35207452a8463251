"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.rounds import Variant


@dataclass(frozen=True)
class Goal:
    """A number that the project wants to reach.

    :param text: what is compared.
    :param got: the measured ratio.
    :param wanted: its bound.
    :param at_least: whether the bound is a least or a most.
    """

    text: str
    got: float
    wanted: float
    at_least: bool

    @property
    def reached(self) -> bool:
        return self.got >= self.wanted if self.at_least else self.got <= self.wanted

    def line(self) -> str:
        side = "at least" if self.at_least else "at most"
        return (
            f"- {self.text}: **{self.got:.2f}**, wanted {side} {self.wanted:g}: "
            f"{'reached' if self.reached else '**missed**'}"
        )


@dataclass(frozen=True)
class Section:
    """One measurement: what was done, a table, what was wanted, and lines to add below the table.

    :param parts: sections of the next level.
    """

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = field(default=())
    notes: Sequence[str] = field(default=())
    parts: Sequence[Section] = field(default=())

    def markdown(self, level: int = 2) -> str:
        lines = [f"{'#' * level} {self.title}", "", self.text, "", _line(self.header)]
        lines.append(_line(["---"] + ["---:"] * (len(self.header) - 1)))
        lines += [_line(row) for row in self.rows]
        if self.notes:
            lines += ["", *self.notes]
        if self.goals:
            lines += ["", *(goal.line() for goal in self.goals)]
        for part in self.parts:
            lines += ["", part.markdown(level + 1).rstrip()]
        return "\n".join(lines) + "\n"


def median_and_range(variant: Variant) -> tuple[str, str]:
    """The median of the rounds in seconds, and the fastest to the slowest."""
    if variant.missing is not None:
        return f"not available: {variant.missing}", ""
    return seconds_text(variant.median), f"{seconds_text(min(variant.seconds))} to {seconds_text(max(variant.seconds))}"


def ratio_text(value: float, baseline: float) -> str:
    """How many times ``baseline`` the value is."""
    return f"{value / baseline:.2f}" if baseline else ""


def rounds_text(rounds: int) -> str:
    """``"3 rounds"``."""
    return "1 round" if rounds == 1 else f"{rounds} rounds"


def seconds_text(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
