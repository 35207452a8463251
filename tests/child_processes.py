"""The processes that a test has started, and what those have started."""

from __future__ import annotations

import contextlib

import psutil


def children_with(word: str) -> list[psutil.Process]:
    """The living ones that have the word in an argument. One that ends while it is asked is not among them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(word in argument for argument in process.cmdline()):
                found.append(process)
    return found
