"""What is started on entering a ``with``, and stopped behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Started(ABC):
    """A server, or another helper of tests, that runs inside ``with`` and is gone afterwards, whatever happened."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and return when it is ready."""

    @abstractmethod
    def stop(self) -> None:
        """End it. Calling it again does nothing."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
