"""Airflow's variables, in which what many runs share is kept; people can see, correct and delete them.

``Variable.get`` gives its default for a variable that is not there, and also if Airflow's API gave no answer: its
secrets backend takes every error but a refusal for absence. Who writes after that replaces what was there. So a
variable counts as absent only if Airflow's list of names does not have it; a request for the list that fails raises.
"""

from __future__ import annotations

import logging
import time

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_kafka_spark.core.errors import AirflowApiError

log = logging.getLogger(__name__)

#: How long a task waits after it has written, before it takes what is there.
SETTLING_SECONDS = 1.0


def read(name: str) -> str | None:
    """The text of a variable, or None if there is none. Only one that is not given at once costs more requests.

    :raises AirflowApiError: if Airflow has the variable and did not give it, or cannot say whether it has.
    """
    text: str | None = Variable.get(name, default=None)
    if text is not None or name not in names(name):
        return text
    # Another task may have made it since the first request.
    text = Variable.get(name, default=None)
    if text is None:
        raise AirflowApiError(
            f"Airflow's API must give the variable {name}, which it lists; it did not. A retry asks again. If the "
            "variable is there without a value, delete it under Admin > Variables."
        )
    return text


def names(prefix: str) -> list[str]:
    """The names that begin so, of the variables in Airflow's database.

    :raises AirflowApiError: if Airflow does not say it.
    """
    try:
        return list(Variable.keys(prefix))
    except AirflowRuntimeError as error:
        raise AirflowApiError(
            f"Airflow's API must list the variables {prefix}*; it did not: {error.error.error.value}. A retry asks "
            "again."
        ) from error


def write(name: str, text: str, description: str) -> None:
    Variable.set(name, text, description=description)


def delete(name: str) -> None:
    Variable.delete(name)


def settle(started: float, consequence: str) -> None:
    """Wait, between writing what was missing and taking what is there.

    Variables have no compare-and-set, so tasks agree by time: each reads, writes what is missing, waits and reads
    again. Who saw nothing has written before another one, who wrote earlier, reads again, as long as reading and
    writing take less than the wait (Fischer's mutual exclusion). One that took longer says so.

    :param started: when it began to read, by ``time.monotonic``.
    :param consequence: for the log, if it took longer.
    """
    if (seconds := time.monotonic() - started) > SETTLING_SECONDS > 0:
        log.warning("Airflow needed %.1f s to keep a variable. %s", seconds, consequence)
    time.sleep(SETTLING_SECONDS)
