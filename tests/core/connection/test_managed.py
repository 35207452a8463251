from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_kafka_spark.core.connection.client_config import translate
from airflow_provider_kafka_spark.core.errors import ConnectionConfigError

_MSK = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098"
_GOOGLE = "bootstrap.demo.europe-west1.managedkafka.my-project.cloud.goog:9092"


def _extra(servers: str, **further: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        **further,
    }


def test_a_cloud_by_the_names_of_its_servers() -> None:
    msk = translate("msk", _extra(f"{_MSK},{_MSK.replace('b-1', 'b-2')}"))
    google = translate("google", _extra(_GOOGLE))

    assert msk.token_service is not None
    assert google.token_service is not None
    assert (msk.token_service.provider, msk.token_service.region) == ("aws-msk-iam", "eu-west-1")
    assert (msk.librdkafka["sasl.mechanism"], msk.java["sasl.mechanism"]) == ("OAUTHBEARER", "AWS_MSK_IAM")
    assert msk.java["sasl.jaas.config"] == "software.amazon.msk.auth.iam.IAMLoginModule required;"
    assert google.token_service.provider == "google"
    assert google.java["sasl.login.callback.handler.class"].endswith(".GcpLoginCallbackHandler")


@pytest.mark.parametrize(
    "extra",
    [
        _extra("b-1.kafka.eu-west-1.amazonaws.com.example.com:9098"),
        _extra(f"{_MSK},broker.example.com:9098"),
        _extra(f"{_MSK},{_MSK.replace('eu-west-1', 'us-east-1')}"),
        _extra(_MSK, oauth_cb="os.system"),
        _extra(_MSK, **{"sasl.login.callback.handler.class": "evil.Handler"}),
    ],
)
def test_no_other_server_gets_a_token_and_no_class_is_taken(extra: dict[str, Any]) -> None:
    with pytest.raises(ConnectionConfigError):
        translate("x", extra)
