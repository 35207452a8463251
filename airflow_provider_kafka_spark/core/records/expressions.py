"""Which SQL functions the author's expressions may call. No I/O.

The rule is an allow-list of groups: a function that a later Spark adds in a new group is refused until the group is
known to depend on its arguments alone.
"""

from __future__ import annotations

import difflib
import re

from airflow_provider_kafka_spark.core.errors import ExpressionError
from airflow_provider_kafka_spark.core.records.spark_functions import FUNCTIONS, KEYWORDS

#: Groups of Spark's built-in functions (``ExpressionInfo.getGroup``) whose results come from the arguments alone.
_ALLOWED_GROUPS = frozenset(
    f"{group}_funcs"
    for group in (
        "array bitwise collection conditional conversion csv datetime hash json lambda map math predicate string "
        "struct url variant"
    ).split()
)
#: The same, of groups that also have others.
_ALLOWED = frozenset({"assert_true", "raise_error", "typeof"})
#: Groups that need other records than the one at hand, or make several of it.
_SEVERAL_RECORDS = frozenset({"agg_funcs", "window_funcs", "generator_funcs"})
_NO_XML = "Spark's XML functions open files and addresses that a record names; use JSON functions or regexp_extract"
_NO_KEYS = "a key within an expression is shown in logs and in Spark's UI; encrypt where the records are produced"
#: Why functions are refused that are random, or depend on how Spark has split the records.
NOT_REPEATABLE = "a retry cannot give the same answer. Use a hash of the record, such as pmod(xxhash64(key), 10) = 0"
#: Why functions are refused that read the clock or the session.
NOT_NOW = "a retry runs later. Use a template, such as timestamp'{{ data_interval_end }}'"
#: Reasons for some of the refused functions.
_REASONS = {
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), "it calls any method of the JVM"),
    **dict.fromkeys(("aes_encrypt", "aes_decrypt", "try_aes_decrypt"), _NO_KEYS),
    **dict.fromkeys(
        ("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), "its options name files to be read"
    ),
    **dict.fromkeys(("uuid", "monotonically_increasing_id", "spark_partition_id"), NOT_REPEATABLE),
}
#: Characters of an expression, and brackets within brackets; Spark's parser takes many seconds for more.
_LONGEST, _DEEPEST = 16_384, 100
#: A quoted text or name, which may have brackets, or a bracket.
_QUOTED_OR_BRACKET = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|[(\[)\]]""", re.DOTALL)
#: A call of one of our functions, or what may look like one inside: a comment, a text, a name.
_HEADER_OR_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\br'[^']*'|\br"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`"""
    r"""|(?<![\w.`])header(?P<text>_text)?\s*\(\s*(?P<name>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*\)""",
    re.DOTALL | re.IGNORECASE,
)
#: What an expression looks at, as Spark's connector names and types it (KafkaRecordToRowConverter).
SOURCE_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
#: Ours, written out before Spark sees an expression.
_HEADER_FUNCTIONS = frozenset({"header", "header_text"})
#: What looks like a call by a plain name.
_CALL = re.compile(r"(?<![\w.:$@])([^\W\d]\w*)\s*\(")
#: In the place of a quoted text or name.
_QUOTED = "\0"
#: What looks like a column: no field of one, no call, no name that is given here, no type before a text, and no part of
#: a number.
_NAME = re.compile(r"(?<![\w.:$@])(?<!\bcollate\s)([^\W\d]\w*)(?!\w*\s*(?:\(|=>|->|\0))", re.IGNORECASE)
#: The parameters of a function within an expression: ``h -> ...`` and ``(a, b) -> ...``.
_PARAMETERS = re.compile(r"(\w+)\s*->|\(([\w\s,]+)\)\s*->")
#: Where a word may be the name of a field or of a unit of time.
_OTHER_NAMES = re.compile(
    r"\bstruct\s*[<(]|\b(extract|date_?add|date_?diff|timestampadd|timestampdiff)\s*\(|(?<!:):(?!:)|\bover\b|\bselect\b"
    # What _NAME does not read: more than one blank before a collation, a quoted parameter, blanks after a point.
    r"|\bcollate\s{2,}|\0\s*->|\.\s",
    re.IGNORECASE,
)
#: What is left of a text, a name or a comment that is not read here as Spark reads it.
_UNREAD = re.compile(r"""['"`]|/\*|\*/""")
_YEAR = r"[+-]?\d{4,}(?!\d|:)"
#: A complete date or time, as Spark's parser accepts it. The parser replaces 'now', in any spelling, by the current
#: time, and adds the current day to a time without a day.
_WRITTEN_OUT = re.compile(
    rf"(date|timestamp(_ltz|_ntz)?)\s*(['\"])\s*({_YEAR}[^\\]*|epoch\s*\3)", re.IGNORECASE | re.DOTALL
)
#: A text that Spark reads as a time of the current day.
_TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:", re.IGNORECASE)


def check_size(name: str, sql: str, example: str) -> None:
    """Check what bounds the work of Spark's parser, before Spark starts.

    :param name: of the parameter, for the error.
    :raises ExpressionError: if it is too long or too deep.
    """
    if len(sql) > _LONGEST:
        raise ExpressionError(
            f"{name} must be an SQL expression of at most {_LONGEST:,} characters, such as {example!r}; got "
            f"{len(sql):,}, which begin with {cut(sql, 120)!r}. Give a longer list of values to several tasks."
        )
    depth = deepest = 0
    for found in _QUOTED_OR_BRACKET.findall(sql):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(found, 0)
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise ExpressionError(
            f"{name} must have at most {_DEEPEST} brackets within each other, such as {example!r}; got {deepest:,} in "
            f"{cut(sql, 120)!r}. Take brackets out that change nothing."
        )


