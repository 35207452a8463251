"""The jars that a job is given: Spark's Kafka connector, and login handlers of clouds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig
from airflow_provider_kafka_spark.core.errors import JarError
from airflow_provider_kafka_spark.toolchain.connector import (
    PROVIDED,
    client_jars,
    connector_jars,
    is_coordinate,
)
from airflow_provider_kafka_spark.toolchain.login_handlers import (
    fetched_handler,
    has_class,
    how_to_give,
    missing_handler,
)
from airflow_provider_kafka_spark.toolchain.spark_home import SparkHome

#: Properties that name jars, which Spark may fetch itself.
_JAR_PROPERTIES = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath", "spark.executor.extraClassPath")


class JobJars:
    """Jars are fetched when they are first asked for.

    :param wanted: finds the connector; None for that of the Spark that submits.
    :param options: the author's submit options.
    :param spark_home: finds the Spark that submits.
    :param property_of: the value of one of Spark's properties, by its name.
    :param are_sent: whether executors run on other machines.
    """

    def __init__(
        self,
        wanted: Callable[[], str | None],
        options: Mapping[str, Any],
        spark_home: Callable[[], SparkHome],
        property_of: Callable[[str], str | None],
        *,
        are_sent: Callable[[], bool],
    ) -> None:
        self._find_wanted = wanted
        self._options = options
        self._spark_home = spark_home
        self._property = property_of
        self._are_sent = are_sent

    @cached_property
    def _wanted(self) -> str | None:
        # A job that another operator submits asks for no jar, and may have no Spark connection.
        return self._find_wanted()

    @cached_property
    def connector(self) -> list[Path]:
        """The connector's jars; empty if the cluster has its own."""
        return [] if self._wanted == PROVIDED else connector_jars(self._wanted, self._spark_home)

    @cached_property
    def client(self) -> list[Path]:
        """The jars of Kafka's Java client on the worker: those of the job, or fetched if the cluster has its own.

        :raises JarError: if they are unavailable.
        """
        return client_jars(self._wanted, self._spark_home)

    def handlers(self, configs: Iterable[KafkaClientConfig]) -> list[Path]:
        """The jars of the login handlers that connections to managed clusters need in Spark, beyond the jars that the
        job is given anyhow. They are fetched here.

        :raises JarError: if a handler is neither fetched nor given. With ``kafka_connector="provided"``, and where the
            author's ``jars`` cannot be looked into, this is not known before the job.
        """
        needed = dict.fromkeys(config.login_handler for config in configs)
        found: list[Path] = []
        for name in filter(None, needed):
            wanted = self._wanted
            is_folder = wanted is not None and not is_coordinate(wanted)
            if wanted == PROVIDED or self._author_gives(name):
                continue
            if not is_folder:
                found += fetched_handler(name)
            elif not has_class(self.connector, name):
                raise JarError(f"{missing_handler(name)}; kafka_connector is {wanted!r}. {how_to_give(name)}")
        return found

    def _author_gives(self, class_name: str) -> bool:
        """Whether the author's own jars have a class, or may have it."""
        options = self._options
        if options.get("packages") or any(self._property(name) for name in _JAR_PROPERTIES):
            return True
        named = [*str(options.get("jars") or "").split(","), *str(options.get("driver_class_path") or "").split(":")]
        local = [name.strip().removeprefix("file://") for name in named if name.strip()]
        if any(":/" in name for name in local):
            return True
        files = [path for name in local for path in Path(name).parent.glob(Path(name).name)]
        return has_class(files, class_name)

    def options(self, configs: Iterable[KafkaClientConfig]) -> dict[str, str]:
        """The submit options that put the connector on the class path, and what the logins of a job need.

        :param configs: the job's connections.
        """
        connector, handlers = list(map(str, self.connector)), list(map(str, self.handlers(configs)))
        # On one machine jars need not be sent, and --jars would copy each of them at every start. A handler's jar has
        # classes that Spark has too, such as Netty's: only after Spark's own by --jars.
        if self._are_sent():
            paths = {"jars": ",".join((*connector, *handlers))}
        else:
            paths = {"driver_class_path": ":".join(connector), "jars": ",".join(handlers)}
        return {name: value for name, value in paths.items() if value}
