"""``airflow kafka-spark example replay_incident > dags/replay_incident.py``: print an example DAG of the package.

``python -m airflow_provider_kafka_spark.example`` is the same.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.command_line import Command

PRINTED_CODE, INPUT_CODE = 0, 2
DESCRIPTION = "Print an example DAG of this package, to be stored among your own and changed; without a name, list all."
EPILOG = "Exit code: 0, or 2 if there is no such example."
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "name": {"metavar": "NAME", "nargs": "?", "default": None, "help": "such as replay_incident"},
}
_PACKAGE = Path(__file__).parent


def show(options: argparse.Namespace) -> int:
    """Print one example, or the names of all.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    files = examples()
    if options.name is None:
        width = max(map(len, files), default=0)
        sys.stdout.write("".join(f"{name:<{width}}  {_title(file)}\n" for name, file in files.items()))
        return PRINTED_CODE
    if options.name not in files:
        from airflow_provider_kafka_spark.core.topics.broker_state import did_you_mean

        sys.stderr.write(
            f"NAME must be one of the examples {', '.join(files)}; got {options.name!r}."
            f"{did_you_mean(options.name, files)}\n"
        )
        return INPUT_CODE
    sys.stdout.write(files[options.name].read_text(encoding="utf-8"))
    return PRINTED_CODE


def examples() -> dict[str, Path]:
    """The files of all examples, by name: those of the installed package, or of the checkout that it runs from."""
    folders = (_PACKAGE / "example_dags", _PACKAGE.parent / "dags")
    folder = next((f for f in folders if f.is_dir()), folders[0])
    return {file.stem: file for file in sorted(folder.glob("*.py"))}


def _title(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


COMMAND = Command("example", DESCRIPTION, EPILOG, ARGUMENTS, show)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
