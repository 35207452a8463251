"""The base of all errors, with what each of them says about itself."""

from __future__ import annotations

from typing import ClassVar


def listed(*texts: str) -> tuple[str, ...]:
    """Texts of a class attribute, as one type for any number of them."""
    return texts


class KafkaSparkError(Exception):
    """Base of every error that this package raises on purpose.

    Read the message: it says what is wrong and what to do. Catch this class to catch them all.
    """

    #: Stands in logs and runbooks, and crosses process borders: it never changes and is never used again.
    code: ClassVar[str] = "KS001"
    #: Whether the same task, run again unchanged, can succeed.
    retriable: ClassVar[bool] = False
    #: The likely ones, the most likely first. A class without its own has those of its base.
    causes: ClassVar[tuple[str, ...]] = ()
    #: Commands that tell the causes apart. A class without its own has those of its base.
    checks: ClassVar[tuple[str, ...]] = ()
