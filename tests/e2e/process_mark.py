"""A mark by which every process that a test started is found."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

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
        wanted = f"{_VARIABLE}={self.value}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
        return found
