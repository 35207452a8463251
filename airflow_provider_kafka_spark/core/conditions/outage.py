"""One log line for each outage of a broker, however many requests fail."""

from __future__ import annotations

from typing import Any


class Outage:
    """Whether the broker is unavailable, as a repeated request sees it."""

    def __init__(self) -> None:
        self._is_out = False

    def began(self, error: Exception, log: Any) -> None:
        """Log a failed attempt: only the first one.

        :param log: a logger of :mod:`logging`, or Airflow's.
        """
        if not self._is_out:
            log.warning("The broker does not answer; it is asked again at every interval. %s", error)
        self._is_out = True

    def ended(self, log: Any) -> None:
        """Log a successful attempt: only after a failed one."""
        if self._is_out:
            log.info("The broker answers again.")
        self._is_out = False
