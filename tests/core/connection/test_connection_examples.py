from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.connection.connection_form import FIELDS, FormFields, extra_of_form

_FOLDER = Path(__file__).parents[3] / "docs"
_PAGES = (
    "how-to/connect-to-a-secured-cluster.md",
    "how-to/connect-to-managed-kafka.md",
    "reference/connections.md",
)
_SERVERS = ("broker-1", "b-1.", "pkc-", "bootstrap.", "my-namespace.")
_DOCS = "\n".join((_FOLDER / page).read_text() for page in _PAGES)
_EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", _DOCS, re.DOTALL)]


@pytest.mark.parametrize("example", _EXAMPLES, ids=range(len(_EXAMPLES)))
def test_the_documentations_examples_are_connections(example: dict[str, Any]) -> None:
    extra = example
    if example.get("conn_type") == "kafka":
        extra = example["extra"]
    elif "conn_type" in example:
        fields = {name: example.get(name) for name in ("host", "port", "login", "password", "extra")}
        extra = extra_of_form(FormFields("c", **fields))
    config = translate("c", extra)

    assert config.bootstrap_servers.startswith(_SERVERS)
    assert (config.mechanism is not None) is config.protocol.startswith("SASL_")


def test_every_kind_of_login_has_an_example() -> None:
    mechanisms = {example.get("sasl.mechanism") for example in _EXAMPLES}

    assert mechanisms >= {None, "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"}
    assert [name for name in FIELDS if f"`{name}`" not in _DOCS] == []
