"""Commands of ``airflow kafka-spark``. Every ``airflow`` command imports this module."""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_provider_kafka_spark.prepare import ARGUMENTS, DESCRIPTION, EPILOG


def get_cli_commands() -> list[CLICommand]:
    """What :mod:`~airflow_provider_kafka_spark.provider_info` names."""
    prepare = ActionCommand(
        name="prepare",
        help="Fetch and make what the first tasks of a worker would wait for",
        func=lazy_load_command("airflow_provider_kafka_spark.prepare.command"),
        args=[Arg((name,), **rules) for name, rules in ARGUMENTS.items()],  # type: ignore[no-untyped-call]
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    return [GroupCommand(name="kafka-spark", help="Kafka to Kafka on Spark", subcommands=[prepare])]
