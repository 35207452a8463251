"""Text of a Java properties file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "})
_NAME_ESCAPES = str.maketrans({"=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"})


def format_properties(properties: Mapping[str, str]) -> str:
    """One line for each, in ASCII.

    >>> format_properties({"a": "1\\n2"})
    'a=1\\\\n2\\n'
    """
    lines = (
        f"{name.translate(_ESCAPES).translate(_NAME_ESCAPES)}={value.translate(_ESCAPES)}\n"
        for name, value in properties.items()
    )
    return "".join(character if character.isascii() else _unicode(character) for character in "".join(lines))


def _unicode(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
