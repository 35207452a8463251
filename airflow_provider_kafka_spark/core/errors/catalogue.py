"""All errors with what is known about them, read from their classes. No I/O."""

from __future__ import annotations

import inspect
from functools import cache

from airflow_provider_kafka_spark.core import errors
from airflow_provider_kafka_spark.core.errors import KafkaSparkError, ProtocolError


def all_errors() -> list[type[KafkaSparkError]]:
    """Every error, in the order of the codes."""
    named = (value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, KafkaSparkError))
    return sorted(named, key=lambda error: error.code)


def error_with_code(code: str) -> type[KafkaSparkError]:
    """The error that another process names.

    :raises ProtocolError: if none has this code: what another process says makes this one raise nothing else.
    """
    found = _by_code().get(code)
    if found is None:
        raise ProtocolError(
            f"The code of an error must be one of this version, such as {ProtocolError.code!r}; got {code[:20]!r}. Run "
            "the same version of airflow-provider-kafka-spark on workers, triggerer and cluster, and clear the task."
        )
    return found


@cache
def _by_code() -> dict[str, type[KafkaSparkError]]:
    return {error.code: error for error in all_errors()}


def meaning_and_advice(error: type[KafkaSparkError]) -> tuple[str, str]:
    """What an error means, and what to do: the paragraphs of its docstring, with Markdown's marks of code."""
    meaning, _, advice = inspect.cleandoc(error.__doc__ or "").partition("\n\n")
    return _one_line(meaning), _one_line(advice)


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
