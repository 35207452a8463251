"""``bootstrap.servers`` as both clients read it. No I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

from airflow_provider_kafka_spark.core.secrets import without_user

DEFAULT_PORT = 9092

#: librdkafka and Java both accept a protocol prefix. An IPv6 address is in brackets if a port follows.
_SERVER = re.compile(r"(?:[A-Za-z_]+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[\w.-]+))(?::(?P<port>\d{1,5}))?")


class Server(NamedTuple):
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_servers(text: str, default_port: int = DEFAULT_PORT) -> list[Server]:
    """Read a list of brokers.

    >>> [str(server) for server in parse_servers("broker-1:9093, broker-2,[::1]:9092")]
    ['broker-1:9093', 'broker-2:9092', '[::1]:9092']

    :param default_port: for brokers without a port; librdkafka's default is 9092, and Java requires a port.
    :raises ValueError: naming the first part that is not a ``host:port``.
    """
    servers = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        # An IPv6 address alone needs no brackets.
        found = _SERVER.fullmatch(f"[{part}]" if part.count(":") > 1 and "[" not in part and "/" not in part else part)
        port = int(found["port"] or default_port) if found else 0
        if found is None or not 0 < port < 65536:
            raise ValueError(f"{without_user(part)!r} is no host:port")
        servers.append(Server(found["ipv6"] or found["host"], port))
    return servers
