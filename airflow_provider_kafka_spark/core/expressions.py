"""Which SQL functions the author's expressions may call. No I/O.

The rule is an allow-list of groups: a function that a later Spark adds in a new group is refused until that is known to
look at its arguments alone.
"""

from __future__ import annotations

import re

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
#: Why what is drawn by lot, or depends on how Spark has split the records, is refused.
NOT_REPEATABLE = "a retry cannot give the same answer. Use a hash of the record, such as pmod(xxhash64(key), 10) = 0"
#: Why what looks at the clock or the session is refused.
NOT_NOW = "a retry runs later. Use a template, such as timestamp'{{ data_interval_end }}'"
#: What to know about some of the functions that are refused.
_REASONS = {
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), "it calls any method of the JVM"),
    **dict.fromkeys(("aes_encrypt", "aes_decrypt", "try_aes_decrypt"), _NO_KEYS),
    **dict.fromkeys(
        ("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), "its options name files to be read"
    ),
    **dict.fromkeys(("uuid", "monotonically_increasing_id", "spark_partition_id"), NOT_REPEATABLE),
}
#: A literal that the parser replaces by the time it is; the expression has no trace of it.
_LITERAL_OF_NOW = re.compile(
    r"\b(date|timestamp(_ltz|_ntz)?)\s*r?['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE
)


def refusal_of(function: str, group: str | None) -> str | None:
    """Why an expression must not call a function, or None if it may.

    :param function: its name.
    :param group: of Spark's built-in function of that name, or None if there is none.

    >>> refusal_of("upper", "string_funcs")
    >>> refusal_of("reflect", "misc_funcs")
    'it calls any method of the JVM'
    """
    if group is None:
        return "it is not one of Spark's built-in functions, called by its plain name"
    if group in _ALLOWED_GROUPS or function in _ALLOWED:
        return None
    if group in _SEVERAL_RECORDS:
        return "it looks at several records or makes several of one (an aggregate, a window or a generator)"
    if group == "xml_funcs":
        return _NO_XML
    return _REASONS.get(function, "it is not known to look at its arguments alone")


def has_literal_of_now(sql: str) -> bool:
    """Whether an expression has a literal such as ``timestamp'now'``.

    >>> has_literal_of_now("timestamp > TIMESTAMP 'today'"), has_literal_of_now("topic = 'today'")
    (True, False)
    """
    return _LITERAL_OF_NOW.search(sql) is not None
