"""Promises of :mod:`tests.services.kerberos`, kept by MIT's own programs. Tests of logins prove the rest: keytabs,
ticket caches that expire, several realms, and clocks of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_kafka_spark.core.errors import LocalServiceError, OptionError
from tests.required_tools import needs_kdc
from tests.services import kerberos
from tests.services.kerberos import CLOCK_INSTALL_COMMAND, INSTALL_COMMAND, Kdc

_OWNER = """
import time
from tests.services.kerberos import Kdc
with Kdc() as kdc:
    print(kdc.krb5_conf, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    """One realm for all tests, which use principals of their own."""
    with Kdc() as kdc:
        yield kdc


@needs_kdc
def test_a_principal_logs_in_by_its_password(kdc: Kdc, tmp_path: Path) -> None:
    """Also after a keytab was made of it; another password is refused."""
    kdc.add_principal("by-password", "s3cret with spaces")
    kdc.keytab("by-password")
    assert _kinit(kdc, tmp_path / "cache", "by-password", answer="s3cret with spaces\n").returncode == 0
    refused = _kinit(kdc, tmp_path / "cache", "by-password", answer="wrong\n")
    assert refused.returncode != 0
    assert "Password incorrect" in refused.stdout


@needs_kdc
def test_a_key_is_asked_for_first(tmp_path: Path) -> None:
    """A client without it gets no ticket on which passwords could be tried."""
    with Kdc(preauthentication=True) as kdc:
        kdc.add_principal("alice", "s3cret")
        assert _kinit(kdc, tmp_path / "cache", "alice", answer="s3cret\n").returncode == 0
        _kinit(kdc, tmp_path / "cache", "alice", answer="wrong\n")
        assert "PREAUTH_FAILED" in kdc.log


@needs_kdc
def test_a_principal_that_exists_is_an_error(kdc: Kdc) -> None:
    """It is not replaced, and the message has what Kerberos said."""
    kdc.add_principal("twice")
    with pytest.raises(LocalServiceError, match=r"(?s)add_principal -randkey twice.*already exists"):
        kdc.add_principal("twice")


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "-x", "alice@ELSEWHERE", "x\ndelete_principal y"])
def test_a_name_that_the_tools_would_misread_is_refused(name: str) -> None:
    """Before any of them is started."""
    with pytest.raises(OptionError, match="principal must be a user or a service"):
        Kdc().principal(name)


@needs_kdc
def test_a_stopped_kdc_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are removed, it knows so, and stopping it again does nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Kdc() as kdc:
        assert any(tmp_path.iterdir())
        with pytest.raises(LocalServiceError, match="Kdc must be stopped"):
            kdc.start()
    assert not list(tmp_path.iterdir())
    kdc.stop()
    with pytest.raises(LocalServiceError, match="Kdc must run"):
        _ = kdc.krb5_conf


@needs_kdc
def test_the_kdc_dies_with_its_owner(tmp_path: Path) -> None:
    """Even an owner that is ended by SIGKILL leaves no key."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        assert Path(owner.stdout.readline().strip()).is_file()
        owner.kill()
        owner.wait(10)
        deadline = time.monotonic() + 30
        while list(tmp_path.glob("kdc-*")):
            assert time.monotonic() < deadline, "the KDC outlived its owner by 30 seconds"
            time.sleep(0.1)


def test_a_missing_kerberos_is_named_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing and how to get it are in the message, and nothing is left."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert not Kdc.is_available()
    kdc = Kdc()
    with pytest.raises(LocalServiceError, match=f"there is no krb5kdc.*{INSTALL_COMMAND}"):
        kdc.start()


def test_a_missing_libfaketime_is_named_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "CLOCK_LIBRARIES", ("/nowhere",))
    assert not Kdc.can_have_another_clock()
    with pytest.raises(LocalServiceError, match=f"there is none.*{CLOCK_INSTALL_COMMAND}"):
        Kdc(clock_offset=timedelta(minutes=10)).start()


def _kinit(kdc: Kdc, cache: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kinit", "-c", f"FILE:{cache}", *arguments],
        input=answer,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **kdc.environment, "LC_ALL": "C"},
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
