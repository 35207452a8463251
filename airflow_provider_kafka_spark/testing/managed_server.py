"""The base class of servers that tests start and stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from airflow_provider_kafka_spark.core.errors import LocalServiceError

if TYPE_CHECKING:
    from typing_extensions import Self


class ManagedServer(ABC):
    """A server that runs inside ``with``. It can also be stopped and started by hand."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and return when it is ready. A start that fails leaves nothing running."""

    @abstractmethod
    def stop(self) -> None:
        """End it. Calling it again does nothing."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _already_running(self, where: object) -> LocalServiceError:
        """The error of a second :meth:`start`."""
        return LocalServiceError(
            f"{type(self).__name__} must be stopped before it is started; it runs ({where}). Call stop() first."
        )

    def _not_running(self) -> LocalServiceError:
        """The error of a use that needs the running server."""
        return LocalServiceError(
            f"{type(self).__name__} must run; it does not. Use it inside `with`, or call start() first."
        )
