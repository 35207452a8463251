"""Which failures Airflow retries, and the error for templates in a run without a date."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from jinja2.exceptions import UndefinedError

from airflow_provider_kafka_spark.core.errors import InvalidInputError, KafkaSparkError, ProtocolError
from airflow_provider_kafka_spark.core.shown_text import shown_lines
from airflow_provider_kafka_spark.metrics import count_failure

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Of a message.
_MAX_LINES, _LONGEST_LINE = 200, 20_000
#: Variables that Airflow does not define for a run without a logical date.
_OF_A_DATED_RUN = re.compile(
    "'(data_interval_(start|end)|logical_date|ds|ds_nodash|ts|ts_nodash|ts_nodash_with_tz)' is undefined"
)


def no_retry_on_permanent_error(execute: Callable[..., T]) -> Callable[..., T]:
    """Turn non-retriable errors into ``AirflowFailException``, and leave out what would bury their message in the log.

    Airflow logs the traceback of an error and of all its causes. Those of a :class:`KafkaSparkError` say nothing that
    its message does not, unless it may be a bug of this package; with log level DEBUG they are logged nevertheless.
    The message is logged before that, so that it comes first, and ends with a line on its code. A metric counts each
    error. A callback finds the error itself as ``__context__`` of the ``AirflowFailException``.
    """

    @wraps(execute)
    def wrapped(*args: Any, **kwargs: Any) -> T:
        try:
            return execute(*args, **kwargs)
        except KafkaSparkError as error:
            for context in (a for a in (*args, *kwargs.values()) if isinstance(a, Mapping) and "ti" in a):
                count_failure(cast("Context", context), error)
            log.debug("Where the error below was raised:", exc_info=True)
            message = _with_code(error, str(error))
            log.error("%s: %s", type(error).__name__, message.partition("\n")[0])
            if isinstance(error, ProtocolError):
                raise AirflowFailException(f"{type(error).__name__}: {message}") from error
            error.__cause__ = error.__traceback__ = None
            if error.retriable:
                error.args = (message,)
                raise error from None
            raise AirflowFailException(f"{type(error).__name__}: {message}") from None

    return wrapped


def _with_code(error: KafkaSparkError | type[KafkaSparkError], message: str) -> str:
    """The message with a last line on its code, once; a wrapped method may call another one.

    It may quote what others have written, of any size.
    """
    message = shown_lines(message, _MAX_LINES, _LONGEST_LINE)
    line = f"Error {error.code}: `airflow kafka-spark explain {error.code}` lists causes and checks."
    return message if message.endswith(line) else f"{message}\n{line}"


@contextmanager
def undated_run_explained() -> Iterator[None]:
    """Explain Jinja's error "undefined" if a template uses the date of a run that has none.

    :raises AirflowFailException: in that case; no retry gives a run a date.
    """
    try:
        yield
    except UndefinedError as error:
        undefined = _OF_A_DATED_RUN.search(str(error))
        if undefined is None:
            raise
        message = (
            f"{undefined[1]!r} must be known to a template; this run has no data interval, since it was started by "
            "hand, over the REST API or by an asset without a logical date. Give the form or the request one, such as "
            '"logical_date": "2026-11-20T10:00:00Z", use \'airflow backfill create\', or pass the window as a DAG '
            "parameter."
        )
        raise AirflowFailException(f"{InvalidInputError.__name__}: {_with_code(InvalidInputError, message)}") from None


@contextmanager
def soft_failure(sensor: Any) -> Iterator[None]:
    """Skip a deferrable sensor that fails before it is deferred, where Airflow skips one that pokes.

    :raises AirflowSkipException: in place of a failure, if ``soft_fail`` or ``never_fail`` says so.
    """
    try:
        yield
    except AirflowFailException as error:
        if sensor.soft_fail or sensor.never_fail:
            raise AirflowSkipException(f"Skipping instead of failing: {error}") from error
        raise
