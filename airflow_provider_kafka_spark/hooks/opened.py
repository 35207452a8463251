"""What is opened on entering a ``with``, and closed behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Opened:
    """Something that holds connections, processes or tokens inside ``with``, and none behind it; nor if it could not be opened."""

    def open(self) -> None:
        """Nothing that cannot wait until it is needed."""

    def close(self) -> None:
        """End what was opened, were it only a part. Calling it again does nothing."""
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
