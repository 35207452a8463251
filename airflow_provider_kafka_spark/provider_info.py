"""What Airflow shows of this provider. Read through the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any

from airflow_provider_kafka_spark.connection_type import connection_type

_PACKAGE = "airflow_provider_kafka_spark"
_INTEGRATION = "Kafka to Kafka on Spark"


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
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    f"{_PACKAGE}.operators.audit",
                    f"{_PACKAGE}.operators.available_now",
                    f"{_PACKAGE}.operators.batch",
                    f"{_PACKAGE}.operators.consumer_group",
                    f"{_PACKAGE}.operators.delegation_token",
                    f"{_PACKAGE}.operators.replay",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [f"{_PACKAGE}.sensors.delegation_token", f"{_PACKAGE}.sensors.offsets"],
            }
        ],
        "triggers": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    f"{_PACKAGE}.triggers.condition",
                    f"{_PACKAGE}.triggers.new_records",
                    f"{_PACKAGE}.triggers.spark_application",
                ],
            }
        ],
        "hooks": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    f"{_PACKAGE}.hooks.delegation_token",
                    f"{_PACKAGE}.hooks.kafka",
                    f"{_PACKAGE}.hooks.spark_job",
                ],
            }
        ],
        "connection-types": [connection_type(f"{_PACKAGE}.hooks.kafka.KafkaHook")],
        "cli": [f"{_PACKAGE}.cli.get_cli_commands"],
        "extra-links": [f"{_PACKAGE}.links.spark_application.SparkApplicationLink"],
        # Read by toolchain/settings.py, and compared with docs/reference/configuration.md by a test.
        "config": {
            "kafka_spark": {
                "description": "What workers need to start Kafka-to-Kafka jobs on Spark.",
                "options": {
                    "cache_folder": {
                        "description": (
                            "Where fetched jars and the class archive are kept; an absolute path. If it is empty, "
                            "airflow-provider-kafka-spark in the user's cache folder.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/var/cache/kafka-spark",
                        "default": "",
                    },
                    "maven_repository": {
                        "description": "URL of a mirror of Maven Central. If it is empty, Maven Central itself.\n",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://repo.example.com/maven2",
                        "default": "",
                    },
                    "maven_http_hosts": {
                        "description": (
                            "Hosts that maven_repository may have with plain http, separated by commas. Everybody on "
                            "the way can change what http transfers.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "repo.internal",
                        "default": "",
                    },
                    "class_archive": {
                        "description": (
                            "Whether the command prepare compiles the writer and makes an archive of Spark's classes, "
                            "with which jobs with a local master start faster, and whether they use them.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "True",
                    },
                    "allow_client_classes": {
                        "description": (
                            "Whether source_options and sink_options may name classes that Kafka's clients load in "
                            "driver and executors (interceptor.classes, metric.reporters, partitioner.class).\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "False",
                    },
                    "deployment": {
                        "description": (
                            "Name of this deployment of Airflow: 1 to 100 letters, digits, '.', '_' and '-'. Runs of "
                            "two deployments with the same DAGs, on one Kafka, are told apart by it. If it is empty, "
                            "by a random one, which the first copy stores in the variable kafka_spark_deployment.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "production",
                        "default": "",
                    },
                    "state_key": {
                        "description": (
                            "Key of the MAC by which a task knows what it has stored for its next try, at least 22 "
                            "random characters, the same on all workers. If it is empty, a random one, which the first "
                            "copy stores in the variable kafka_spark_state_secret.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "sensitive": True,
                        "example": None,
                        "default": "",
                    },
                    "token_endpoint_hosts": {
                        "description": (
                            "Hosts that the token endpoint of a connection by OAuth may have, separated by commas. If "
                            "it is empty, every host.\n"
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "id.example.com",
                        "default": "",
                    },
                },
            }
        },
    }
