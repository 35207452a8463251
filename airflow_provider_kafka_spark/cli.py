"""Commands of ``airflow kafka-spark``. Every ``airflow`` command imports this module."""

from __future__ import annotations

from types import ModuleType

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_provider_kafka_spark import coverage, explain, prepare


def get_cli_commands() -> list[CLICommand]:
    """What :mod:`~airflow_provider_kafka_spark.provider_info` names."""
    commands = [
        _command("prepare", "Fetch and make what the first tasks of a worker would wait for", prepare),
        _command("explain", "Explain an error by its code or name", explain),
        _command("coverage", "Say which offsets of a topic were copied, and which were not", coverage),
    ]
    return [GroupCommand(name="kafka-spark", help="Kafka to Kafka on Spark", subcommands=commands)]


def _command(name: str, description: str, module: ModuleType) -> ActionCommand:
    """
    :param module: that also runs by itself, as ``python -m``.
    """
    return ActionCommand(
        name=name,
        help=description,
        func=lazy_load_command(f"{module.__name__}.command"),
        args=[Arg((flag,), **rules) for flag, rules in module.ARGUMENTS.items()],  # type: ignore[no-untyped-call]
        description=module.DESCRIPTION,
        epilog=module.EPILOG,
    )
