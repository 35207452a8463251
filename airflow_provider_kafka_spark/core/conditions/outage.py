"""One log line for each outage of a broker, however many requests fail. No I/O."""

from __future__ import annotations


class Outage:
    """Whether the broker is unavailable, as a repeated request sees it.

    >>> outage = Outage()
    >>> outage.began(OSError("no answer")), outage.began(OSError("no answer"))
    (['The broker does not answer; it is asked again at every interval. no answer'], [])
    >>> outage.ended(), outage.ended()
    (['The broker answers again.'], [])
    """

    def __init__(self) -> None:
        self._is_out = False

    def began(self, error: Exception) -> list[str]:
        """Lines to log about a failed attempt: only for the first one."""
        if self._is_out:
            return []
        self._is_out = True
        return [f"The broker does not answer; it is asked again at every interval. {error}"]

    def ended(self) -> list[str]:
        """Lines to log about a successful attempt: only after a failed one."""
        if not self._is_out:
            return []
        self._is_out = False
        return ["The broker answers again."]
