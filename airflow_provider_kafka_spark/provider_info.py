"""What Airflow shows of this provider. Read through the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.connection_type import connection_type
from airflow_provider_kafka_spark.toolchain.settings import SECTION, SETTINGS

_PACKAGE = "airflow_provider_kafka_spark"
_INTEGRATION = "Kafka to Kafka on Spark"
#: What DAGs are made of, by kind.
_MODULES = {
    "operators": ("audit", "available_now", "batch", "consumer_group", "delegation_token", "replay"),
    "sensors": ("delegation_token", "offsets"),
    "triggers": ("condition", "new_records", "spark_application"),
    "hooks": ("delegation_token", "kafka", "spark_job"),
}


def get_provider_info() -> dict[str, Any]:
    """Provider metadata, as Airflow's ``provider_info.schema.json`` has it.

    Of connection types only ``kafka_spark`` is registered: ``kafka`` and ``spark`` belong to their own providers, and
    registering one twice breaks both.
    """
    return {
        # Must be the distribution's name to the letter, or provider discovery of the whole installation fails.
        "package-name": "airflow-provider-kafka-spark",
        "name": "Kafka to Kafka on Spark",
        "description": "Kafka-to-Kafka copies and replays of exact offset ranges on Spark, safe to schedule.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html",
                "tags": ["apache"],
            }
        ],
        **{
            kind: [
                {
                    "integration-name": _INTEGRATION,
                    "python-modules": [f"{_PACKAGE}.{kind}.{module}" for module in modules],
                }
            ]
            for kind, modules in _MODULES.items()
        },
        "connection-types": [connection_type(f"{_PACKAGE}.hooks.kafka.KafkaHook")],
        "cli": [f"{_PACKAGE}.cli.get_cli_commands"],
        "extra-links": [f"{_PACKAGE}.links.spark_application.SparkApplicationLink"],
        "config": {
            SECTION: {
                "description": "What workers need to start Kafka-to-Kafka jobs on Spark.",
                "options": {setting.option: setting.declared() for setting in SETTINGS},
            }
        },
    }
