"""A connection's Extra while it is parsed: each property is taken once, and the remaining ones are unknown. No I/O."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from airflow_provider_kafka_spark.core.connection.text_rules import PLAIN, SECRET, TextRule
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: A PEM block in one line.
_PEM_BLOCK = re.compile(r"(-----BEGIN [A-Z0-9 ]+-----)([^\n]+?)(-----END [A-Z0-9 ]+-----) *")


class ConnectionExtra:
    """The properties of one connection, with names of librdkafka and of Java.

    :param conn_id: for messages.
    :param extra: names and values as the connection has them; null counts as missing.
    """

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        self.conn_id = conn_id
        self.left: dict[str, Any] = {str(name).strip(): value for name, value in extra.items() if value is not None}

    def take(self, *names: str, rule: TextRule = PLAIN) -> str | None:
        """The value of any of these names, as text; None if it is missing or empty.

        :param names: of one and the same setting.
        :param rule: what the value must be.
        :raises ConnectionConfigError: if two of them have different values, or a value is no text or breaks the rule.
        """
        found = {name: self._text(name) for name in names if name in self.left}
        for name in found:
            del self.left[name]
        values = {name: value for name, value in found.items() if value}
        if len(set(values.values())) > 1:
            raise self.error(
                f"sets {' and '.join(values)}, which are one setting, to different values. Keep one of them."
            )
        for name, value in values.items():
            self.check(name, value, rule)
        return next(iter(values.values()), None)

    def take_one(self, name: str, other: str | None, other_name: str, rule: TextRule = PLAIN) -> str | None:
        """The value of a property that may also be set elsewhere, such as in a JAAS line.

        :param other: the value there.
        :param other_name: the name of that place, for the message.
        :param rule: what the value must be.
        :raises ConnectionConfigError: if both are set to different values, or the value breaks the rule.
        """
        value = self.take(name, rule=rule)
        if other:
            self.check(f"{name} (in {other_name})", other, rule)
        if value and other and value != other:
            raise self.error(f"sets {name} and {other_name} to different values. Keep one of them.")
        return value or other

    def take_pem(self, name: str) -> str | None:
        """A PEM text. Line ends that were lost, or written as ``\\n``, in a pasted single line are restored."""
        text = self.take(name, rule=SECRET)
        if text is None:
            return None
        if "-----BEGIN" not in text:
            raise self.error(
                f"must have a PEM text in {name}, which begins with '-----BEGIN'; got {len(text)} characters without "
                "it. Paste the file's content, or name the file by the property that ends in 'location'."
            )
        if "\n" not in text.strip():
            text = text.replace("\\n", "\n")
        return _PEM_BLOCK.sub(_in_lines, text)

    def take_flag(self, name: str) -> bool | None:
        """A JSON boolean, or its text.

        :raises ConnectionConfigError: if it is anything else.
        """
        text = self.take(name)
        if text is None:
            return None
        if text.lower() not in ("true", "false"):
            raise self.error(f"must have true or false for {name}; got {text!r}.")
        return text.lower() == "true"

    def check(self, name: str, value: str, rule: TextRule) -> None:
        """:raises ConnectionConfigError: if a value breaks the rule. The message shows no secret."""
        if fault := rule.fault(value):
            raise ConnectionConfigError(
                f"{name} of connection {self.conn_id!r} must be {rule.what}; got {fault}. Correct it."
            )

    def error(self, problem: str) -> ConnectionConfigError:
        """To be raised.

        :param problem: continues "The connection 'x' ".
        """
        return ConnectionConfigError(f"The connection {self.conn_id!r} {problem}")

    def without_counterpart(self, name: str, reason: str) -> ConnectionConfigError:
        """The error for a property that only one of the two clients supports."""
        return self.error(
            f"sets {name!r}, which has no counterpart in Spark's Java client or none on the worker: {reason}. Remove "
            "it."
        )

    def _text(self, name: str) -> str:
        value = self.left[name]
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, (str, int, float)):
            raise self.error(f"must have a text for {name}; got a {type(value).__name__}. Correct it.")
        return str(value)


def _in_lines(block: re.Match[str]) -> str:
    begin, content, end = block.groups()
    return "\n".join([begin, *textwrap.wrap("".join(content.split()), 64), end, ""])
