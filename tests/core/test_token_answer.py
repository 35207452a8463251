"""Promises of what is shown of a token endpoint's answer: a connection may name any address, also an internal one."""

from __future__ import annotations

import pytest

from airflow_provider_kafka_spark.core.secrets import without_token_answer

_LIBRDKAFKA = "Failed to acquire SASL OAUTHBEARER token: "
_JAVA = "IOException: The response code 401 and error response {} was encountered reading the token endpoint response"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (_LIBRDKAFKA + "internal page: db-password=hunter2", "(an answer without an error code of OAuth)"),
        (_LIBRDKAFKA + "<html>\n<b>hunter2</b>\n</html>", "(an answer without an error code of OAuth)"),
        (_LIBRDKAFKA + '{"error": "invalid_client", "error_description": "hunter2"}', "(invalid_client)"),
        (_LIBRDKAFKA + '{"error": "hunter2"}', "(an answer without an error code of OAuth)"),
        (_JAVA.format('{"hunter2" - "x"}'), "(an answer without an error code of OAuth)"),
        (_LIBRDKAFKA + "Failed to connect: <b>hunter2</b>", "(an answer without an error code of OAuth)"),
        (
            _JAVA.format('{"invalid_client" - "hunter2"}'),
            "code 401 and error response (invalid_client) was encountered",
        ),
        (
            "The unexpected response code 500 and error message hunter2\nhunter2 was encountered reading the token "
            "endpoint response",
            "code 500 and error message (an answer without an error code of OAuth) was encountered",
        ),
        (
            "The token endpoint response did not contain an access_token value. Response: (hunter2)",
            "did not contain an access_token value. Response: (an answer without an error code of OAuth)",
        ),
    ],
)
def test_only_status_and_error_code_are_shown(text: str, shown: str) -> None:
    """The rest may be the page of an internal service."""
    found = without_token_answer(text)
    assert shown in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    "text",
    [
        _LIBRDKAFKA + "Failed to connect to 127.0.0.1:1 after 0 ms: Could not connect to server",
        _LIBRDKAFKA + "Could not resolve host: nowhere.invalid",
        _LIBRDKAFKA + "SSL certificate problem: unable to get local issuer certificate",
        _LIBRDKAFKA + 'Expected JSON response with "access_token" field',
        "1/1 brokers are down",
    ],
)
def test_what_is_no_answer_is_shown(text: str) -> None:
    assert without_token_answer(text) == text
