"""Kafka options without their secrets, which a file has instead: Spark writes the options of a sink into its UI and
event log as they are. No I/O.

Kafka's Java clients themselves replace ``${file:PATH:NAME}`` by what the file at PATH has under NAME.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from airflow_provider_kafka_spark.core.options import check_plain
from airflow_provider_kafka_spark.core.secret_names import holds_secret

_REFERENCE = re.compile(r"\$\{file:(?P<path>[^:}]+):(?P<name>[^}]+)\}")
_PROVIDER = {
    "kafka.config.providers": "file",
    "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
_ALLOWED_PATHS = "kafka.config.providers.file.param.allowed.paths"


def by_reference(options: Mapping[str, str], path: str, owner: str) -> tuple[dict[str, str], dict[str, str]]:
    """Options of Spark's Kafka source or sink that refer to a file, and what this file must hold.

    >>> options, secrets = by_reference({"kafka.sasl.jaas.config": "x"}, "/logins", "source")
    >>> options["kafka.sasl.jaas.config"]
    '${file:/logins:source.kafka.sasl.jaas.config}'
    >>> secrets
    {'source.kafka.sasl.jaas.config': 'x'}

    :param path: where the Java client finds the file. It must be absolute; no other file can be referred to.
    :param owner: tells apart what several options have under one name.
    :return: the options as they are, and nothing, if none is secret.
    :raises OptionError: if an option has a reference already.
    """
    for name, value in options.items():
        if not holds_secret(name):
            check_plain(name, value)
    secrets = {f"{owner}.{name}": value for name, value in options.items() if value and holds_secret(name)}
    if not secrets:
        return dict(options), {}
    references = {name: f"${{file:{path}:{owner}.{name}}}" for name in options if f"{owner}.{name}" in secrets}
    return {**options, **references, **_PROVIDER, _ALLOWED_PATHS: path}, secrets


def dereferenced(options: Mapping[str, str], properties_of: Callable[[str], Mapping[str, str]]) -> dict[str, str]:
    """The options with what they refer to, as Kafka's Java clients have it.

    >>> files = {"logins": {"source.kafka.sasl.jaas.config": "x"}}
    >>> dereferenced({"kafka.sasl.jaas.config": "${file:logins:source.kafka.sasl.jaas.config}"}, files.__getitem__)
    {'kafka.sasl.jaas.config': 'x'}

    :param properties_of: what the file at a path has; what it has not stays a reference.
    """
    return {
        name: _REFERENCE.sub(lambda found: properties_of(found["path"]).get(found["name"], found[0]), value)
        for name, value in options.items()
    }
