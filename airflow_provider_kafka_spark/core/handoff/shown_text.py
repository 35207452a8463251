"""Escape and shorten a driver's text for logs, errors and reports. No I/O.

A driver may quote megabytes of records, and control characters that hide or forge text in a terminal.
"""

from __future__ import annotations

import re

#: All control characters of Unicode except line breaks and tabs, and those that change the text direction.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str, most: int) -> str:
    """The text with escaped control characters, and without its middle if it is too long.

    :param most: maximum length, in characters before escaping.

    >>> shown("red: \\x1b[31m", 40)
    'red: \\\\x1b[31m'
    >>> shown("0123456789" * 9, 20)
    '012345678901234 ... (70 characters) ... 56789'
    """
    if len(text) > most:
        head, tail = most - most // 4, most // 4
        text = f"{text[:head]} ... ({len(text) - most:,} characters) ... {text[len(text) - tail :]}"
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_lines(text: str, most_lines: int, most: int) -> str:
    """The same for each line; lines in the middle are left out if there are too many.

    :param most_lines: maximum number of lines, without the one for the omitted lines.
    :param most: maximum length of a line, in characters.
    """
    lines = text.splitlines()
    if len(lines) > most_lines:
        head, tail = most_lines - most_lines // 2, most_lines // 2
        lines = [*lines[:head], f"... ({len(lines) - most_lines:,} lines) ...", *lines[len(lines) - tail :]]
    return "\n".join(shown(line, most) for line in lines)
