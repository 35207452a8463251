"""Write docs/reference/errors.md from the docstrings of core/errors.py and from explain.py, to the standard output.

The first paragraph of a class's docstring is its meaning, the second what to do.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator

from airflow_provider_kafka_spark.core import errors
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.explain import explanation_of

_HEAD = """\
# Errors

This page is generated from `core/errors.py` by `make errors-page`.

Every failure that this package names is a subclass of `KafkaSparkError`, in
`airflow_provider_kafka_spark.core.errors`. The message of an error says what is wrong and what to do.

**Retries.** Where a retry of the same task can succeed, Airflow retries it as often as `retries` permits. Every other
error fails the task at once: the task raises `AirflowFailException` with the name of the error at the start of its
message. After you corrected the cause, clear the task.

**Codes.** The message of a failed task ends with the error's code. A code never changes. A shell has the same texts as
this page: `airflow kafka-spark explain KS208`, or `python -m airflow_provider_kafka_spark.explain DataLossError`, and
`--list` for all codes. In the commands to check, words in capitals are yours to replace; `B` is a bootstrap server.
"""


def main() -> None:
    """Print the page."""
    families = KafkaSparkError.__subclasses__()
    sections = [_HEAD, _entry(KafkaSparkError)]
    for family in families:
        sections.append(f"## {_spaced(family.__name__)}\n")
        sections += map(_entry, _tree(family))
    sys.stdout.write("\n".join(sections))


def _tree(error: type[KafkaSparkError]) -> Iterator[type[KafkaSparkError]]:
    """An error and all that are derived from it, in the order of the module."""
    yield error
    for derived in error.__subclasses__():
        if derived.__module__ == errors.__name__:
            yield from _tree(derived)


def _entry(error: type[KafkaSparkError]) -> str:
    found = explanation_of(error)
    (base,) = error.__bases__
    parts = [
        f'<a id="{error.code.lower()}"></a>\n',
        f"### `{error.__name__}`\n",
        f"Code: {error.code}. Base: `{base.__name__}`. {'Retried' if error.retriable else 'Not retried'}.\n",
        f"{_wrapped(found.happened)}\n",
        f"{_wrapped(f'**What to do:** {found.to_do}')}\n",
    ]
    if found.causes:
        parts += ["**Likely causes:**\n", *(_wrapped(f"- {cause}", "  ") for cause in found.causes), ""]
    if found.checks:
        parts += ["**What to check:**\n", "```sh", *found.checks, "```\n"]
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
