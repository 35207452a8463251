"""The Spark that a job runs in: its context at once, its SQL session only where SQL is asked for.

A copy without an expression needs no SQL. A session costs a small replay more than the copy itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class HasContext(Protocol):
    """A Spark session, or what stands for one."""

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - PySpark's name
        ...


class SparkApplication:
    """One running Spark application.

    :param session: one that runs already and goes on after the job; otherwise an application is started.
    """

    def __init__(self, session: SparkSession | None = None) -> None:
        from pyspark import SparkContext

        self._session = session
        self._is_own = session is None
        self._context = SparkContext.getOrCreate() if session is None else session.sparkContext

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - PySpark's name
        return self._context

    @property
    def session(self) -> SparkSession:
        """The SQL session, made when it is first asked for."""
        from pyspark.sql import SparkSession

        if self._session is None:
            self._session = SparkSession.builder.getOrCreate()
        return self._session

    def stop(self) -> None:
        """End the application, if it was started here."""
        if self._is_own:
            self._context.stop()
