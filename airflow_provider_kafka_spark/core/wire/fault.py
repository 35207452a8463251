"""An error on its way from one process to another. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.errors.catalogue import error_with_code
from airflow_provider_kafka_spark.core.secrets import redact


@dataclass(frozen=True, slots=True)
class Fault:
    """What travels of an error. All else that is known about it has the catalogue of each process.

    :param code: of the error, such as ``KS208``.
    :param message: what happened, and what to do.
    """

    code: str
    message: str

    def __post_init__(self) -> None:
        error_with_code(self.code)

    @classmethod
    def of(cls, error: KafkaSparkError) -> Fault:
        return cls(error.code, str(error))

    def error(self, secrets: Iterable[Mapping[str, str]], before: str = "") -> KafkaSparkError:
        """The error, to be raised in this process.

        :param secrets: options whose secrets the message must not show, as of the logins of a job.
        :param before: the beginning of the message.
        """
        return error_with_code(self.code)(before + redact(self.message, secrets))
