"""A real Kerberos on this machine: MIT's key distribution centre, with its own realm, principals and files.

The library k5test is no replacement: its ports are fixed, passwords are arguments of its programs, and its KDC outlives
a process that is killed.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from secrets import token_urlsafe

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.owned_process import OwnedProcess
from airflow_provider_kafka_spark.testing.ports import LOOPBACK, free_ports, start_on_free_ports

INSTALL_COMMAND = "sudo apt-get install krb5-kdc krb5-admin-server krb5-user"
#: For a KDC whose clock is wrong.
CLOCK_INSTALL_COMMAND = "sudo apt-get install faketime"

_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
# Debian installs servers' programs in folders that are not on an ordinary user's PATH.
_MORE_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# The paths on Debian (by architecture), on Fedora, and of builds from source.
CLOCK_LIBRARIES = ("/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
_TOOL_SECONDS = 30.0
_START_SECONDS = 60.0
_REALM = "TEST.LOCAL"
_PROBE = "probe"

_KRB5_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    # TCP only: a datagram that is lost is asked for again after seconds.
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = {address}
    }}
[domain_realm]
    localhost = {realm}
    {loopback} = {realm}
[logging]
    default = STDERR
    kdc = STDERR
"""
_KDC_CONF = """\
[kdcdefaults]
    kdc_listen = {address}
    kdc_tcp_listen = {address}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        max_life = 1d
        max_renewable_life = 7d
        default_principal_flags = {preauth}preauth
    }}
"""


