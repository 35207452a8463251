"""Options of Airflow's section ``[kafka_spark]``, which :mod:`~airflow_provider_kafka_spark.provider_info` declares."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_kafka_spark.core.errors import OptionError

SECTION = "kafka_spark"
#: What the environment variables of all options begin with, in Airflow's form and in the earlier one.
VARIABLE_PREFIXES = ("AIRFLOW__KAFKA_SPARK__", "AIRFLOW_KAFKA_SPARK_")
_BOOLEANS = dict.fromkeys(("true", "t", "1", "on"), True) | dict.fromkeys(("false", "f", "0", "off"), False)
#: Characters of a wrong name in a message.
_NAME_SHOWN = 50
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option. Its text is what error messages call it.

    :param option: the name in the section.
    :param earlier_variable: the environment variable from before there was a section, if there was one.
    """

    option: str
    earlier_variable: str = ""

    @property
    def variable(self) -> str:
        """The environment variable, in Airflow's form."""
        return f"{VARIABLE_PREFIXES[0]}{self.option.upper()}"

    def value(self) -> str:
        """The value in the order of Airflow: environment, then ``airflow.cfg``, then the default. The earlier variable
        counts if the environment has none in Airflow's form.
        """
        earlier = os.environ.get(self.earlier_variable) if self.earlier_variable else None
        if earlier and self.variable not in os.environ:
            return earlier
        if "airflow" not in sys.modules:
            # Such as a broker for tests on its own: Airflow takes seconds to import, and makes folders in the home.
            return os.environ.get(self.variable, "")
        from airflow.sdk.configuration import conf

        value: str = conf.get(SECTION, self.option, fallback="")
        return value

    def flag(self, default: bool) -> bool:
        """:raises OptionError: if the value is not a boolean."""
        value = self.value()
        try:
            return _BOOLEANS[value.strip().lower()] if value.strip() else default
        except KeyError:
            raise self.error("True or False", repr(value)) from None

    def error(self, rule: str, got: str) -> OptionError:
        return OptionError(f"{self} must be {rule}; got {got}. Correct the option, or remove it for the default.")

    def __str__(self) -> str:
        return f"[{SECTION}] {self.option} ({self.variable})"


CACHE_FOLDER = Setting("cache_folder", "AIRFLOW_KAFKA_SPARK_CACHE")
MAVEN_REPOSITORY = Setting("maven_repository", "AIRFLOW_KAFKA_SPARK_MAVEN_REPOSITORY")
HTTP_HOSTS = Setting("maven_http_hosts")
CLASS_ARCHIVE = Setting("class_archive", "AIRFLOW_KAFKA_SPARK_CLASS_ARCHIVE")
ALLOW_CLIENT_CLASSES = Setting("allow_client_classes")
TOKEN_ENDPOINT_HOSTS = Setting("token_endpoint_hosts")
DEPLOYMENT = Setting("deployment")
STATE_KEY = Setting("state_key")
#: Characters that a random text of 128 bits has at least.
_SHORTEST_KEY = 22


def cache_folder() -> Path | None:
    """The folder of fetched jars and of the class archive; None for the default.

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


def class_archive_enabled() -> bool:
    """Whether local drivers use a class archive, and the command ``prepare`` makes it.

    :raises OptionError: if the value is not a boolean.
    """
    return CLASS_ARCHIVE.flag(default=True)


def client_classes_allowed() -> bool:
    """Whether ``source_options`` and ``sink_options`` may name classes that Kafka's clients load.

    :raises OptionError: if the value is not a boolean.
    """
    return ALLOW_CLIENT_CLASSES.flag(default=False)


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
