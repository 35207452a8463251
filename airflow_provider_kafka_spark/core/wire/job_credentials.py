"""The logins of a Spark job at its two clusters, and the files and properties that they need. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from airflow_provider_kafka_spark.core.connection.client_config import KafkaClientConfig, joined_system_properties
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from airflow_provider_kafka_spark.core.spark.file_names import RESERVED


@dataclass(frozen=True, slots=True)
class JobCredentials:
    """The logins of a job at source and target.

    :param by_name: driver or executors run elsewhere, and find files by their base name.
    :param folder: where they find them; empty for their working directory.
    :param spark_settings: settings with which Spark obtains tokens itself. **Secret.**
    """

    source: KafkaClientConfig = field(repr=False)
    target: KafkaClientConfig = field(repr=False)
    by_name: bool = False
    folder: str = ""
    spark_settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def source_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source. **Secret.**"""
        return self.source.spark_options(by_name=self.by_name, folder=self.folder)

    def sink_options(self) -> dict[str, str]:
        """Options of Spark's Kafka sink. **Secret.**"""
        return self.target.spark_options(by_name=self.by_name, folder=self.folder)

    @property
    def files(self) -> tuple[str, ...]:
        """Local paths of the files that both logins need, if the job's machines do not have them at these paths.

        :raises ConnectionConfigError: if two have the same base name, or one has the name of the job's own file.
        """
        if not self.by_name:
            return ()
        paths = tuple(dict.fromkeys((*self.source.files, *self.target.files)))
        count = Counter(PurePath(path).name for path in paths) + Counter(RESERVED)
        clashing = [path for path in paths if count[PurePath(path).name] > 1]
        if clashing:
            raise ConnectionConfigError(
                f"The files of connections {self.source.conn_id!r} and {self.target.conn_id!r} travel with the job by "
                "their base names, which must differ from each other and from those of the job's own files "
                f"({', '.join(sorted(RESERVED))}); got {clashing}. Rename one."
            )
        return paths

    @property
    def system_properties(self) -> Mapping[str, str]:
        """The system properties of the job's JVMs."""
        return joined_system_properties((self.source, self.target))
