"""Escape and shorten the texts of others for logs, errors, reports and approvals. No I/O.

A driver may quote megabytes of records, and control characters that hide or forge text in a terminal. What somebody
enters in a form must not look like a line of the plan that another one approves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

_MOST_SHOWN = 10
#: Of an item, in characters.
_WIDTH = 100
#: All control characters of Unicode except line breaks and tabs, those that change the text direction, and
#: those that nobody sees.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


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
    return _CONTROL.sub(_escaped, text)


def item(name: str, text: str) -> str:
    """An item of a list, whole: nothing in its text begins a line, and no line is too long to be seen.

    >>> print(item("Only records with", "true\\nTotal: 5"))
    Only records with: true\\nTotal: 5
    >>> [len(line) for line in item("a", "0123456789" * 20).splitlines()]
    [100, 100, 11]
    """
    line = one_line(f"{name}: {text}")
    rest = [line[i : i + _WIDTH - 4] for i in range(_WIDTH, len(line), _WIDTH - 4)]
    return "\n    ".join([line[:_WIDTH], *rest])


def markdown_item(name: str, text: str) -> str:
    """The same for a list in Markdown: the text is code, which has no markup.

    >>> markdown_item("Only records with", "a `b` **c**")
    '- Only records with: ``a `b` **c**``'
    """
    line = one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"- {name}: {ticks}{pad}{line}{pad}{ticks}"


def moment(ms: int, timespec: str = "milliseconds") -> str:
    """A time in ms since 1970, in ISO 8601 and UTC; as a number where no calendar has it, since a producer may have
    sent microseconds.

    >>> moment(1_795_165_200_000, "seconds"), moment(2**62)
    ('2026-11-20T09:00:00+00:00', '4611686018427387904 ms since 1970')
    """
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec=timespec)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms since 1970"


def first_ten(texts: Sequence[str], rest: str = "more") -> list[str]:
    """The first ten, and how many others there are: no log has a place for thousands.

    >>> first_ten([f"t{i}" for i in range(1_012)], "more in the result")[8:]
    ['t8', 't9', 'and 1,002 more in the result']
    """
    hidden = len(texts) - _MOST_SHOWN
    return [*texts[:_MOST_SHOWN], *([f"and {hidden:,} {rest}"] if hidden > 0 else [])]


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


def one_line(text: str) -> str:
    """The text with escaped control characters, line breaks and tabs among them."""
    return _CONTROL.sub(_escaped, text.translate({9: "\\t", 10: "\\n"}))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def shortened(items: Iterable[object], separator: str = ", ", most: int = 5) -> str:
    """The texts of items joined for a message, limited to so many.

    >>> shortened(f"t{i}" for i in range(7))
    't0, t1, t2, t3, t4 and 2 more'
    """
    texts = list(map(str, items))
    return separator.join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table whose first row is its headings: names to the left, numbers to the right.

    >>> aligned([("topic", "until"), ("orders", "9")])
    ['topic   until', '------  -----', 'orders      9']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = widths
    return [
        "  ".join((row[0].ljust(first), *(cell.rjust(w) for cell, w in zip(row[1:], others, strict=True)))).rstrip()
        for row in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]
