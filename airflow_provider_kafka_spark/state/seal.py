"""A code by which the tasks of a deployment know what they have written themselves, whoever else may write there."""

from __future__ import annotations

import hashlib
import hmac
import json

from airflow_provider_kafka_spark.state.deployment import state_key


def seal(content: object, key: str | None = None) -> str:
    """The MAC of plain JSON.

    :param content: also says what it is, and whose, so that it is taken for nothing else.
    :param key: the deployment's, if the caller has it.
    :raises OptionError: if the one in the configuration is too short.
    """
    # As it is when it comes back from JSON, where every name is a text, and 60.0 may be 60.
    text = json.dumps(json.loads(json.dumps(content), parse_float=_number), sort_keys=True)
    return hmac.new((key or state_key()).encode(), text.encode(), hashlib.sha256).hexdigest()


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def is_sealed(mac: object, content: object, key: str | None = None) -> bool:
    """Whether a MAC is that of the content."""
    given = mac.encode(errors="replace") if isinstance(mac, str) else b""
    return hmac.compare_digest(given, seal(content, key).encode())
