from __future__ import annotations

import struct
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_properties import LoginFiles
from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.connection.jaas import parse_jaas
from airflow_provider_kafka_spark.core.connection.kerberos import KerberosLogin, ticket_cache_path, validate_principals
from airflow_provider_kafka_spark.core.connection.sasl import MODULES, parse_sasl
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError
from tests.core.refusals import refuses

_KEYTAB = {
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.principal": "copier@REALM",
    "sasl.kerberos.keytab": "/etc/copier.keytab",
}
_JAAS = (
    f'{MODULES["GSSAPI"]} required useKeyTab=true storeKey=true keyTab="/etc/copier.keytab" principal="copier@REALM";'
)


def _parse(properties: dict[str, Any]) -> KerberosLogin:
    extra = ConnectionExtra("my_kafka", properties)
    login = parse_sasl(extra)
    assert extra.left == {}
    assert isinstance(login, KerberosLogin)
    return login


def _entry(principal: str) -> bytes:
    name, _, realm = principal.rpartition("@")
    names = name.split("/")
    texts = b"".join(struct.pack(">H", len(text)) + text.encode() for text in (realm, *names))
    entry = struct.pack(">H", len(names)) + texts + b"\0" * 13
    return struct.pack(">i", len(entry)) + entry


def _keytab(*principals: str) -> bytes:
    return b"\x05\x02" + b"".join(map(_entry, principals))


#: To Java, the default keytab of the machine.
_NO_KEYTAB = f'{MODULES["GSSAPI"]} required useKeyTab=True principal="copier@REALM";'


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(_KEYTAB, id="librdkafka"),
        pytest.param({"sasl.jaas.config": _JAAS}, id="java"),
        pytest.param({**_KEYTAB, "sasl.jaas.config": _NO_KEYTAB}, id="the-file-in-librdkafkas-only"),
    ],
)
def test_a_keytab_in_either_clients_words(properties: dict[str, str]) -> None:
    both = _parse(properties).properties(LoginFiles())

    assert both.librdkafka == _KEYTAB
    assert both.java["sasl.kerberos.service.name"] == "kafka"
    assert parse_jaas(both.java["sasl.jaas.config"]).options == {
        "useKeyTab": "true",
        "storeKey": "true",
        "useTicketCache": "false",
        "doNotPrompt": "true",
        "keyTab": "/etc/copier.keytab",
        "principal": "copier@REALM",
    }
    assert both.files == ("/etc/copier.keytab",)


def test_the_workers_ticket() -> None:
    """It stays here, and nobody calls kinit for it."""
    both = _parse({}).properties(LoginFiles(ticket_cache="/run/tickets"))

    options = parse_jaas(both.java["sasl.jaas.config"]).options
    assert options == {"useTicketCache": "true", "doNotPrompt": "true", "ticketCache": "/run/tickets"}
    assert both.librdkafka["sasl.kerberos.min.time.before.relogin"] == 0
    assert both.files == ()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        pytest.param({"sasl.kerberos.keytab": "/k"}, "needs sasl.kerberos.principal", id="no-principal"),
        pytest.param(
            {"sasl.jaas.config": _JAAS.replace(";", ' ticketCache="/t";')}, "both a keytab and ticketCache",
            id="two-ways",
        ),
        pytest.param(
            {"sasl.jaas.config": _NO_KEYTAB},
            'knows none, and it does not travel with a job. Name the keytab, as keyTab="/path" there',
            id="default-keytab",
        ),
    ],
)  # fmt: skip
def test_refuses_what_is_incomplete(properties: dict[str, str], words: str) -> None:
    with refuses(ConnectionConfigError, "'my_kafka'", words):
        _parse(properties)


@pytest.mark.parametrize("login", [_KEYTAB, {"sasl.mechanism": "GSSAPI"}], ids=["keytab", "tickets"])
def test_no_command_of_the_connections_own(login: dict[str, str]) -> None:
    """librdkafka would run it in a shell on the worker."""
    with pytest.raises(ConnectionConfigError, match=r"sasl\.kerberos\.kinit\.cmd.* runs it in a shell.* Remove it"):
        _parse({**login, "sasl.kerberos.kinit.cmd": "touch /tmp/x"})


