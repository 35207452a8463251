"""The ACLs that docs/reference/permissions.md lists, read from there: what is documented is what is tested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_kafka_spark.testing.broker_admin import CLUSTER
from airflow_provider_kafka_spark.testing.broker_client import BrokerClient

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "permissions.md"
OPTIONAL = "optional"
#: What stands for how the names of a resource begin.
PREFIXED = "prefix"
_TYPES = {"TransactionalId": "transactional_id"}
_Binding = tuple[str, str, str, str, str]

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (\w+) \| ([A-Z_]+) \| (\w+)(?: \*(\w+)\*)? \| ([^|]+) \| [^|]+ \|$")


@dataclass(frozen=True, slots=True)
class Acl:
    """One row: what a login must be allowed to do.

    :param login: ``source``, ``target`` or ``connection``: whose login it is.
    :param resource: what stands for the name of the resource, such as ``commit_group_id``; empty for the cluster.
    :param when: ``always``, ``optional``, or what it is needed for.
    """

    login: str
    operation: str
    resource_type: str
    resource: str
    when: str

    def __str__(self) -> str:
        name = self.resource if self.resource != PREFIXED else self.resource_type
        return f"{self.operation}-{name or self.resource_type}"


def documented(class_name: str) -> list[Acl]:
    """The rows of the table that lists what a class needs."""
    text = DOCUMENT.read_text()
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        if f"`{class_name}`" in heading[1]:
            lines = [line for line in text[heading.end() : end].splitlines() if line.startswith("|")]
            # After the header and the line below it, every line has to be understood.
            rows = [_ROW.match(line) for line in lines[2:]]
            assert rows, f"no table for {class_name}"
            return [_acl(row, line) for row, line in zip(rows, lines[2:], strict=True)]
    raise AssertionError(f"{class_name} must have a section in {DOCUMENT.name}")


def needed(class_name: str, *whens: str) -> list[Acl]:
    """What a class cannot do without.

    :param whens: what it is needed for, in addition to ``always``.
    """
    rows = documented(class_name)
    unknown = set(whens) - {row.when for row in rows}
    assert not unknown, f"{DOCUMENT.name} says nothing about {unknown}"
    return [row for row in rows if row.when in ("always", *whens)]


@contextmanager
def granted(
    broker: BrokerClient, acls: list[Acl], principals: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[None]:
    """Users have these ACLs, inside ``with``.

    :param principals: by :attr:`Acl.login`.
    :param names: by :attr:`Acl.resource`.
    """
    added: list[_Binding] = []
    try:
        for acl in acls:
            binding = _binding(acl, principals, names)
            broker.add_acl(*binding)
            added.append(binding)
        yield
    finally:
        for binding in added:
            broker.remove_acl(*binding)


@contextmanager
def withdrawn(
    broker: BrokerClient, acl: Acl, principals: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[None]:
    """A user who has this ACL does not have it, inside ``with``."""
    binding = _binding(acl, principals, names)
    broker.remove_acl(*binding)
    try:
        yield
    finally:
        broker.add_acl(*binding)


def _binding(acl: Acl, principals: Mapping[str, str], names: Mapping[str, str]) -> _Binding:
    return (
        principals[acl.login],
        acl.operation,
        _TYPES.get(acl.resource_type, acl.resource_type),
        names[acl.resource] if acl.resource else CLUSTER,
        "prefixed" if acl.resource == PREFIXED else "literal",
    )


def _acl(row: re.Match[str] | None, line: str) -> Acl:
    assert row is not None, f"a row of {DOCUMENT.name} cannot be read: {line}"
    login, operation, resource_type, resource, when = row.groups()
    return Acl(login, operation, resource_type, resource or "", when.strip())
