"""``python -m airflow_provider_kafka_spark.explain KS208``: what an error means, its likely causes, what to check.

``airflow kafka-spark explain`` is the same. The reference of errors is written from the same texts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_kafka_spark.command_line import Command
from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors, meaning_and_advice

FOUND_CODE, UNKNOWN_CODE, USAGE_CODE = 0, 1, 2
DESCRIPTION = (
    "Explain an error by its code or name: what happened, likely causes, what to check, and whether a retry helps."
)
EPILOG = "Exit code: 0 if the error is known, 1 if not, 2 without an error to explain."
#: The arguments, by the name of the option.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "error": {
        "metavar": "CODE_OR_NAME",
        "nargs": "?",
        "help": "such as KS208 or DataLossError",
    },
    "--list": {"action": "store_true", "help": "list all codes and names"},
}
_COLUMNS = 100
_RETRY_HELPS = "It can help: Airflow retries the task as often as its retries permit."
_NO_RETRY_HELPS = "It does not help: the task fails at once. Correct the cause, then clear the task."


def explain(options: argparse.Namespace) -> int:
    """Print what is known about an error, or the list of all.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    if options.list:
        _emit("\n".join(f"{error.code}  {error.__name__}" for error in all_errors()))
        return FOUND_CODE
    if options.error is None:
        sys.stderr.write("CODE_OR_NAME must be given, such as KS208 or DataLossError; --list shows all.\n")
        return USAGE_CODE
    found = find_error(options.error)
    if found is None:
        sys.stderr.write(_unknown(options.error))
        return UNKNOWN_CODE
    _emit(_text(found))
    return FOUND_CODE


def find_error(code_or_name: str) -> type[KafkaSparkError] | None:
    """The error of a code or a name, in upper or lower case, also as it begins a message."""
    asked = _key(code_or_name)
    return next((error for error in all_errors() if asked in (error.code.lower(), error.__name__.lower())), None)


def _unknown(asked: str) -> str:
    from difflib import get_close_matches

    known = {key: error for error in all_errors() for key in (error.code.lower(), error.__name__.lower())}
    nearest = [known[key] for key in get_close_matches(_key(asked), known, n=1)]
    hint = "".join(f" Did you mean {error.code} ({error.__name__})?" for error in nearest)
    return f"CODE_OR_NAME must be that of an error, such as KS208; got {asked!r}.{hint} --list shows all.\n"


def _key(code_or_name: str) -> str:
    return code_or_name.strip().rstrip(":").rpartition(".")[2].lower()


def _text(error: type[KafkaSparkError]) -> str:
    happened, to_do = meaning_and_advice(error)
    return "\n".join(
        (
            f"{error.code} {error.__name__}",
            *_paragraph("What happened", [happened]),
            *_paragraph("Likely causes", error.causes, bullet="- "),
            *_paragraph("What to do", [to_do]),
            *_paragraph("What to check", error.checks, bullet="$ "),
            *_paragraph("A retry", [_RETRY_HELPS if error.retriable else _NO_RETRY_HELPS]),
        )
    )


def _paragraph(heading: str, texts: Sequence[str], bullet: str = "") -> Iterator[str]:
    from textwrap import fill

    if not texts:
        return
    yield f"\n{heading}:"
    for text in texts:
        if bullet == "$ ":
            # A command is copied as one line.
            yield f"  {bullet}{text}"
        else:
            yield fill(
                text,
                _COLUMNS,
                initial_indent=f"  {bullet}",
                subsequent_indent=" " * (2 + len(bullet)),
                break_long_words=False,
                break_on_hyphens=False,
            )


def _emit(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMAND = Command("explain", DESCRIPTION, EPILOG, ARGUMENTS, explain)
main, command = COMMAND.main, COMMAND.of_airflow


if __name__ == "__main__":
    sys.exit(main())
