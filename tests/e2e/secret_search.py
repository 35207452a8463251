"""Look for secrets where none may be, in the forms that programs give them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import os
import re
import shlex
import sqlite3
import stat
import threading
import time
import zipfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

from airflow_provider_kafka_spark.testing.managed_server import ManagedServer

#: A run of letters and digits that is long enough to be found by chance nowhere.
_PIECE = re.compile(r"[A-Za-z0-9]{12,}")
_SAMPLE_SECONDS = 0.1
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


@dataclass(frozen=True)
class Seed:
    """A secret that was put where it belongs, and is looked for elsewhere.

    :param whole: only the whole of it is secret, as with a JAAS line, in which there is a class name. Otherwise every
        long piece of it is looked for too.
    """

    name: str
    value: str = field(repr=False)
    whole: bool = False

    def needles(self) -> dict[str, bytes]:
        """What is looked for, by the name of its form."""
        found = _forms(self.value)
        pieces = [] if self.whole else [piece for piece in _PIECE.findall(self.value) if piece != self.value]
        for number, piece in enumerate(pieces):
            found[f"piece {number}"] = piece.encode()
            found |= {f"piece {number}, {form}": text for form, text in _in_base64(piece.encode()).items()}
        return {form: needle for form, needle in found.items() if len(needle) >= 12}


def _forms(value: str) -> dict[str, bytes]:
    as_json = json.dumps(value, ensure_ascii=False)[1:-1]
    backslashes = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    plain = value.encode()
    texts = {
        "plain": value,
        "URL": quote(value, safe=""),
        "path of a URL": quote(value),
        "form": quote_plus(value),
        "JSON": as_json,
        "JSON in ASCII": json.dumps(value)[1:-1],
        "JSON in JSON": json.dumps(as_json, ensure_ascii=False)[1:-1],
        "JAAS": backslashes,
        "JAAS in JSON": json.dumps(backslashes, ensure_ascii=False)[1:-1],
        "shell": shlex.quote(value),
        "Python": repr(value)[1:-1],
        "HTML": html.escape(value),
        "HTML, quotes as they are": html.escape(value, quote=False),
        "XML": html.escape(value).replace("&#x27;", "&apos;"),
        "hex": plain.hex(),
        "HEX": plain.hex().upper(),
    }
    found = {form: text.encode() for form, text in texts.items()}
    return {**found, "UTF-16": value.encode("utf-16-le"), **_in_base64(plain)}


def _in_base64(plain: bytes) -> dict[str, bytes]:
    """As it stands within a longer text that was encoded, wherever it begins there."""
    found = {}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + plain).rstrip(b"=")
        # The first and the last characters depend on what is beside it.
        begin, end = (0, 2, 3)[shift], len(text) - (1 if (shift + len(plain)) % 3 else 0)
        found[f"base64, shifted by {shift}"] = text[begin:end]
        found[f"base64 for URLs, shifted by {shift}"] = text[begin:end].replace(b"+", b"-").replace(b"/", b"_")
    return found


@dataclass(frozen=True, order=True)
class Hit:
    """Where a secret is that should not be there."""

    where: str
    seed: str
    form: str


class SecretSearch:
    """Searches for all seeds at once.

    :param seeds: more can be added by :meth:`add`.
    """

    def __init__(self, seeds: Iterable[Seed]) -> None:
        self._needles: list[tuple[bytes, str, str]] = []
        for seed in seeds:
            self.add(seed)

    def add(self, seed: Seed) -> None:
        """Look for this one too."""
        known = {needle for needle, _, _ in self._needles}
        self._needles += [(text, seed.name, form) for form, text in seed.needles().items() if text not in known]

    def in_bytes(self, where: str, content: bytes) -> list[Hit]:
        """What is in these bytes, or in the archive or compressed file that they are."""
        found = [Hit(where, seed, form) for needle, seed, form in self._needles if needle in content]
        if content.startswith(_GZIP):
            with suppress(OSError, EOFError):
                found += self.in_bytes(f"{where} (unpacked)", gzip.decompress(content))
        if content.startswith(_ZIP):
            with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
                for name in archive.namelist():
                    found += self.in_bytes(f"{where}/{name}", archive.read(name))
        return found

    def in_pages(self, pages: Mapping[str, bytes]) -> list[Hit]:
        """What is in pages that were fetched, by their addresses."""
        return [hit for address, content in pages.items() for hit in self.in_bytes(address, content)]

    def in_files(self, folder: Path) -> list[Hit]:
        """What is in the names and contents of all files of a folder and of its folders."""
        found = []
        for path in sorted(folder.rglob("*")):
            found += self.in_bytes(f"name of {path}", str(path.relative_to(folder)).encode())
            if path.is_file() and not path.is_symlink():
                # Somebody may remove it at this moment.
                with suppress(FileNotFoundError):
                    found += self.in_bytes(str(path), path.read_bytes())
        return found

    def in_database(self, path: Path) -> list[Hit]:
        """What is in an SQLite database: in every value, which its pages may hold in parts, and in its files, which may
        hold what was deleted.
        """
        found = []
        for file in path.parent.glob(f"{path.name}*"):
            found += self.in_bytes(str(file), file.read_bytes())
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - its own names
                    for value in row:
                        content = value if isinstance(value, bytes) else str(value).encode()
                        found += self.in_bytes(f"{path}, table {table}", content)
        return found


@dataclass(frozen=True)
class Process:
    """What /proc shows of a process, to all users and to its owner."""

    pid: int
    command: bytes
    environ: bytes

    @property
    def arguments(self) -> list[str]:
        return self.command.decode(errors="replace").rstrip("\0").split("\0")

    def __str__(self) -> str:
        return f"process {self.pid} ({' '.join(self.arguments)[:120]})"


class _Watch(ManagedServer):
    """Looks again and again, in a thread, inside ``with``."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    @abstractmethod
    def _watch(self) -> None:
        """Look until ``_stop`` is set."""


