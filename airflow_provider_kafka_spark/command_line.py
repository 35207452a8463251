"""The commands, each of which is ``airflow kafka-spark NAME`` and ``python -m airflow_provider_kafka_spark.NAME``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True, slots=True)
class Command:
    """
    :param name: of its module.
    :param epilog: ends the help, with the exit codes.
    :param arguments: the rules of :mod:`argparse` for each, by the name of the option.
    :param run: carries it out, with the values of the arguments, and returns the exit code.
    """

    name: str
    description: str
    epilog: str
    arguments: Mapping[str, Mapping[str, Any]]
    run: Callable[[argparse.Namespace], int]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Parse the arguments, and run.

        :param argv: None for those of this process.
        :return: the exit code.
        """
        program = f"python -m airflow_provider_kafka_spark.{self.name}"
        parser = argparse.ArgumentParser(prog=program, description=self.description, epilog=self.epilog)
        for argument, rules in self.arguments.items():
            parser.add_argument(argument, **rules)
        return self.run(parser.parse_args(argv))

    def of_airflow(self, options: argparse.Namespace) -> NoReturn:
        """As a command of Airflow, which has parsed the arguments."""
        sys.exit(self.run(options))
