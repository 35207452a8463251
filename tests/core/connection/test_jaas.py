from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_kafka_spark.core.connection.jaas import JaasLine, parse_jaas

_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)


@given(st.dictionaries(_NAMES, st.text(), max_size=5))
@example({"password": "\\\"'\n\r;= \\101 \\n"})
def test_what_is_written_is_read_back(options: dict[str, str]) -> None:
    line = JaasLine(_MODULE, options)

    assert parse_jaas(line.format()) == line
    assert "\n" not in line.format()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(f"{_MODULE} required;", {}, id="no-options"),
        pytest.param(
            f"{_MODULE} optional useKeyTab=true keyTab='/etc/a b.keytab';",
            {"useKeyTab": "true", "keyTab": "/etc/a b.keytab"}, id="single-quotes",
        ),
        pytest.param(rf'{_MODULE} required password="a\"b\\c\101\n";', {"password": 'a"b\\cA\n'}, id="escapes"),
    ],
)  # fmt: skip
def test_reads_as_java_does(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == JaasLine(_MODULE, options)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(f"{_MODULE} needed;", id="no-flag"),
        pytest.param(f'{_MODULE} required password="hunter2;', id="open-quote"),
        pytest.param(f"{_MODULE} required password;", id="no-value"),
        pytest.param(f"{_MODULE} required a=b a=c;", id="twice"),
    ],
)
def test_refuses_what_java_refuses_and_shows_no_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"it must be|each option|is given|cannot be read") as raised:
        parse_jaas(text)
    assert "hunter2" not in str(raised.value)
