"""The characters that a connection's value may have, by its use. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_kafka_spark.core.spark.options import REFERENCE


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule for a value.

    :param what: for messages, with an example.
    :param allows: whether a value may have this character.
    :param form: a pattern that the whole value must also match.
    """

    what: str
    allows: Callable[[str], bool]
    form: re.Pattern[str] | None = None

    def fault(self, text: str) -> str | None:
        """A description of the forbidden part of a value, with at most one character of it; None if it is valid."""
        if REFERENCE in text:
            return f"{REFERENCE!r}, the beginning of a reference"
        for position, character in enumerate(text, 1):
            if not self.allows(character):
                return f"{character!a} (U+{ord(character):04X}) as character {position}"
        if self.form is not None and not self.form.fullmatch(text):
            return repr(text)
        return None


def _one_of(characters: str) -> Callable[[str], bool]:
    pattern = re.compile(f"[{characters}]")
    return lambda character: pattern.fullmatch(character) is not None


#: Passwords. They are only ever written escaped: into a JAAS line and a properties file.
SECRET = TextRule(
    "text without zero characters and halves of a character, and no reference such as ${file:...}",
    lambda character: character != "\0" and not "\ud800" <= character <= "\udfff",
)
#: Names of users. They are also logged.
PRINTABLE = TextRule("printable text without tabs, line breaks and Unicode spaces, such as 'copier'", str.isprintable)
#: Values without a narrower rule.
PLAIN = TextRule(
    "plain text without quotes, backslashes, line breaks and Unicode spaces, such as 'copy'",
    lambda character: character.isprintable() and character not in "\"'`\\",
)
#: Files may travel with a job, in a list with commas, and librdkafka puts a keytab's path into a command of a shell.
PATH = TextRule(
    "a path of letters, digits, blanks and ._/@+=:~()-, such as '/etc/kafka/copier.keytab'",
    _one_of(r"\w ./@+=:~()-"),
    re.compile(r"[^-].*"),
)
#: The name becomes an option of a JAAS line, and the whole a part of librdkafka's list.
EXTENSION = TextRule(
    "'name=value,name=value' with names of letters, and values without quotes and backslashes",
    lambda character: PLAIN.allows(character) and character != ",",
    re.compile(r"[A-Za-z]+=.+"),
)
#: It becomes an option of JVMs, in a list with commas, which all users of the machine can read: no user and password.
URL = TextRule(
    "an address such as 'https://id.example.com/token', of letters, digits and ._~:/?&=%+-",
    _one_of(r"A-Za-z0-9._~:/?&=%+-"),
    re.compile(r"https?://[^/?].*", re.IGNORECASE),
)
#: librdkafka puts it into a command of a shell, without quotes.
PRINCIPAL = TextRule(
    "a Kerberos principal such as 'copier@EXAMPLE.COM' or 'copier/host@EXAMPLE.COM'",
    _one_of(r"\w./@+=:-"),
    re.compile(r"\w[\w.+=:-]*(/[\w.+=:-]+)*(@[\w.-]+)?"),
)
NAME = TextRule("a name of letters, digits and ._-, such as 'kafka'", _one_of(r"\w.-"))
NAMES = TextRule("names of letters, digits, _ and -, separated by commas, such as 'default,fips'", _one_of(r"\w, -"))
