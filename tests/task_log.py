"""Messages of this package's operators in Airflow's log, without those of Airflow and Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_BEGIN = re.compile(r"^\d{4}-\d\d-\d\dT\S+ \[\w+ *\] (.*)$")
_END = re.compile(r"^(.*?)\s+\[([\w.]+)\] .*loc=\S+")
_OPERATORS = "airflow.task.operators.airflow_provider_kafka_spark."


class TaskLog:
    """Follows a log file in Airflow's console format.

    :param path: the file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._entry: list[str] = []

    def new_messages(self) -> Iterator[str]:
        """Yield each message of the operators that was completed since the last call; it may have several lines."""
        for line in self._new_lines():
            begin = _BEGIN.match(line)
            if begin:
                self._entry = [begin[1]]
            elif self._entry:
                self._entry.append(line)
            end = _END.match(self._entry[-1]) if self._entry else None
            if end:
                message = "\n".join([*self._entry[:-1], end[1]])
                self._entry = []
                if end[2].startswith(_OPERATORS):
                    yield message

    def _new_lines(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                # The last line may be half written.
                text = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        self._position += len(text) + 1 if text else 0
        return text.decode(errors="replace").splitlines() if text else []
