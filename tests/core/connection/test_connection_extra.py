from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.connection.connection_extra import ConnectionExtra
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

_BODY = "QUJD" * 20
_PEM = f"-----BEGIN CERTIFICATE-----\n{_BODY[:64]}\n{_BODY[64:]}\n-----END CERTIFICATE-----\n"


def test_what_was_taken_is_gone() -> None:
    extra = ConnectionExtra("c", {" a ": "1", "b": True, "none": None})

    assert (extra.take("a"), extra.take("b"), extra.take("none"), extra.take("a")) == ("1", "true", None, None)
    assert extra.left == {}


def test_two_names_of_one_setting() -> None:
    assert ConnectionExtra("c", {"a": "x", "b": "x"}).take("a", "b") == "x"
    assert ConnectionExtra("c", {"a": "", "b": "x"}).take("a", "b") == "x"
    with pytest.raises(ConnectionConfigError, match="'c' sets a and b, which are one setting"):
        ConnectionExtra("c", {"a": "x", "b": "y"}).take("a", "b")
    with pytest.raises(ConnectionConfigError, match=r"sets a and sasl\.jaas\.config to different values"):
        ConnectionExtra("c", {"a": "hunter2"}).take_or_jaas("a", in_jaas="other")


@pytest.mark.parametrize(
    "pasted",
    [
        pytest.param(_PEM.replace("\n", "\\n"), id="line-ends-spelt-out"),
        pytest.param(_PEM.replace("\n", ""), id="line-ends-lost"),
        pytest.param(_PEM.replace("\n", " "), id="line-ends-are-blanks"),
    ],
)
def test_a_pem_text_that_was_pasted_is_mended(pasted: str) -> None:
    """A browser's password field takes one line only."""
    assert ConnectionExtra("c", {"a": pasted}).take_pem("a") == _PEM
    assert ConnectionExtra("c", {"a": pasted * 2}).take_pem("a") == _PEM * 2


def test_what_is_no_pem_text_is_not_shown() -> None:
    with pytest.raises(ConnectionConfigError, match="PEM text in a, which begins with '-----BEGIN'; got 7 characters"):
        ConnectionExtra("c", {"a": "hunter2"}).take_pem("a")
