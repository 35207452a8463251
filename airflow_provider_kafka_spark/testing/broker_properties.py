"""The server properties of a broker for tests: one node, nothing replicated, nothing slow, nothing created unasked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from airflow_provider_kafka_spark.core.errors import OptionError
from airflow_provider_kafka_spark.testing.ports import LOOPBACK

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# Without a configuration the log library drops every line, and a broker that fails dies without a word.
LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


def server_properties(
    data: Path, plain: int, sasl: int, controller: int, sasl_users: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of a broker that is its own controller.

    :param data: the folder for its log segments
    :param plain: port of the listener without a login
    :param sasl: port of the listener with a login, used if there are users
    :param controller: port of the controller's listener
    :param sasl_users: user names and passwords
    """
    listeners = {"PLAINTEXT": plain, "CONTROLLER": controller}
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # A test of a compacted topic does not wait for the default of 15 s.
        "log.cleaner.backoff.ms": "200",
        "delegation.token.secret.key": "for-tests-only",
        "controlled.shutdown.enable": "false",
    }
    if sasl_users:
        listeners["SASL_PLAINTEXT"] = sasl
        prefix = "listener.name.sasl_plaintext"
        users = " ".join(f'user_{user}="{password}"' for user, password in sasl_users.items())
        security = "org.apache.kafka.common.security"
        properties["sasl.enabled.mechanisms"] = ",".join(("PLAIN", *SCRAM))
        properties[f"{prefix}.plain.sasl.jaas.config"] = f"{security}.plain.PlainLoginModule required {users};"
        for mechanism in SCRAM:
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = (
                f"{security}.scram.ScramLoginModule required;"
            )
    properties["listeners"] = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
    properties["advertised.listeners"] = properties["listeners"]
    return properties


def check_users(users: Mapping[str, str]) -> None:
    """Refuse what the three places that a password is written to would each have to quote in another way.

    :raises OptionError: a name or a password is empty or has such a character
    """
    for user, password in users.items():
        if not user or not password or not set(user + password).isdisjoint(' ,=[]"\\;\n\t'):
            raise OptionError(
                'Expected sasl_users with names and passwords that are not empty and free of spaces and of , = [ ] " \\ ;, '
                f"such as {{'alice': 'secret'}}; got user {user!r}. Choose another name or password."
            )


def as_file(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file."""
    lines = (f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n") for name, value in properties.items())
    return "".join(f"{line}\n" for line in lines)
