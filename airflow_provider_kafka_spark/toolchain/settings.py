"""Options of Airflow's section ``[kafka_spark]``. Each is declared once; Airflow and the errors have it from here."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_kafka_spark.core.errors import OptionError

SECTION = "kafka_spark"
#: What the environment variables of all options begin with.
VARIABLE_PREFIX = "AIRFLOW__KAFKA_SPARK__"
_BOOLEANS = dict.fromkeys(("true", "t", "1", "on"), True) | dict.fromkeys(("false", "f", "0", "off"), False)
#: Characters of a wrong name in a message.
_NAME_SHOWN = 50
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option. Its text is what error messages call it.

    :param option: the name in the section.
    :param description: what Airflow shows of it.
    :param default: as text.
    """

    option: str
    description: str
    example: str | None = None
    default: str = ""
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{VARIABLE_PREFIX}{self.option.upper()}"

    def declared(self) -> dict[str, Any]:
        """The option, as Airflow's ``provider_info.schema.json`` has it."""
        return {
            "description": f"{self.description}\n",
            "version_added": "0.1.0",
            "type": "boolean" if self.default in ("True", "False") else "string",
            **({"sensitive": True} if self.is_secret else {}),
            "example": self.example,
            "default": self.default,
        }

    def value(self) -> str:
        """The value in the order of Airflow: environment, then ``airflow.cfg``, then the default."""
        if "airflow" not in sys.modules:
            # Such as a broker for tests on its own: Airflow takes seconds to import, and makes folders in the home.
            return os.environ.get(self.variable, "")
        from airflow.sdk.configuration import conf

        value: str = conf.get(SECTION, self.option, fallback="")
        return value

    def flag(self) -> bool:
        """:raises OptionError: if the value is not a boolean."""
        value = self.value()
        try:
            return _BOOLEANS[(value.strip() or self.default).lower()]
        except KeyError:
            raise self.error("True or False", repr(value)) from None

    def error(self, rule: str, got: str) -> OptionError:
        return OptionError(f"{self} must be {rule}; got {got}. Correct the option, or remove it for the default.")

    def __str__(self) -> str:
        return f"[{SECTION}] {self.option} ({self.variable})"


CACHE_FOLDER = Setting(
    "cache_folder",
    "Where fetched jars, the compiled writer and the class archive are kept; an absolute path. If it is empty, "
    "airflow-provider-kafka-spark in the user's cache folder.",
    "/var/cache/kafka-spark",
)
MAVEN_REPOSITORY = Setting(
    "maven_repository",
    "URL of a mirror of Maven Central. If it is empty, Maven Central itself.",
    "https://repo.example.com/maven2",
)
HTTP_HOSTS = Setting(
    "maven_http_hosts",
    "Hosts that maven_repository may have with plain http, separated by commas. Everybody on the way can change what "
    "http transfers.",
    "repo.internal",
)
CLASS_ARCHIVE = Setting(
    "class_archive",
    "Whether the command prepare compiles the writer and makes an archive of Spark's classes, with which jobs with a "
    "local master start faster, and whether they use them.",
    default="True",
)
ALLOW_CLIENT_CLASSES = Setting(
    "allow_client_classes",
    "Whether source_options and sink_options may name classes that Kafka's clients load in driver and executors "
    "(interceptor.classes, metric.reporters, partitioner.class).",
    default="False",
)
DEPLOYMENT = Setting(
    "deployment",
    "Name of this deployment of Airflow: 1 to 100 letters, digits, '.', '_' and '-'. Runs of two deployments with the "
    "same DAGs, on one Kafka, are told apart by it. If it is empty, by a random one, which the first copy stores in "
    "the variable kafka_spark_deployment.",
    "production",
)
STATE_KEY = Setting(
    "state_key",
    "Key of the MAC by which a task knows what it has stored for its next try, at least 22 random characters, the same "
    "on all workers. If it is empty, a random one, which the first copy stores in the variable "
    "kafka_spark_state_secret.",
    is_secret=True,
)
TOKEN_ENDPOINT_HOSTS = Setting(
    "token_endpoint_hosts",
    "Hosts that the token endpoint of a connection by OAuth may have, separated by commas. If it is empty, every host.",
    "id.example.com",
)
SETTINGS = (
    CACHE_FOLDER,
    MAVEN_REPOSITORY,
    HTTP_HOSTS,
    CLASS_ARCHIVE,
    ALLOW_CLIENT_CLASSES,
    DEPLOYMENT,
    STATE_KEY,
    TOKEN_ENDPOINT_HOSTS,
)
#: Characters that a random text of 128 bits has at least.
_SHORTEST_KEY = 22


def cache_folder() -> Path | None:
    """The folder of fetched jars, the compiled writer and the class archive; None for the default.

    :raises OptionError: if it is not absolute: tasks have different working folders.
    """
    value = CACHE_FOLDER.value()
    folder = Path(value).expanduser()
    if value and not folder.is_absolute():
        raise CACHE_FOLDER.error("an absolute path, such as /var/cache/kafka-spark", repr(value))
    return folder if value else None


def maven_repository() -> str | None:
    """The URL of a mirror of Maven Central; None for Maven Central.

    :raises OptionError: if it is no URL, or its host may not be asked by plain http.
    """
    value = MAVEN_REPOSITORY.value()
    try:
        parts = urlsplit(value)
        scheme, host = parts.scheme, parts.hostname or ""
    except ValueError:
        scheme, host = "", ""
    # The rest may have a password.
    got = f"the scheme {scheme[:20]!r}" if scheme else "no URL"
    if value and scheme not in ("http", "https", "file"):
        raise MAVEN_REPOSITORY.error("an https or file URL, such as https://repo.example.com/maven2", got)
    if scheme == "http" and host not in _http_hosts():
        # Whoever is on the way could change the code that the driver runs.
        rule = f"an https or file URL, such as https://repo.example.com/maven2, unless {HTTP_HOSTS} has its host"
        raise MAVEN_REPOSITORY.error(rule, got)
    return value or None


def _http_hosts() -> set[str]:
    return {host.strip().lower() for host in HTTP_HOSTS.value().split(",")} - {""}


def deployment() -> str | None:
    """The name of this deployment of Airflow; None if it has none.

    :raises OptionError: if it is malformed.
    """
    value = DEPLOYMENT.value()
    if value and not _NAME.fullmatch(value):
        shown = repr(value if len(value) <= _NAME_SHOWN else f"{value[:_NAME_SHOWN]}...")
        raise DEPLOYMENT.error("1 to 100 letters, digits, '.', '_' and '-', such as production", shown)
    return value or None


def state_key() -> str | None:
    """The key by which tasks know what they have stored; None if there is none.

    :raises OptionError: if it is short enough to be guessed.
    """
    value = STATE_KEY.value()
    if value and len(value) < _SHORTEST_KEY:
        rule = f"at least {_SHORTEST_KEY} random characters, such as `openssl rand -hex 32` prints"
        raise STATE_KEY.error(rule, f"{len(value)} of them")
    return value or None


def token_endpoint_hosts() -> frozenset[str] | None:
    """The hosts that the token endpoint of a connection may have, in lower case; None for any.

    :raises OptionError: if the value is not a list of hosts, separated by commas.
    """
    value = TOKEN_ENDPOINT_HOSTS.value()
    hosts = [host.strip().lower() for host in value.split(",")] if value.strip() else []
    if not all(map(_HOST.fullmatch, hosts)):
        raise TOKEN_ENDPOINT_HOSTS.error(
            "host names without scheme and port, separated by commas, such as id.example.com", repr(value)
        )
    return frozenset(hosts) or None
