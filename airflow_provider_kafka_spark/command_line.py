"""The arguments of ``python -m airflow_provider_kafka_spark.NAME``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any


def parse_arguments(
    name: str, description: str, epilog: str, arguments: Mapping[str, Mapping[str, Any]], argv: Sequence[str] | None
) -> argparse.Namespace:
    """
    :param name: of the module.
    :param arguments: the rules of :mod:`argparse` for each, by the name of the option.
    :param argv: None for those of this process.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m airflow_provider_kafka_spark.{name}", description=description, epilog=epilog
    )
    for argument, rules in arguments.items():
        parser.add_argument(argument, **rules)
    return parser.parse_args(argv)
