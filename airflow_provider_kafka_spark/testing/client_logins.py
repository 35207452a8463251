"""How clients log in at a test broker, as properties of librdkafka."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.testing.broker_properties import KERBEROS_SERVICE, BrokerSecurity, Certificate


def certificate_config(certificate: Certificate) -> dict[str, str]:
    """Return the properties of a client with a certificate of its own."""
    config = {"ssl.certificate.pem": certificate.certificate_pem, "ssl.key.pem": certificate.key_pem}
    return config | ({"ssl.key.password": certificate.password} if certificate.password else {})


def login_config(security: BrokerSecurity, user: str, mechanism: str) -> dict[str, str]:
    """Return the properties with which ``user`` logs in by SASL.

    :raises OptionError: the broker has no such mechanism or user
    """
    if mechanism not in security.mechanisms():
        raise OptionError(
            f"mechanism must be one of the broker's mechanisms {security.mechanisms()}; got {mechanism!r}. PLAIN "
            "needs sasl_users, GSSAPI kerberos, and OAUTHBEARER an identity_provider."
        )
    config = {"sasl.mechanism": mechanism}
    if mechanism == "GSSAPI" and security.kerberos:
        return config | {
            "sasl.kerberos.service.name": KERBEROS_SERVICE,
            "sasl.kerberos.principal": security.kerberos.principal(user),
            "sasl.kerberos.keytab": str(security.kerberos.keytab(user)),
        }
    provider = security.identity_provider if mechanism == "OAUTHBEARER" else None
    users = provider.clients if provider else security.sasl_users
    if user not in users:
        raise OptionError(
            f"user must be one of {sorted(users)} for {mechanism}; got {user!r}. Add the user where they are given."
        )
    if provider:
        return config | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.client.id": user,
            "sasl.oauthbearer.client.secret": users[user],
            "sasl.oauthbearer.scope": provider.scope,
        }
    return config | {"sasl.username": user, "sasl.password": users[user]}
