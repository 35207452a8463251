"""Kafka options that refer to secrets in a file: Spark shows the options of a sink in its UI and event log. No I/O.

Kafka's Java clients replace ``${file:PATH:NAME}`` by the value of NAME in the file at PATH.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from airflow_provider_kafka_spark.core.secrets import holds_secret
from airflow_provider_kafka_spark.core.spark.options import check_plain

_REFERENCE = re.compile(r"\$\{file:(?P<path>[^:}]+):(?P<name>[^}]+)\}")
_PROVIDER = {
    "kafka.config.providers": "file",
    "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
_ALLOWED_PATHS = "kafka.config.providers.file.param.allowed.paths"


def by_reference(options: Mapping[str, str], path: str, owner: str) -> tuple[dict[str, str], dict[str, str]]:
    """Options of Spark's Kafka source or sink that refer to a file, and the contents of this file.

    >>> options, secrets = by_reference({"kafka.sasl.jaas.config": "x"}, "/logins", "source")
    >>> options["kafka.sasl.jaas.config"]
    '${file:/logins:source.kafka.sasl.jaas.config}'
    >>> secrets
    {'source.kafka.sasl.jaas.config': 'x'}

    :param path: of the file for the Java client, absolute. References to other files are not allowed.
    :param owner: a prefix for the names in the file.
    :return: the unchanged options and no contents, if none is secret.
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
    """The options with the referenced values, as Kafka's Java clients read them.

    >>> files = {"logins": {"source.kafka.sasl.jaas.config": "x"}}
    >>> dereferenced({"kafka.sasl.jaas.config": "${file:logins:source.kafka.sasl.jaas.config}"}, files.__getitem__)
    {'kafka.sasl.jaas.config': 'x'}

    :param properties_of: the contents of the file at a path; a missing name stays a reference.
    """
    return {
        name: _REFERENCE.sub(lambda found: properties_of(found["path"]).get(found["name"], found[0]), value)
        for name, value in options.items()
    }