class ProcessWatch(_Watch):
    """Records what /proc shows of every process of this machine, inside ``with``."""

    def __init__(self) -> None:
        self._seen: dict[Process, None] = {}
        self._running: list[Process] = []
        super().__init__("process-watch")

    @property
    def seen(self) -> list[Process]:
        """Every process that there was at one moment at least, in each of its forms: one that starts another program is
        another.
        """
        return list(self._seen)

    @property
    def running(self) -> list[Process]:
        """Those of the last moment."""
        return self._running

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._running = list(_processes())
            self._seen.update(dict.fromkeys(self._running))
            time.sleep(_SAMPLE_SECONDS)


class FolderWatch(_Watch):
    """Searches the files of a folder, inside ``with``, as they come and go. All paths are those in the folder."""

    def __init__(self, search: SecretSearch, folder: Path) -> None:
        self.folder = folder
        self._search = search
        self._names: set[str] = set()
        self._open: set[str] = set()
        self._hits: dict[Hit, None] = {}
        self._in_content: dict[bytes, list[Hit]] = {}
        super().__init__("folder-watch")

    @property
    def names(self) -> set[str]:
        """The paths of all files that there were at one moment at least."""
        return set(self._names)

    @property
    def open_to_others(self) -> set[str]:
        """Those of them that other users of the machine could read, were the folder theirs to enter."""
        return set(self._open)

    @property
    def hits(self) -> list[Hit]:
        """What was in them."""
        return list(self._hits)

    def _watch(self) -> None:
        looked_at = set[tuple[str, int, int]]()
        # Once more after the end, for the last processes.
        while True:
            last = self._stop.is_set()
            for parent, _, names in os.walk(self.folder):
                for name in names:
                    path = Path(parent, name)
                    # It may go at every moment.
                    with suppress(OSError):
                        state = path.lstat()
                        version = (str(path), state.st_size, state.st_mtime_ns)
                        if stat.S_ISREG(state.st_mode) and version not in looked_at:
                            self._look_at(path)
                            looked_at.add(version)
            if last:
                return
            self._stop.wait(_SAMPLE_SECONDS)

    def _look_at(self, path: Path) -> None:
        where, content = str(path.relative_to(self.folder)), path.read_bytes()
        digest = hashlib.sha256(content).digest()
        if digest not in self._in_content:
            self._in_content[digest] = self._search.in_bytes("", content)
        found = [*self._in_content[digest], *self._search.in_bytes("", where.encode())]
        self._hits.update(dict.fromkeys(Hit(where + hit.where, hit.seed, hit.form) for hit in found))
        self._names.add(where)
        if is_open_to_others(path, self.folder):
            self._open.add(where)


def is_open_to_others(path: Path, top: Path) -> bool:
    """Whether other users may read a file, and pass all folders on the way from ``top`` to it."""
    folders = [folder for folder in path.parents if folder != top and folder.is_relative_to(top)]
    return bool(path.stat().st_mode & stat.S_IROTH) and all(f.stat().st_mode & stat.S_IXOTH for f in folders)


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            environ = (folder / "environ").read_bytes()
            # Between fork and exec, and in the middle of it, these belong to different programs.
            if command and command == (folder / "cmdline").read_bytes():
                yield Process(int(folder.name), command, environ)


def in_processes(search: SecretSearch, processes: Iterable[Process]) -> list[Hit]:
    """What is in arguments and environments."""
    return [
        hit
        for process in processes
        for part, content in (("arguments", process.command), ("environment", process.environ))
        for hit in search.in_bytes(f"{part} of {process}", content)
    ]
