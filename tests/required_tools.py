"""Programs that only some tests need: without them these are left out on a developer's machine, and fail in CI."""

from __future__ import annotations

import os

import pytest

from tests import chromium
from tests.services import kubernetes_binaries
from tests.services.kerberos import CLOCK_INSTALL_COMMAND, INSTALL_COMMAND, Kdc


def needs(tool: str, *, is_there: bool, install: str) -> pytest.MarkDecorator:
    """Leave a test out where its tool is missing, unless this is CI."""
    # A program that CI lacks would take the evidence with it, and nobody would see it.
    is_left_out = not is_there and not os.environ.get("CI")
    return pytest.mark.skipif(is_left_out, reason=f"needs {tool}: {install}")


needs_kdc = needs("MIT Kerberos", is_there=Kdc.is_available(), install=INSTALL_COMMAND)
needs_go = needs("Go", is_there=kubernetes_binaries.has_go(), install=kubernetes_binaries.INSTALL_COMMAND)
needs_clock = needs("libfaketime", is_there=Kdc.can_have_another_clock(), install=CLOCK_INSTALL_COMMAND)
needs_chromium = needs("Chromium", is_there=chromium.find_chromium() is not None, install=chromium.INSTALL_COMMAND)
