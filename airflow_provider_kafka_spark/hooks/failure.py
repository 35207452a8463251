"""Which failures Airflow should try again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_kafka_spark.core.errors import KafkaSparkError

T = TypeVar("T")


def fail_for_good(execute: Callable[..., T]) -> Callable[..., T]:
    """Make Airflow retry only what a retry can mend."""

    @wraps(execute)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        try:
            return execute(*args, **kwargs)
        except KafkaSparkError as error:
            if error.retriable:
                raise
            raise AirflowFailException(f"{type(error).__name__}: {error}") from error

    return wrapped