@pytest.mark.parametrize("principal", ["copier@R", "copier/host-1.example.com@EXAMPLE.COM", "copier", "a+b_c@R"])
def test_principals(principal: str) -> None:
    assert _parse({**_KEYTAB, "sasl.kerberos.principal": principal}).principal == principal


@pytest.mark.parametrize(
    "principal", ["copier@R;id", "copier @R", "$(id)@R", "copier@R||id", "-V", "copier@R&", "a>b", "HOST$@R", "a@b@c"]
)
@pytest.mark.parametrize("by", ["librdkafka", "java"])
def test_what_is_no_principal_is_refused(principal: str, by: str) -> None:
    """librdkafka puts it into a command of a shell, without quotes."""
    properties = {
        "librdkafka": {**_KEYTAB, "sasl.kerberos.principal": principal},
        "java": {"sasl.jaas.config": _JAAS.replace("copier@REALM", principal)},
    }
    with pytest.raises(ConnectionConfigError, match=r"must be a Kerberos principal such as 'copier@EXAMPLE\.COM'"):
        _parse(properties[by])


def _tickets(named: str | None = None) -> KerberosLogin:
    ticket_cache = f' ticketCache="{named}"' if named else ""
    return _parse({"sasl.jaas.config": f"{MODULES['GSSAPI']} required useTicketCache=true{ticket_cache};"})


@pytest.mark.parametrize(
    ("variable", "path"),
    [("/run/t", "/run/t"), ("FILE:/run/t", "/run/t"), (None, "/tmp/krb5cc_1000")],  # noqa: S108 - Kerberos' own
)
def test_where_the_tickets_are(variable: str | None, path: str) -> None:
    """A connection may name the same file in one of Java's words, or none."""
    for named in (None, path, f"FILE:{path}"):
        assert ticket_cache_path(_tickets(named), "c", variable, 1000) == path


@pytest.mark.parametrize(
    ("variable", "named", "words"),
    [
        pytest.param("KEYRING:persistent:1000", None, "'KEYRING:persistent:1000': KEYRING: is no file", id="keyring"),
        pytest.param("DIR:/run/tickets", None, "'DIR:/run/tickets': DIR: is no file", id="folder"),
        pytest.param(
            "FILE:/run/t", "/run/other", "ticketCache in sasl.jaas.config is /run/other, and not /run/t", id="other"
        ),
        pytest.param(None, "/run/other", "KRB5CCNAME not set: ticketCache", id="other-than-the-default"),
    ],
)
def test_both_clients_need_the_same_file_of_tickets(variable: str | None, named: str | None, words: str) -> None:
    """Java reads no other cache, and librdkafka no other file: worker and Spark would be two principals."""
    with refuses(ConnectionConfigError, "'my_kafka'", words, "Run kinit -c FILE:/path and set KRB5CCNAME=FILE:/path"):
        ticket_cache_path(_tickets(named), "my_kafka", variable, 1000)


@pytest.mark.parametrize("principal", ["copier@R", "copier"])
def test_the_principals_own_keytab_is_taken(principal: str) -> None:
    validate_principals("c", principal, "/k", _keytab("other@R", "copier@R"))
    validate_principals("c", "kafka/host@R", "/k", _keytab("kafka/host@R"))


@pytest.mark.parametrize("principal", ["kopier@R", "copier@OTHER", "other/host@R"])
def test_a_keytab_of_others_is_refused(principal: str) -> None:
    compare = "Compare sasl.kerberos.principal with `klist -k /k`"
    with refuses(ConnectionConfigError, "'my_kafka'", repr(principal), compare):
        validate_principals("my_kafka", principal, "/k", _keytab("copier@R", "other@R"))


@pytest.mark.parametrize(
    "content", [b"Zq-s3cret of another user", b"\x05\x01Zq", b"Zq", b"\x05\x02\0\0\0\x09\0\x01\0\x02Zq"]
)
def test_the_message_shows_nothing_of_the_file(content: bytes) -> None:
    """A connection may name any file of the worker."""
    with pytest.raises(ConnectionConfigError) as refused:
        validate_principals("c", "copier@R", "/k", content)
    assert "Zq" not in str(refused.value)
