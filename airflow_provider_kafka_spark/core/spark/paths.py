"""The paths in the ``spark-submit`` options of an operator. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

#: Options that name files on the worker, with the separator of their lists.
_SEPARATORS = {
    "files": ",",
    "py_files": ",",
    "jars": ",",
    "archives": ",",
    "driver_class_path": ":",
    "keytab": ",",
    "properties_file": ",",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def absolute_paths(options: Mapping[str, Any], folder: PurePath) -> dict[str, Any]:
    """The options with absolute paths, for a ``spark-submit`` that runs in another folder than the one given.

    >>> absolute_paths({"files": "a.txt#b, /c,hdfs:///d", "driver_class_path": "x.jar:/y/*"}, PurePath("/w"))
    {'files': '/w/a.txt#b,/c,hdfs:///d', 'driver_class_path': '/w/x.jar:/y/*'}
    """
    return {
        name: _absolute(value, _SEPARATORS[name], folder) if name in _SEPARATORS and isinstance(value, str) else value
        for name, value in options.items()
    }


def _absolute(text: str, separator: str, folder: PurePath) -> str:
    parts = [part.strip() for part in text.split(separator)]
    return separator.join(
        part if not part or (separator == "," and _SCHEME.match(part)) else str(folder / part) for part in parts
    )
