"""A connection's Extra while it is parsed: each property is taken once, and the remaining ones are unknown. No I/O."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_kafka_spark.core.connection.text_rules import PATH, PLAIN, SECRET, TextRule
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

#: Why a property that names a class or a function has no counterpart.
CODE_OF_ONE_CLIENT = "it names code that only one of the two clients can run"
#: A PEM block in one line.
_PEM_BLOCK = re.compile(r"(-----BEGIN [A-Z0-9 ]+-----)([^\n]+?)(-----END [A-Z0-9 ]+-----) *")


@dataclass(frozen=True, slots=True)
class PemSource:
    """PEM in a file, or in the connection itself.

    :param name: the property that has it, for messages.
    """

    name: str
    location: str | None = None
    pem: str | None = field(default=None, repr=False)


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

    def take_or_jaas(self, *names: str, in_jaas: str | None, rule: TextRule = PLAIN) -> str | None:
        """The value of a property that may also be an option of ``sasl.jaas.config``.

        :param names: of one and the same setting.
        :param in_jaas: the option's value.
        :param rule: what the value must be.
        :raises ConnectionConfigError: if both are set to different values, or the value breaks the rule.
        """
        value = self.take(*names, rule=rule)
        if in_jaas:
            self.check(f"{names[0]} (in sasl.jaas.config)", in_jaas, rule)
        if value and in_jaas and value != in_jaas:
            raise self.error(f"sets {names[0]} and sasl.jaas.config to different values. Keep one of them.")
        return value or in_jaas

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

    def take_pem_source(self, location_name: str, pem_name: str) -> PemSource | None:
        """A PEM text that one property has, or the file that the other one names."""
        if "-----BEGIN" in str(self.left.get(location_name)):
            raise self.error(f"has a PEM text in {location_name}, where a path belongs. Put it into {pem_name}.")
        location, pem = self.take(location_name, rule=PATH), self.take_pem(pem_name)
        if location and pem:
            raise self.error(f"sets both {location_name} and {pem_name}. Keep one of them.")
        if location:
            return PemSource(location_name, location=location)
        return PemSource(pem_name, pem=pem) if pem else None

    def take_authorities(self, location_name: str, pem_name: str) -> PemSource | None:
        """The CA certificates that a connection trusts; None for those of the machine."""
        source = self.take_pem_source(location_name, pem_name)
        # librdkafka's value for the machine's trust store, which is Java's default.
        return None if source is not None and source.location == "probe" else source

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

    def raise_if_without_counterpart(self, reasons: Mapping[str, str]) -> None:
        """:raises ConnectionConfigError: if one of these properties is set, with the reason."""
        for name, reason in reasons.items():
            if name in self.left:
                raise self.without_counterpart(name, reason)

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