def expanded(sql: str) -> str:
    """An expression with ``header('name')`` and ``header_text('name')`` written out, the last header of that name as
    bytes or as text; null if a record has none.

    >>> expanded("header_text('reason') = 'header(''x'')'")
    "string(try_element_at(filter(headers, header_ -> header_.key = 'reason'), -1).value) = 'header(''x'')'"
    """
    return _HEADER_OR_QUOTED.sub(_written_out, sql)


def unknown_functions(sql: str) -> list[str]:
    """The functions that an expression calls by a plain name, and that Spark does not have, as far as that can be seen
    without its parser.

    >>> unknown_functions("uper(topic) in ('f(x)') and exists(headers, h -> lenght(h.value) > 3)")
    ['uper', 'lenght']
    """
    names = (name.lower() for name in _CALL.findall(_code(sql)))
    return list(dict.fromkeys(name for name in names if name not in FUNCTIONS | KEYWORDS))


def unknown_columns(sql: str) -> list[str]:
    """The columns that an expression names and that a record does not have, as far as that can be seen without Spark's
    parser.

    >>> unknown_columns("statu = 'cancelled' and exists(headers, h -> h.key = 'a') and Offset > 1e3")
    ['statu']
    """
    code = _code(sql)
    if _OTHER_NAMES.search(code):
        return []
    given = {name for found in _PARAMETERS.findall(code) for name in re.findall(r"\w+", " ".join(found).lower())}
    known = {*map(str.lower, SOURCE_COLUMNS), *given, *FUNCTIONS, *KEYWORDS}
    return list(dict.fromkeys(name for name in _NAME.findall(code) if name.lower() not in known))


def _code(sql: str) -> str:
    """An expression without its texts, quoted names and comments; empty if only Spark's parser can tell them."""
    code = _HEADER_OR_QUOTED.sub(lambda found: " " if found[0][:2] in ("--", "/*") else _QUOTED, expanded(sql))
    return "" if _UNREAD.search(code) else code


def unknown_column(name: str, sql: str, column: str) -> str:
    """The error for a column that a record does not have.

    :param name: of the parameter.

    >>> unknown_column("where", "ofset > 3", "ofset")[-65:]
    "'ofset' is not one of them. Did you mean offset? Got 'ofset > 3'."
    """
    close = difflib.get_close_matches(column, SOURCE_COLUMNS, n=1, cutoff=0.8)
    hint = (
        f"Did you mean {close[0]}?"
        if close
        else f"If it is a field of a value in JSON, write get_json_object(string(value), '$.{column}')."
    )
    return (
        f"{name} must be an SQL expression over the columns of a record ({', '.join(SOURCE_COLUMNS)}); {column!r} is "
        f"not one of them. {hint} Got {cut(sql, 120)!r}."
    )


def unknown_function(name: str, sql: str, function: str) -> str:
    """The error for a call of a function that Spark does not have.

    :param name: of the parameter.
    :param function: in lower case.

    >>> unknown_function("where", "uper(topic)", "uper")[65:]
    "uper() is not one of them. Did you mean upper()? Got 'uper(topic)'."
    """
    close = difflib.get_close_matches(function, FUNCTIONS | _HEADER_FUNCTIONS, n=1, cutoff=0.7)
    hint = f"Did you mean {close[0]}()?" if close else "Correct the name."
    if function in _HEADER_FUNCTIONS:
        hint = f"It takes the name of a header as a text, such as {function}('tenant')."
    return (
        f"{name} must call Spark's built-in functions by their plain names; {function}() is not one of them. {hint} "
        f"Got {cut(sql, 120)!r}."
    )


def _written_out(found: re.Match[str]) -> str:
    if found["name"] is None:
        return found[0]
    value = f"try_element_at(filter(headers, header_ -> header_.key = {found['name']}), -1).value"
    return f"string({value})" if found["text"] else value


def cut(text: str, most: int) -> str:
    """At most so many characters of a text, for messages."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def refusal_of(function: str, group: str) -> str | None:
    """Why an expression must not call a function, or None if it may.

    :param function: its name.
    :param group: of Spark's built-in function of that name.

    >>> refusal_of("upper", "string_funcs")
    >>> refusal_of("reflect", "misc_funcs")
    'it calls any method of the JVM'
    """
    if group in _ALLOWED_GROUPS or function in _ALLOWED:
        return None
    if group in _SEVERAL_RECORDS:
        return "it looks at several records or makes several of one (an aggregate, a window or a generator)"
    if group == "xml_funcs":
        return _NO_XML
    return _REASONS.get(function, "it is not known to look at its arguments alone")


def is_written_out(literal: str) -> bool:
    """Whether a literal of a date or a timestamp is complete and in a plain spelling.

    :param literal: as it stands in the expression.

    >>> is_written_out("timestamp '2026-11-21 10:00:00'"), is_written_out("TIMESTAMP/**/'now'")
    (True, False)
    """
    return _WRITTEN_OUT.fullmatch(literal) is not None


def lacks_a_day(text: str) -> bool:
    """Whether Spark reads a text as a timestamp of the current day.

    >>> lacks_a_day("10:00:00"), lacks_a_day("2026-11-21 10:00:00")
    (True, False)
    """
    return _TIME_OF_DAY.match(text) is not None
