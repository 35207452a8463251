"""Options of a JVM in one text. No I/O.

Rules: ``CommandBuilderUtils.parseOptionString`` and ``Utils.splitCommandString`` of Spark.
"""

from __future__ import annotations

import re

#: Characters without a meaning to Spark or to a shell that starts an executor.
_PLAIN = re.compile(r"[A-Za-z0-9._~:/?&=%@+,-]+")


def java_option(option: str) -> str:
    r"""One option, quoted if necessary.

    >>> java_option("-Da=b"), java_option('-Da=b "c')
    ('-Da=b', '"-Da=b \\"c"')
    """
    if _PLAIN.fullmatch(option):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
