from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]


def test_the_page_of_errors_is_up_to_date() -> None:
    """``make errors-page`` writes it."""
    command = [sys.executable, str(_CHECKOUT / ".ci" / "write_errors_page.py")]
    written = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=_CHECKOUT)

    assert written.stdout == (_CHECKOUT / "docs" / "reference" / "errors.md").read_text()
