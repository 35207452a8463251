"""Free ports of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

from airflow_provider_kafka_spark.core.errors import LocalServiceError

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports of the loopback interface that were free a moment ago.

    .. warning:: Another process may take one first, so callers must be able to retry.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def start_on_free_ports(
    start: Callable[[], None], stop: Callable[[], None], log_tail: Callable[[], str], *, attempts: int = 3
) -> None:
    """Start a server on free ports, and again on other ports if another process took one of them.

    :param stop: called after a start that failed
    :param log_tail: the end of the server's log, with the reason of a failure
    :raises LocalServiceError: the error of the last start
    """
    for attempt in range(1, attempts + 1):
        try:
            start()
            return
        except BaseException as error:
            tail = log_tail()
            stop()
            port_was_taken = "BindException" in tail or "Address already in use" in tail
            if not (isinstance(error, LocalServiceError) and port_was_taken and attempt < attempts):
                raise
