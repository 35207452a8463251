"""The base class of context managers that hold connections, processes or tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class ManagedResource:
    """Opened on entering ``with``, closed on leaving it, and closed as well if opening fails."""

    def open(self) -> None:
        """Acquire what the block needs at once. By default nothing."""

    def close(self) -> None:
        """Release everything, even after an incomplete :meth:`open`. Calling it again does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
