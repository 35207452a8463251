"""Commands of ``airflow kafka-spark``. Every ``airflow`` command imports this module."""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_provider_kafka_spark import audit, coverage, example, explain, peek, prepare
from airflow_provider_kafka_spark.command_line import Command


def get_cli_commands() -> list[CLICommand]:
    """What :mod:`~airflow_provider_kafka_spark.provider_info` names."""
    commands = [
        _command("Fetch and make what the first tasks of a worker would wait for", prepare.COMMAND),
        _command("Explain an error by its code or name", explain.COMMAND),
        _command("Say which offsets of a topic were copied, and which were not", coverage.COMMAND),
        _command("Read back what a past copy delivered, missed and duplicated", audit.COMMAND),
        _command("Print the first records of an offset range", peek.COMMAND),
        _command("Print an example DAG", example.COMMAND),
    ]
    return [GroupCommand(name="kafka-spark", help="Kafka to Kafka on Spark", subcommands=commands)]


def _command(description: str, command: Command) -> ActionCommand:
    return ActionCommand(
        name=command.name,
        help=description,
        func=lazy_load_command(f"airflow_provider_kafka_spark.{command.name}.command"),
        args=[Arg((flag,), **rules) for flag, rules in command.arguments.items()],  # type: ignore[no-untyped-call]
        description=command.description,
        epilog=command.epilog,
    )
