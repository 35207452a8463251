"""Commands of ``airflow kafka-spark``. Every ``airflow`` command imports this module."""

from __future__ import annotations

from types import ModuleType

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_provider_kafka_spark import audit, coverage, example, explain, peek, prepare


def get_cli_commands() -> list[CLICommand]:
    """What :mod:`~airflow_provider_kafka_spark.provider_info` names."""
    commands = [
        _command("prepare", "Fetch and make what the first tasks of a worker would wait for", prepare),
        _command("explain", "Explain an error by its code or name", explain),
        _command("coverage", "Say which offsets of a topic were copied, and which were not", coverage),
        _command("audit", "Read back what a past copy delivered, missed and duplicated", audit),
        _command("peek", "Print the first records of an offset range", peek),
        _command("example", "Print an example DAG", example),
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