class Kdc(ManagedServer):
    """A key distribution centre, which runs inside ``with`` and ends after it, with all its keys.

    It ends with this process, even after SIGKILL, and listens on the loopback interface only. Nothing on the machine is
    changed: a program uses it by :attr:`krb5_conf`, set by :attr:`environment` or, for Java, by
    ``-Djava.security.krb5.conf``.

    :param clock_offset: how far its clock is ahead of this machine's; negative if it is slow. It applies to all of its
        programs, including :meth:`ticket_cache`, and needs libfaketime
    :param preauthentication: whether a principal must prove that it has the key, as in most realms
    :raises LocalServiceError: on entering, if it is not installed or does not start in time
    """

    def __init__(self, *, clock_offset: timedelta = timedelta(0), preauthentication: bool = False) -> None:
        self.clock_offset = clock_offset
        self.preauthentication = preauthentication
        self._folder: Path | None = None
        self._process: OwnedProcess | None = None
        self._principals: set[str] = set()

    @staticmethod
    def is_available() -> bool:
        """Whether all of its programs are installed; if not, ``INSTALL_COMMAND`` of this module installs them."""
        return all(map(_find, _TOOLS))

    @staticmethod
    def can_have_another_clock() -> bool:
        """Whether libfaketime is installed, for ``clock_offset``; if not, ``CLOCK_INSTALL_COMMAND`` of this module
        installs it.
        """
        return find_clock_library() is not None

    @property
    def krb5_conf(self) -> Path:
        """The configuration file of this realm for clients and servers."""
        return self._home / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The additional environment variables of a program that uses this realm."""
        return {"KRB5_CONFIG": str(self.krb5_conf)}

    @property
    def log(self) -> str:
        """The end of its log, for the message of a failing test."""
        return self._process.tail() if self._process else "(no log: the KDC does not run)"

    def principal(self, name: str) -> str:
        """Return the full name of a principal: ``"alice"`` is ``"alice@TEST.LOCAL"``. It need not exist."""
        return f"{self._short(name)}@{_REALM}"

    def keytab(self, principal: str) -> Path:
        """Return a keytab by which the principal logs in. Both are created if missing."""
        short = self._known(principal)
        file = self._home / f"{short.replace('/', '+')}.keytab"
        if not file.exists():
            # Without -norandkey the key is replaced.
            self._run("kadmin.local", "ktadd", "-norandkey", "-k", str(file), short)
        return file

    def ticket_cache(self, principal: str, *, life: float | None = None) -> Path:
        """Log in as kinit does and return a new file with the ticket; the principal is created if missing.

        :param life: seconds until the ticket expires, a day by default
        """
        short = self._known(principal)
        number, file_name = tempfile.mkstemp(prefix=f"{short.replace('/', '+')}-", suffix=".ccache", dir=self._home)
        os.close(number)
        options = [] if life is None else ["-l", f"{math.ceil(life)}s"]
        keytab = str(self.keytab(short))
        self._run("kinit", *options, "-k", "-t", keytab, "-c", f"FILE:{file_name}", self.principal(short))
        return Path(file_name)

    def is_valid(self, cache: Path) -> bool:
        """Whether the tickets in a cache have not ended."""
        command = [str(_installed("klist")), "-s", "-c", f"FILE:{cache}"]
        done = subprocess.run(command, env=self._whole_environment, timeout=_TOOL_SECONDS, check=False)
        return done.returncode == 0

    def start(self) -> None:
        """Start it and return when it has issued a ticket.

        :raises LocalServiceError: it is not installed, or did not in time; nothing is left running
        """
        if self._folder is not None:
            raise self._already_running(self.krb5_conf)
        start_on_free_ports(self._start_once, self.stop, lambda: self._process.tail(200) if self._process else "")

    def stop(self) -> None:
        """End it and remove its files, keytabs and tickets too. Calling it again does nothing.

        :raises LocalServiceError: the system did not let it end in time
        """
        process, self._process = self._process, None
        folder, self._folder = self._folder, None
        self._principals.clear()
        try:
            if process is not None:
                process.stop()
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _start_once(self) -> None:
        program = _installed("krb5kdc")
        self._folder = folder = Path(tempfile.mkdtemp(prefix="kdc-"))
        values = {
            "realm": _REALM,
            "address": f"{LOOPBACK}:{free_ports(1)[0]}",
            "folder": folder,
            "loopback": LOOPBACK,
            "preauth": "+" if self.preauthentication else "-",
        }
        self.krb5_conf.write_text(_KRB5_CONF.format(**values))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**values))
        deadline = time.monotonic() + _START_SECONDS
        master_key = token_urlsafe()
        self._run("kdb5_util", "create", "-s", answer=f"{master_key}\n{master_key}\n")
        self._process = OwnedProcess(
            [*self._clock(), str(program), "-n"],
            folder / "kdc.log",
            name="Kerberos KDC",
            env=self._whole_environment,
            cwd=folder,
            grace=3.0,
            remove_if_orphaned=folder,
        )
        self._process.start()
        self._wait_until_ready(deadline)

    def _wait_until_ready(self, deadline: float) -> None:
        """Wait for a ticket, which proves that this KDC answers: another process may have taken the port."""
        self.keytab(_PROBE)
        got: object = "no answer"
        while time.monotonic() < deadline:
            if self._process is not None and not self._process.running:
                got = f"exit code {self._process.returncode}"
                break
            try:
                self.ticket_cache(_PROBE).unlink()
                return
            except LocalServiceError as error:
                got = error
            time.sleep(0.05)
        raise LocalServiceError(
            f"The KDC must issue a ticket within {_START_SECONDS:g} seconds; got {got}. Read its log below.\n{self.log}"
        )

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise self._not_running()
        return self._folder

    @property
    def _whole_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._home / "kdc.conf"), "LC_ALL": "C"}

    def _clock(self) -> list[str]:
        """The command prefix for a program with this KDC's clock."""
        if not self.clock_offset:
            return []
        library = find_clock_library()
        if library is None:
            raise LocalServiceError(
                f"libfaketime must be installed for clock_offset={self.clock_offset}; there is none. Run: "
                f"{CLOCK_INSTALL_COMMAND}"
            )
        offset = f"FAKETIME={self.clock_offset.total_seconds():+f}"
        # Without shared memory if libfaketime supports it: a program that is ended by SIGKILL does not release it.
        return ["env", f"LD_PRELOAD={library}", offset, "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1"]

    def _known(self, principal: str) -> str:
        short = self._short(principal)
        if short not in self._principals:
            self._run("kadmin.local", "add_principal", "-randkey", short)
            self._principals.add(short)
        return short

    def _short(self, principal: str) -> str:
        return principal.removesuffix(f"@{_REALM}")

    def _run(self, tool: str, *arguments: str, answer: str = "") -> None:
        """Run one of the tools to its end, with ``answer`` as its standard input."""
        program = _installed(tool)
        try:
            done = subprocess.run(
                [*self._clock(), str(program), *arguments],
                input=answer,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._whole_environment,
                cwd=self._home,
                text=True,
                errors="replace",
                timeout=_TOOL_SECONDS,
                check=False,
                # Without a terminal, which it would prompt for the password.
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise self._failed(tool, arguments, f"no end within {_TOOL_SECONDS:g} seconds", error.stdout) from error
        if done.returncode != 0:
            raise self._failed(tool, arguments, f"exit code {done.returncode}", done.stdout)

    def _failed(self, tool: str, arguments: Sequence[str], got: str, output: object) -> LocalServiceError:
        return LocalServiceError(
            f"`{tool} {' '.join(arguments)}` must succeed; got {got}. Read its output and the KDC's log below.\n"
            f"{output}\n{self.log}"
        )


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_MORE_FOLDERS]))


def find_clock_library() -> Path | None:
    """The path of libfaketime, for ``LD_PRELOAD`` of a program with another clock; None if it is not installed."""
    found = (file for folder in CLOCK_LIBRARIES for file in Path("/").glob(f"{folder[1:]}/libfaketime.so.1"))
    return next(found, None)


def _installed(tool: str) -> Path:
    found = _find(tool)
    if found is None:
        raise LocalServiceError(
            f"MIT Kerberos must be installed with {', '.join(_TOOLS)}; there is no {tool}. Run: {INSTALL_COMMAND}"
        )
    return Path(found)
