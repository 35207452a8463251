"""A driver's text as logs, errors and reports show it. No I/O.

A driver quotes records: megabytes of them, and control characters by which a terminal hides or forges what it shows.
"""

from __future__ import annotations

import re

#: All of Unicode's but line breaks and tabs; and those that turn the direction of writing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str, most: int) -> str:
    """The text with escapes in place of control characters, and without its middle where that makes it too long.

    :param most: length that is shown, in characters before they are escaped.

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
    """The same of each line; lines in the middle are left out where there are too many.

    :param most_lines: that are shown, without one in place of the rest.
    :param most: length of a line that is shown, in characters.
    """
    lines = text.splitlines()
    if len(lines) > most_lines:
        head, tail = most_lines - most_lines // 2, most_lines // 2
        lines = [*lines[:head], f"... ({len(lines) - most_lines:,} lines) ...", *lines[len(lines) - tail :]]
    return "\n".join(shown(line, most) for line in lines)
