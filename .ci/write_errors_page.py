"""Write docs/reference/errors.md from the classes of core/errors, to the standard output."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors, meaning_and_advice

_HEAD = """\
# Errors

This page is generated from `core/errors` by `make errors-page`.

Every failure that this package names is a subclass of `KafkaSparkError`, in
`airflow_provider_kafka_spark.core.errors`. The message of an error says what is wrong and what to do.

**Retries.** Where a retry of the same task can succeed, Airflow retries it as often as `retries` permits. Every other
error fails the task at once: the task raises `AirflowFailException` with the name of the error at the start of its
message. After you corrected the cause, clear the task.

**Codes.** The message of a failed task ends with the error's code. A code never changes. A shell has the same texts as
this page: `airflow kafka-spark explain KS208`, or `python -m airflow_provider_kafka_spark.explain DataLossError`, and
`--list` for all codes. In the commands to check, words in capitals are yours to replace; `B` is a bootstrap server.

## All errors

Below each error are those that `except` catches with it.
"""


def main() -> None:
    """Print the page."""
    sections = [_HEAD, "\n".join(f"{'  ' * depth}- {_link(error)}" for error, depth in _tree(KafkaSparkError)) + "\n"]
    for error, depth in _tree(KafkaSparkError):
        if depth == 1:
            sections.append(f"## {_spaced(error.__name__)}\n")
        sections.append(_entry(error))
    sys.stdout.write("\n".join(sections))


def _tree(error: type[KafkaSparkError], depth: int = 0) -> Iterator[tuple[type[KafkaSparkError], int]]:
    """An error and all that are derived from it, in the order of the codes, with their depths."""
    yield error, depth
    for derived in all_errors():
        if error in derived.__bases__:
            yield from _tree(derived, depth + 1)


def _link(error: type[KafkaSparkError]) -> str:
    return f"[`{error.__name__}`](#{error.__name__.lower()}) {error.code}{', retried' if error.retriable else ''}"


def _entry(error: type[KafkaSparkError]) -> str:
    meaning, advice = meaning_and_advice(error)
    (base,) = error.__bases__
    parts = [
        f'<a id="{error.code.lower()}"></a>\n',
        f"### `{error.__name__}`\n",
        f"Code: {error.code}. Base: `{base.__name__}`. {'Retried' if error.retriable else 'Not retried'}.\n",
        f"{_wrapped(meaning)}\n",
        f"{_wrapped(f'**What to do:** {advice}')}\n",
    ]
    if error.causes:
        parts += ["**Likely causes:**\n", *(_wrapped(f"- {cause}", "  ") for cause in error.causes), ""]
    if error.checks:
        parts += ["**What to check:**\n", "```sh", *error.checks, "```\n"]
    return "\n".join(parts)


def _wrapped(text: str, indent: str = "") -> str:
    return "\n".join(textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def _spaced(name: str) -> str:
    """The heading of a family.

    >>> _spaced("JobError")
    'Job errors'
    """
    words = re.findall("[A-Z][a-z]+", name)[:-1]
    return " ".join(words).capitalize() + " errors"


if __name__ == "__main__":
    main()
