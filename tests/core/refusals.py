"""What an error must say, in one line of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


@contextmanager
def refuses(error: type[E], *fragments: str) -> Iterator[pytest.ExceptionInfo[E]]:
    """The block raises this error, and its message has each of the fragments."""
    with pytest.raises(error) as raised:
        yield raised
    absent = [fragment for fragment in fragments if fragment not in str(raised.value)]
    assert not absent, f"{absent} not in: {raised.value}"
