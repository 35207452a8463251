"""Errors of brokers and logins."""

from __future__ import annotations

from airflow_provider_kafka_spark.core.errors import commands
from airflow_provider_kafka_spark.core.errors.base import KafkaSparkError, listed


class BrokerError(KafkaSparkError):
    """A broker did not answer as it should.

    Look at the reason in the message, and at the logs of the brokers.
    """

    code = "KS500"
    causes = listed("A broker refused a request. The message has its answer.")
    checks = listed(commands.CONNECTION, commands.REACHED)


class BrokerUnavailableError(BrokerError):
    """No broker answered within the timeout, or the identity provider or KDC did not.

    Check that the brokers are up and reachable from the worker, and that ``security.protocol`` is that of the listener.
    """

    code = "KS501"
    retriable = True
    causes = listed(
        "bootstrap.servers has a wrong host or port.",
        "A firewall or network policy lies between the worker and a broker.",
        "The brokers announce addresses (advertised.listeners) that the worker cannot reach.",
        "security.protocol is not that of the listener: a TLS listener does not answer plain text.",
        "The brokers are down or restarting.",
        "A broker has just started, and does not know all topics and partitions yet.",
    )


class BrokerAuthenticationError(BrokerError):
    """The broker refused the login.

    Check ``security.protocol``, ``sasl.mechanism`` and the credentials of the connection.
    """

    code = "KS502"
    causes = listed(
        "User name or password is wrong, or the password has changed.",
        "sasl.mechanism is one that the listener does not have.",
        "A Kerberos ticket or keytab, or an OAuth client, is not valid.",
    )


class BrokerTlsError(BrokerAuthenticationError):
    """TLS failed before the login: a certificate is missing, expired, not trusted, or of another host.

    Correct the certificate or the trusted CA that the message names.
    """

    code = "KS503"
    causes = listed(
        "The CA of the brokers is not in the connection's trusted certificates.",
        "A certificate has expired.",
        "The broker's certificate is for another host name than that of bootstrap.servers.",
        "The broker asks for a client certificate, and the connection has none.",
    )
    checks = listed(commands.TLS)


class BrokerAuthorizationError(BrokerError):
    """The login is known, but lacks a permission.

    Grant the ACL that the message names. The permissions page lists what each task needs.
    """

    code = "KS504"
    causes = listed(
        "The login has no ACL for the topic, group or transactional id.",
        "An ACL is of the pattern type literal where prefixed is needed.",
        "The worker logs in as somebody else than you think.",
    )
    checks = listed(commands.ACLS)


class DelegationTokenError(BrokerError):
    """A delegation token does not exist, is not visible to the login, or cannot be made by this broker.

    Check the token's id, its owner and renewers, and ``delegation.token.secret.key`` of the brokers.
    """

    code = "KS505"
    causes = listed(
        "The token was made by another login, which did not name this one as a renewer.",
        "The brokers have no delegation.token.secret.key.",
        "The token's id is wrong, or the token has ended and was removed.",
    )
    checks = listed(commands.TOKENS)


class DelegationTokenExpiredError(DelegationTokenError):
    """A delegation token has ended, or cannot live long enough.

    Make a new token, and renew it earlier. For ``min_token_lifetime``, split the job or raise
    ``delegation.token.max.lifetime.ms``.
    """

    code = "KS506"
    causes = listed(
        "Nobody renewed the token in time.",
        "The job needs longer than delegation.token.max.lifetime.ms.",
    )


class DelegationTokenNotUsableError(BrokerError):
    """A broker still refuses a new delegation token that it may not know yet.

    Wait for the retry. If it fails too, check that all brokers reach their controller.
    """

    code = "KS507"
    retriable = True
    causes = listed("A broker has not yet heard of the new token from its controller.")
    checks = listed(commands.TOKENS)
