"""Promises of :mod:`tests.services.certificates`. Tests of logins prove which certificates clients and brokers take."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.services.certificates import CertificateAuthority


def test_files_keep_the_key_secret(tmp_path: Path) -> None:
    """Only the owner may read a key, and neither key nor password is in a representation."""
    authority = CertificateAuthority()
    certificate = authority.issue("alice", password="s3cret")
    for _ in range(2):  # writing again replaces
        files = certificate.write(tmp_path)
    assert files.certificate.read_text() == certificate.certificate_pem
    assert files.key.read_text() == certificate.key_pem
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert authority.write(tmp_path).read_text() == authority.ca_pem
    assert "PRIVATE KEY" not in repr(certificate)
    assert "s3cret" not in repr(certificate)
