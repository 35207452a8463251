"""A mark by which every process that a test started is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import psutil

_VARIABLE = "KAFKA_SPARK_TEST_MARK"


@dataclass(frozen=True)
class ProcessMark:
    """Set in the environment of a process, it is in that of everything that this one starts."""

    value: str = field(default_factory=lambda: uuid4().hex)

    @property
    def environment(self) -> Mapping[str, str]:
        return {_VARIABLE: self.value}

    def alive(self) -> list[str]:
        """What still runs: command lines."""
        return [
            " ".join(process.info["cmdline"] or [])[:200]
            for process in psutil.process_iter(["environ", "cmdline"])
            if (process.info["environ"] or {}).get(_VARIABLE) == self.value
        ]
