"""Text of a Java properties file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "})
_NAME_ESCAPES = str.maketrans({"=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"})

#: A line with those that continue it; neither empty nor a comment.
_ENTRY = re.compile(r"^[ \t\f]*(?![#!\s])((?:\\(?:\n|.)|[^\\\n])+)", re.MULTILINE)
_CONTINUATION = re.compile(r"\\\n[ \t\f]*")
_NAME_AND_VALUE = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


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


def parse_properties(text: str) -> dict[str, str]:
    """The properties of the file, as Java reads it: the last value of a name counts.

    >>> parse_properties("# a comment\\na: 1\\nb  2 \\\\\\n   3\\na=4")
    {'a': '4', 'b': '2 3'}
    """
    found = {}
    for entry in _ENTRY.findall(text.replace("\r\n", "\n")):
        if parts := _NAME_AND_VALUE.fullmatch(_CONTINUATION.sub("", entry)):
            found[_unescaped(parts[1])] = _unescaped(parts[2])
    return found


def _unescaped(text: str) -> str:
    characters = _ESCAPED.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _MEANINGS.get(found[2], found[2]), text
    )
    # Java escapes the halves of a character beyond 16 bits one by one.
    return characters.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
