"""What the token endpoint of an OAuth login answered, in the messages of both clients. No I/O."""

from __future__ import annotations

import re

#: Where the messages of librdkafka and of Java's client quote what the token endpoint answered.
_TOKEN_ANSWERS = (
    re.compile(r"(?<=SASL OAUTHBEARER token: ).+", re.DOTALL),
    re.compile(r"(?<= and error message ).*?(?= was encountered reading the token endpoint response|$)", re.DOTALL),
    re.compile(r"(?<= and error response ).*?(?= was encountered reading the token endpoint response|$)", re.DOTALL),
    re.compile(r"(?<=an access_token value\. Response: ).*", re.DOTALL),
)
#: Messages of librdkafka and curl in place of an answer.
_NO_ANSWER = re.compile(
    r"(Failed to (connect|parse JSON|decode JWT)|Could ?n.t connect|Could not (connect|resolve)|SSL |Expected JSON "
    r"response|Operation timed out|Resolving timed out|Connection timed out)[\w .,:()\"\[\]'/-]{0,160}"
)
#: An error code of OAuth (RFC 6749, 5.2, and those of later ones), as the endpoint gives it, and as Java shows it.
_OAUTH_CODE = re.compile(
    r"[\"{]((?:invalid|unauthorized|unsupported|access|server|temporarily|slow|authorization|expired|consent|login|"
    r"interaction|account|request|registration|insufficient)_[a-z_]{1,30})\b"
)


def without_token_answer(text: str) -> str:
    """A client's message without what the token endpoint answered, except for the status and OAuth's error code.

    A connection may name any address as its token endpoint, also that of an internal service.

    >>> without_token_answer('Failed to acquire SASL OAUTHBEARER token: {"error":"invalid_client","x":"y"}')
    'Failed to acquire SASL OAUTHBEARER token: (invalid_client)'
    """
    for pattern in _TOKEN_ANSWERS:
        text = pattern.sub(lambda found: _without_content(found[0]), text, count=1)
    return text


def _without_content(answer: str) -> str:
    if _NO_ANSWER.fullmatch(answer):
        return answer
    code = _OAUTH_CODE.search(answer)
    return f"({code[1]})" if code else "(an answer without an error code of OAuth)"
