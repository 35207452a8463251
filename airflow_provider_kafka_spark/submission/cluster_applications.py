"""What the manager of a cluster knows of its applications, and does to them: the same for each kind of cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod


class ClusterApplications(ABC):
    """
    :ivar may_run_on: whether the cluster did not take an order to end an application.
    """

    may_run_on = False

    @property
    def fate(self) -> str:
        """For an error: what becomes of an application whose end was ordered."""
        return "may still run, as the log says" if self.may_run_on else "was ordered to end"

    @abstractmethod
    def kill(self, application_id: str) -> None:
        """Order the end of an application. A failure is only logged."""

    @abstractmethod
    def status(self, application_id: str) -> str | None:
        """
        :return: ``"SUCCEEDED"`` or ``"FAILED"`` for one that has ended (``"FAILED"`` if it was killed), ``"RUNNING"``
            and similar before, None if it is unknown.
        :raises ValueError: if the worker does not know the cluster's address.
        :raises RuntimeError: if the cluster does not answer.
        """

    @abstractmethod
    def application_with_tag(self, tag: str) -> str | None:
        """The application that was submitted with a tag, or None if the cluster knows none.

        :raises ValueError: if the worker does not know the cluster's address.
        :raises RuntimeError: if the cluster does not answer.
        """

    def page(self, application_id: str) -> str | None:  # noqa: ARG002 - of other clusters
        """The application's page there, or None."""
        return None

    def clean_up(self, application_id: str) -> None:  # noqa: B027 - most leave nothing
        """Delete what an application has left there that has ended. A failure is only logged."""
