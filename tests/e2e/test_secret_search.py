"""Secrets that are planted are found: a search that finds nothing is worth something only then."""

from __future__ import annotations

import base64
import gzip
import html
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from airflow_provider_kafka_spark.core.connection.jaas import JaasLine
from tests.e2e.secret_search import FolderWatch, ProcessWatch, SecretSearch, Seed, in_processes
from tests.services.certificates import CertificateAuthority

PASSWORD = """it's <Zq3vK8sWmT1xRb>&"x\\y/z+= ü"""
SEED = Seed("password", PASSWORD)
KEY = CertificateAuthority().issue("alice").plain_key_pem
JAAS = JaasLine("org.apache.kafka.common.security.scram.ScramLoginModule", {"username": "a", "password": PASSWORD})


@pytest.fixture
def search() -> SecretSearch:
    return SecretSearch([SEED])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("plain", PASSWORD),
        ("URL", f"https://b/?p={quote(PASSWORD, safe='')}"),
        ("form", f"p={quote_plus(PASSWORD)}"),
        ("JSON in ASCII", json.dumps({"extra": PASSWORD})),
        ("JSON in JSON", json.dumps(json.dumps({"extra": PASSWORD}, ensure_ascii=False), ensure_ascii=False)),
        ("JAAS", JAAS.format()),
        ("JAAS in JSON", json.dumps({"jaas": JAAS.format()}, ensure_ascii=False)),
        ("shell", f"submit --conf {shlex.quote(PASSWORD)}"),
        ("Python", repr({"p": PASSWORD})),
        ("HTML", f"<td>{html.escape(PASSWORD)}</td>"),
        ("hex", PASSWORD.encode().hex()),
        ("base64, shifted by 0", _base64(PASSWORD)),
        ("base64, shifted by 1", _base64(f"x{PASSWORD}")),
        ("base64, shifted by 2", _base64(f"al{PASSWORD}, more")),
        ("base64 for URLs, shifted by 1", base64.urlsafe_b64encode(f"bob:{PASSWORD}.".encode()).decode()),
        ("piece 0", "***>Zq3vK8sWmT1xRb***"),
    ],
)
def test_every_form_is_found(form: str, text: str) -> None:
    """By itself: not only because of a piece of the secret that stands in it as it is."""
    search = SecretSearch([Seed("password", PASSWORD, whole=not form.startswith("piece"))])
    for content in (text.encode(), text.encode() * 2, f"before {text} after".encode()):
        assert form in {hit.form for hit in search.in_bytes("here", content)}
    assert search.in_bytes("here", text[::-1].encode()) == []


def test_a_line_of_a_key_is_found() -> None:
    """A log may show only one; its header is no secret, nor is the class name of a JAAS line. A seed may become known
    later.
    """
    search = SecretSearch([Seed("key", KEY)])
    head, *lines, foot = KEY.split("\n")[:-1]
    assert all(search.in_bytes("log", f"[{line}]".encode()) for line in lines if len(line) >= 40)
    assert search.in_bytes("log", f"{head} {foot}".encode()) == []
    assert search.in_bytes("log", json.dumps(KEY).encode())
    assert search.in_bytes("log", json.dumps([JAAS.format()]).encode()) == []
    search.add(Seed("line", JAAS.format(), whole=True))
    assert search.in_bytes("log", b"org.apache.kafka.common.security.scram.ScramLoginModule") == []
    assert {hit.seed for hit in search.in_bytes("log", json.dumps([JAAS.format()]).encode())} == {"line"}


def test_files_and_their_names(search: SecretSearch, tmp_path: Path) -> None:
    """Whatever they are called and however deep they lie, archives and compressed ones too."""
    (tmp_path / "a" / ".b").mkdir(parents=True)
    (tmp_path / "a" / "clean.txt").write_text("nothing")
    (tmp_path / "a" / ".b" / "hidden").write_bytes(b"\0\xff" + PASSWORD.encode())
    (tmp_path / "packed.gz").write_bytes(gzip.compress(PASSWORD.encode()))
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", PASSWORD)
    (tmp_path / "Zq3vK8sWmT1xRb").touch()

    found = {hit.where.removeprefix(f"{tmp_path}/") for hit in search.in_files(tmp_path)}

    names = {"a/.b/hidden", "packed.gz (unpacked)", "packed.zip/inside", f"name of {tmp_path}/Zq3vK8sWmT1xRb"}
    assert found == names


def test_a_database(search: SecretSearch, tmp_path: Path) -> None:
    """In each kind of value, in one that is longer than a page, and what was deleted without being wiped."""
    path = tmp_path / "airflow.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA secure_delete = OFF")
        for table, value in {
            "text": PASSWORD,
            "blob": PASSWORD.encode(),
            "long": "x" * 4070 + PASSWORD + "x" * 9000,
            "json": json.dumps({"p": PASSWORD}),
            "clean": "nothing",
        }.items():
            database.execute(f"CREATE TABLE {table}_table (value)")
            database.execute(f"INSERT INTO {table}_table VALUES (?)", [value])  # noqa: S608 - constants

    found = {hit.where.rpartition("table ")[2] for hit in search.in_database(path) if "table" in hit.where}
    assert found == {"text_table", "blob_table", "long_table", "json_table"}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM text_table")
    assert str(path) in {hit.where for hit in search.in_database(path)}


@pytest.mark.process
def test_arguments_and_environments_of_short_lived_processes(search: SecretSearch) -> None:
    """Also of those that end while it looks on, and of one that becomes another program."""
    sleep = [sys.executable, "-c", "import time; time.sleep(2)"]
    become = [sys.executable, "-c", f"import os, time; time.sleep(2); os.execv({sleep[0]!r}, {[*sleep, PASSWORD]!r})"]
    clean = {"PATH": os.environ["PATH"]}
    with ProcessWatch() as watch:
        by_argument = subprocess.Popen([*sleep, PASSWORD], env=clean)
        by_environment = subprocess.Popen(sleep, env={**clean, "P": PASSWORD})
        by_none = subprocess.Popen([*sleep, "none"], env=clean)
        # Its first program does not have the secret as one of its arguments, but in the text of one.
        by_both = subprocess.Popen(become, env=clean)
        for process in (by_argument, by_environment, by_none, by_both):
            process.wait()
        time.sleep(0.3)

    ours = [process for process in watch.seen if process.pid in {p.pid for p in (by_argument, by_environment, by_none)}]
    found = {(hit.where.split()[0], hit.where.split()[3]) for hit in in_processes(search, ours)}
    assert found == {("arguments", str(by_argument.pid)), ("environment", str(by_environment.pid))}
    forms = [process for process in watch.seen if process.pid == by_both.pid]
    assert {PASSWORD in process.arguments for process in forms} == {True, False}
    assert by_none.pid not in {process.pid for process in watch.running}


def test_which_users_can_read_a_file(tmp_path: Path) -> None:
    """The folders on the way count, and the watched one itself does not."""
    modes = {"open/open": (0o755, 0o644), "open/private": (0o755, 0o640), "closed/open": (0o750, 0o644)}
    tmp_path.chmod(0o700)
    for name, (of_folder, of_file) in modes.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        path.chmod(of_file)
        path.parent.chmod(of_folder)
    with FolderWatch(SecretSearch([]), tmp_path) as watch:
        pass
    assert watch.names == set(modes)
    assert watch.open_to_others == {"open/open"}
