"""Java's classes and collections with few requests to the JVM: as Py4J has them they took a quarter of a second of each
copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class JavaNames:
    """Py4J's view of a JVM, for classes; a part that begins with a small letter is one of a package.

    Py4J asks for every part of ``jvm.org.apache.kafka.common.TopicPartition``. For the first part alone, the JVM looks
    for such a class in each package that PySpark imports, in every jar of the class path.

    :param jvm: the view, such as ``SparkContext._jvm``.
    """

    def __init__(self, jvm: Any, package: str = "") -> None:
        self._jvm = jvm
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._package}.{name}" if self._package else name
        is_class = name.rpartition(".")[2][:1].isupper()
        return getattr(self._jvm, full) if is_class else JavaNames(self._jvm, full)


def java_of(context: Any) -> Any:
    """
    :param context: a ``SparkContext``.
    """
    return JavaNames(context._jvm)


def items_of(collection: Any) -> Iterator[Any]:
    """What a Java collection has.

    Py4J's own loop ends in an exception of Java's, which PySpark, where it has an SQL session, compares with a dozen
    classes by their long names.
    """
    each = collection.iterator()
    for _ in range(collection.size()):
        yield next(each)
