"""JAAS lines, the login configuration of the Java client. They are written and parsed by the rules of Kafka's parser.
No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Kafka uses a StreamTokenizer: words begin with a letter, and all other values must be quoted. A quoted text ends at
#: the end of the line.
_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z_$\u00a0-\U0010ffff][\w.$\u00a0-\U0010ffff-]*)|"(?P<double>(?:\\.|[^"\\\r\n])*)"|'(?P<single>(?:\\.|[^'\\\r\n])*)'|(?P<sign>[=;]))"""
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True)
class JaasLine:
    """One login module with its options.

    :param module: name of a Java class.
    :param options: **Secret.**
    """

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """``ScramLoginModule``."""
        return self.module.rpartition(".")[2]

    def format(self) -> str:
        """The line; :func:`parse_jaas` reads it back."""
        return (
            " ".join([self.module, "required", *(f"{name}={quote(value)}" for name, value in self.options.items())])
            + ";"
        )


def parse_jaas(text: str) -> JaasLine:
    """Read a ``sasl.jaas.config``.

    >>> parse_jaas('a.b.PlainLoginModule required username="ann" password="x";').short_name
    'PlainLoginModule'

    :raises ValueError: if it is not exactly one module with its options. The message shows no value.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0][0] != "word" or tokens[1][1].lower() not in _FLAGS or tokens[-1] != ("sign", ";"):
        raise ValueError("it must be a module's name, 'required', options and a semicolon")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for at in range(0, len(rest), 3):
        name, *assignment = rest[at : at + 3]
        if name[0] != "word" or len(assignment) != 2 or assignment[0] != ("sign", "=") or assignment[1][0] == "sign":
            raise ValueError('each option must be name="value"; values that are no words must be quoted')
        if name[1] in options:
            raise ValueError(f"the option {name[1]} is given twice")
        options[name[1]] = assignment[1][1]
    return JaasLine(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"it cannot be read from character {position + 1} on: a quote may be missing")
        kind, value = str(found.lastgroup), str(found[str(found.lastgroup)])
        tokens.append((kind, value) if kind in ("word", "sign") else ("text", _unescape(value)))
        position = found.end()
    return tokens


def _unescape(quoted: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(plain, quoted)


def quote(value: str) -> str:
    """A value as Kafka's parser reads it, in quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
