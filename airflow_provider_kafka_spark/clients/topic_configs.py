"""The configurations of topics, in one request for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from airflow_provider_kafka_spark.clients.kafka_client import KafkaClient
from airflow_provider_kafka_spark.core.errors import BrokerAuthorizationError
from airflow_provider_kafka_spark.core.shown_text import first_ten


def topic_configs(client: KafkaClient, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """Configurations, as far as the login may read them; a plan does not require them."""
    configs: dict[str, dict[str, str]] = {}
    unknown: list[str] = []
    for name, future in _requested(client, topics).items():
        try:
            entries = client.result(future, f"reading the configuration of {name!r}")
        except BrokerAuthorizationError:
            unknown.append(name)
        else:
            configs[name] = {key: entry.value for key, entry in entries.items() if entry.value is not None}
    if unknown:
        client.log.info(
            "No permission to read the configuration of topic %s; checks that need it are left out.",
            ", ".join(first_ten(unknown)),
        )
    return configs


def topic_settings(client: KafkaClient, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """What was set for each topic, and is no default of its brokers.

    :raises BrokerAuthorizationError: naming the topic whose configuration the login may not read.
    """
    settings: dict[str, dict[str, str]] = {}
    for name, future in _requested(client, topics).items():
        required_acl = f"DESCRIBE_CONFIGS on topic {name!r}, for create_target_topics"
        entries = client.result(future, f"reading the configuration of {name!r}", required_acl)
        settings[name] = {
            key: entry.value
            for key, entry in entries.items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and entry.value is not None
        }
    return settings


def _requested(client: KafkaClient, topics: Collection[str]) -> Mapping[str, Future[Any]]:
    if not topics:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    futures = client.client.describe_configs(resources, request_timeout=client.timeout)
    return {resource.name: future for resource, future in futures.items()}
