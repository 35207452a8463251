"""The Spark that a job runs in: its context at once, its SQL session only where SQL is asked for.

A copy without an expression needs no SQL. A session costs a small replay more than the copy itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_kafka_spark.jobs.java_names import JavaNames
from airflow_provider_kafka_spark.jobs.record_writer import compile_ahead

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
        self._session = session
        self._is_own = session is None
        self._context = _start() if session is None else session.sparkContext

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
        """End the application, if it was started here. This process ends as well, so nothing of PySpark is stopped."""
        if self._is_own:
            java_context: Any = self._context._jsc
            # PySpark's own stop waits half a second for its server of Python accumulators.
            java_context.stop()


def _start() -> SparkContext:
    """Start an application. The JVM is there before it, and compiles the writer meanwhile."""
    jvm = started_jvm()
    from pyspark import SparkContext

    compile_ahead(jvm)
    return SparkContext.getOrCreate()


def started_jvm() -> Any:
    """The driver's JVM, in which no application runs yet."""
    import_from_folder()
    with _without_numpy():
        from pyspark import SparkContext

    _drop_numpy_converters()
    SparkContext._ensure_initialized()
    return JavaNames(SparkContext._jvm)


@contextmanager
def _without_numpy() -> Iterator[None]:
    """Let PySpark be imported as where NumPy, which no job needs, is not installed: that takes a third less."""
    if "numpy" in sys.modules:
        yield
        return
    # What Python takes for a module that cannot be imported.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["numpy"]


def _drop_numpy_converters() -> None:
    """Let no call to the JVM look for arrays of NumPy among its arguments, of which jobs pass none: at the first call
    PySpark imports its own test tools for that, and with them pandas (0.3 s).
    """
    from py4j.protocol import INPUT_CONVERTER

    INPUT_CONVERTER[:] = [item for item in INPUT_CONVERTER if not type(item).__name__.startswith("Numpy")]


def import_from_folder() -> None:
    """Let PySpark be imported from the folder of the Spark in use, which has compiled modules.

    ``spark-submit`` puts a zip of the same modules first, which Python compiles at every start (0.3 s).
    """
    home = Path(os.environ.get("SPARK_HOME", os.devnull))
    archive = str(home / "python" / "lib" / "pyspark.zip")
    others = [entry for entry in sys.path if entry != archive]
    found = PathFinder.find_spec("pyspark", others)
    # In an installation by pip, this folder is Spark's home.
    if found is not None and found.origin == str(home / "__init__.py"):
        sys.path[:] = others
