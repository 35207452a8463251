"""``python -m airflow_provider_kafka_spark.explain KS208``: what an error means, its likely causes, what to check.

``airflow kafka-spark explain`` is the same. The reference of errors is written from the same texts.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from airflow_provider_kafka_spark.command_line import parse_arguments
from airflow_provider_kafka_spark.core import errors
from airflow_provider_kafka_spark.core.errors import KafkaSparkError

FOUND_CODE, UNKNOWN_CODE, USAGE_CODE = 0, 1, 2
DESCRIPTION = (
    "Explain an error by its code or name: what happened, likely causes, what to check, and whether a retry helps."
)
EPILOG = "Exit code: 0 if the error is known, 1 if not, 2 without an error to explain."
#: The arguments, by the name of the option.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "error": {
        "metavar": "CODE_OR_NAME",
        "nargs": "?",
        "default": None,
        "help": "such as KS208 or DataLossError",
    },
    "--list": {"action": "store_true", "help": "list all codes and names"},
}
_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known about an error.

    :param happened: what it means.
    :param to_do: what corrects it.
    :param causes: the likely ones, the most likely first.
    :param checks: commands that tell the causes apart. Words in capitals are to be replaced; ``B`` is a bootstrap
        server.
    :param retry: whether one helps.
    """

    error: type[KafkaSparkError]
    happened: str
    to_do: str
    causes: Sequence[str]
    checks: Sequence[str]
    retry: str


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, and :func:`explain`.

    :return: the exit code.
    """
    return explain(parse_arguments("explain", DESCRIPTION, EPILOG, ARGUMENTS, argv))


def command(options: argparse.Namespace) -> NoReturn:
    """``airflow kafka-spark explain``."""
    sys.exit(explain(options))


def explain(options: argparse.Namespace) -> int:
    """Print what is known about an error, or the list of all.

    :param options: with the values of ``ARGUMENTS``.
    :return: the exit code.
    """
    if options.list:
        _emit("\n".join(f"{error.code}  {error.__name__}" for error in all_errors()))
        return FOUND_CODE
    if options.error is None:
        sys.stderr.write("CODE_OR_NAME must be given, such as KS208 or DataLossError; --list shows all.\n")
        return USAGE_CODE
    found = find_error(options.error)
    if found is None:
        sys.stderr.write(_unknown(options.error))
        return UNKNOWN_CODE
    _emit(_text(explanation_of(found)))
    return FOUND_CODE


def all_errors() -> list[type[KafkaSparkError]]:
    """Every error of :mod:`~airflow_provider_kafka_spark.core.errors`, in the order of the codes."""
    named = (value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, KafkaSparkError))
    return sorted(named, key=lambda error: error.code)


def find_error(code_or_name: str) -> type[KafkaSparkError] | None:
    """The error of a code or a name, in upper or lower case, also as it begins a message."""
    asked = _key(code_or_name)
    return next((error for error in all_errors() if asked in (error.code.lower(), error.__name__.lower())), None)


def explanation_of(error: type[KafkaSparkError]) -> Explanation:
    """
    :return: causes and checks of the nearest base, where an error has none of its own.
    """
    happened, _, to_do = inspect.cleandoc(error.__doc__ or "").partition("\n\n")
    bases = [base.__name__ for base in error.__mro__]
    return Explanation(
        error,
        _one_line(happened),
        _one_line(to_do),
        next((_CAUSES[name] for name in bases if name in _CAUSES), ()),
        next((_CHECKS[name] for name in bases if name in _CHECKS), ()),
        "It can help: Airflow retries the task as often as its retries permit."
        if error.retriable
        else "It does not help: the task fails at once. Correct the cause, then clear the task.",
    )


def _unknown(asked: str) -> str:
    from difflib import get_close_matches

    known = {key: error for error in all_errors() for key in (error.code.lower(), error.__name__.lower())}
    nearest = [known[key] for key in get_close_matches(_key(asked), known, n=1)]
    hint = "".join(f" Did you mean {error.code} ({error.__name__})?" for error in nearest)
    return f"CODE_OR_NAME must be that of an error, such as KS208; got {asked!r}.{hint} --list shows all.\n"


def _key(code_or_name: str) -> str:
    return code_or_name.strip().rstrip(":").rpartition(".")[2].lower()


def _text(found: Explanation) -> str:
    return "\n".join(
        (
            f"{found.error.code} {found.error.__name__}",
            *_paragraph("What happened", [found.happened]),
            *_paragraph("Likely causes", found.causes, bullet="- "),
            *_paragraph("What to do", [found.to_do]),
            *_paragraph("What to check", found.checks, bullet="$ "),
            *_paragraph("A retry", [found.retry]),
        )
    )


def _paragraph(heading: str, texts: Sequence[str], bullet: str = "") -> Iterator[str]:
    from textwrap import fill

    if not texts:
        return
    yield f"\n{heading}:"
    for text in texts:
        if bullet == "$ ":
            # A command is copied as one line.
            yield f"  {bullet}{text}"
        else:
            yield fill(
                text,
                _COLUMNS,
                initial_indent=f"  {bullet}",
                subsequent_indent=" " * (2 + len(bullet)),
                break_long_words=False,
                break_on_hyphens=False,
            )


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _emit(text: str) -> None:
    sys.stdout.write(f"{text}\n")


_RENDER = "airflow tasks render DAG_ID TASK_ID LOGICAL_DATE_OR_RUN_ID"
_CONNECTION = "AIRFLOW__CORE__TEST_CONNECTION=Enabled airflow connections test CONN_ID"
_TOPIC = "kafka-topics.sh --bootstrap-server B --describe --topic TOPIC"
_STARTS = "kafka-get-offsets.sh --bootstrap-server B --topic TOPIC --time earliest"
_ENDS = "kafka-get-offsets.sh --bootstrap-server B --topic TOPIC --time latest"
_TOPIC_CONFIG = "kafka-configs.sh --bootstrap-server B --describe --entity-type topics --entity-name TOPIC"
_GROUP = "kafka-consumer-groups.sh --bootstrap-server B --describe --group GROUP"
_MEMBERS = f"{_GROUP} --members"
_REACHED = "kafka-broker-api-versions.sh --bootstrap-server B --command-config CLIENT.properties"
_TLS = "openssl s_client -connect HOST:PORT -servername HOST -showcerts </dev/null"
_ACLS = "kafka-acls.sh --bootstrap-server B --list --principal User:NAME"
_TOKENS = "kafka-delegation-tokens.sh --bootstrap-server B --describe --command-config CLIENT.properties"
_TRANSACTIONS = "kafka-transactions.sh --bootstrap-server B list"
_HANGING = "kafka-transactions.sh --bootstrap-server B find-hanging --topic TOPIC"
_PREPARE = "airflow kafka-spark prepare"
_CACHE = "airflow config get-value kafka_spark cache_folder"
_YARN_LOG = "yarn logs -applicationId APPLICATION_ID"
_POD_LOG = "kubectl logs DRIVER_POD --namespace NAMESPACE"
_POD = "kubectl describe pod DRIVER_POD --namespace NAMESPACE"

#: Of an error, or of all below it that have none of their own.
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "InvalidInputError": (
        "A parameter has a value that it cannot have.",
        "A template rendered to something else than expected, such as an empty text or 'None'.",
        "A template uses the date of a run that has none.",
    ),
    "OffsetRangeError": (
        "The end of a range is not after its start.",
        "Two ranges have offsets in common, as when an incident's list was put together by hand.",
        "A list was given as text of another form.",
    ),
    "BoundError": (
        "Start and end are exchanged, or equal.",
        "The end of a window is in the future, as in a run that was started by hand.",
        "A timestamp has no time zone, or is in seconds instead of milliseconds.",
    ),
    "OptionError": (
        "The name of the option is misspelt.",
        "The option is one that this package sets by itself, or that would change what is read.",
        "Two parameters exclude each other.",
    ),
    "ExpressionError": (
        "A column or an SQL function does not exist; the source has key, value, topic, partition, offset, timestamp, "
        "timestampType and headers.",
        "key and value are binary: compare them after CAST(value AS STRING).",
        "A record's value is not of the form that the expression expects.",
    ),
    "AuditInputError": (
        "The value is the result of another task, or a plan.",
        "The copy ran without provenance headers.",
        "The connection leads to another cluster than that of the copy.",
    ),
    "ConnectionConfigError": (
        "No connection has this id, or it has no bootstrap.servers.",
        "A property of the connection exists for one of librdkafka and Kafka's Java client only.",
        "A file that the connection names does not exist on the worker.",
    ),
    "TargetError": (
        "The target topic does not exist, or has fewer partitions than preserve_partition needs.",
        "The target topic is also read.",
        "A record is larger than the target's max.message.bytes, or has no key and the target is compacted.",
        "The target would replace, refuse or delete the timestamps of the records.",
    ),
    "TargetRecreatedError": ("Somebody deleted the target topic while the job ran.",),
    "PlanError": ("The offsets are not those of this topic or cluster.",),
    "PlanTooLargeError": (
        "A start is earlier than was meant, such as 'earliest'.",
        "A topic has more records than usual.",
    ),
    "PlanOutdatedError": (
        "Records aged out between the plan and its execution.",
        "A topic was deleted and recreated.",
        "Parameters of the task differ from those of the plan.",
    ),
    "AlreadyDeliveredError": (
        "A task that has succeeded was cleared.",
        "A backfill runs intervals again that are done.",
    ),
    "UnknownTopicError": (
        "The name is misspelt, or its template rendered to another one.",
        "The connection leads to another cluster.",
        "The login may not DESCRIBE the topic: brokers then answer as if there were none.",
    ),
    "ConcurrentRunsError": ("Several runs of the DAG are active at the same time.",),
    "GroupOffsetsError": (
        "The group has committed no offsets on these topics.",
        "The records that the group is at were never copied, or without provenance headers.",
    ),
    "TopicRecreatedError": (
        "The topic was deleted and recreated since the copy.",
        "Records were deleted by kafka-delete-records.sh.",
    ),
    "DataLossError": (
        "retention.ms or retention.bytes of the topic removed the records before they were copied.",
        "The DAG was paused, or failed, for longer than the retention.",
        "The topic was deleted and recreated, so that its offsets begin again.",
        "Ranges of another task's result are of a topic that was recreated, or of another cluster.",
        "An unclean leader election cut the log: a replica that lacked records became the leader.",
    ),
    "OpenTransactionError": (
        "A producer is still writing its transaction.",
        "A producer died within a transaction, which ends by transaction.timeout.ms.",
        "A transaction hangs: the brokers do not end it.",
    ),
    "CheckpointError": (
        "checkpoint_location is that of another task, or its topics or options have changed.",
        "The storage does not answer, or the login may not read it.",
        "A file of the checkpoint was removed or cut.",
    ),
    "CheckpointMissingError": (
        "The location is misspelt.",
        "The stream has never run.",
    ),
    "CheckpointInUseError": (
        "Another run of the DAG is active.",
        "Two tasks have the same checkpoint_location.",
        "The driver of an earlier try still runs on the cluster.",
    ),
    "ConsumerGroupError": ("An application consumes with the group that offsets are committed for.",),
    "ConsumerGroupActiveError": (
        "The consumers of the group still run.",
        "They have just stopped, and their session has not ended yet.",
    ),
    "BrokerError": ("A broker refused a request. The message has its answer.",),
    "BrokerUnavailableError": (
        "bootstrap.servers has a wrong host or port.",
        "A firewall or network policy lies between the worker and a broker.",
        "The brokers announce addresses (advertised.listeners) that the worker cannot reach.",
        "security.protocol is not that of the listener: a TLS listener does not answer plain text.",
        "The brokers are down or restarting.",
    ),
    "BrokerAuthenticationError": (
        "User name or password is wrong, or the password has changed.",
        "sasl.mechanism is one that the listener does not have.",
        "A Kerberos ticket or keytab, or an OAuth client, is not valid.",
    ),
    "BrokerTlsError": (
        "The CA of the brokers is not in the connection's trusted certificates.",
        "A certificate has expired.",
        "The broker's certificate is for another host name than that of bootstrap.servers.",
        "The broker asks for a client certificate, and the connection has none.",
    ),
    "BrokerAuthorizationError": (
        "The login has no ACL for the topic, group or transactional id.",
        "An ACL is of the pattern type literal where prefixed is needed.",
        "The worker logs in as somebody else than you think.",
    ),
    "DelegationTokenError": (
        "The token was made by another login, which did not name this one as a renewer.",
        "The brokers have no delegation.token.secret.key.",
        "The token's id is wrong, or the token has ended and was removed.",
    ),
    "DelegationTokenNotUsableError": ("A broker has not yet heard of the new token from its controller.",),
    "DelegationTokenExpiredError": (
        "Nobody renewed the token in time.",
        "The job needs longer than delegation.token.max.lifetime.ms.",
    ),
    "JavaNotFoundError": (
        "The worker's image has no Java.",
        "JAVA_HOME leads elsewhere, or the PATH of the worker's service is not that of your shell.",
    ),
    "JavaStartError": (
        "The worker has too little free memory.",
        "JAVA_TOOL_OPTIONS or SPARK_SUBMIT_OPTS has an option that this Java does not know.",
    ),
    "SparkSubmitNotFoundError": (
        "The package was installed without the extra spark4, and the worker has no Spark.",
        "SPARK_HOME leads elsewhere.",
    ),
    "SparkVersionError": ("A constraints file pins one of the two packages, or one of them was upgraded alone.",),
    "JarError": (
        "The worker does not reach Maven Central or the configured mirror.",
        "The jars are for another version of Spark or Scala.",
        "The cache belongs to another user, or others may write to it.",
    ),
    "ClassArchiveError": (
        "The cache cannot be written.",
        "This Java has no archive of its own classes.",
        "A driver does not start on this machine.",
    ),
    "ReportLocationError": (
        "The driver runs on the cluster, and report_location is missing or a path of the worker only.",
        "The Airflow provider of that storage is not installed, or its connection may not read there.",
    ),
    "JobFolderError": (
        "The disk of TMPDIR is full.",
        "The worker's user may not write there.",
    ),
    "StartNotRecordedError": ("Airflow's API server was unreachable or restarting when the job began.",),
    "JobFailedError": (
        "An executor or the driver failed in a way that has no error of its own.",
        "The cluster took its resources away.",
    ),
    "JobReportMissingError": (
        "The driver had too little memory and was killed.",
        "The driver's pod or container was evicted.",
        "The driver cannot write to report_location.",
    ),
    "JobReportForgedError": ("Another job, or a person, writes to the same report_location.",),
    "DeliveryError": (
        "A Spark task was lost after the job's count.",
        "The brokers acknowledged fewer records than were planned.",
    ),
    "AuditFindingError": (
        "Records of the target aged out, were compacted or deleted since the copy.",
        "A copy with at_least_once was repeated.",
        "Something else writes to the target with the same header.",
    ),
    "DuplicateRecordsError": ("A Spark task or the whole job was repeated, with delivery='at_least_once'.",),
    "PausedTooLongError": (
        "The consumers of the group stand still, or are slower than the producers.",
        "The group has no committed offsets, so that its lag is unknown.",
    ),
    "RunTakenOverError": (
        "Airflow took this try for lost and began another one, which finishes the run.",
        "Another deployment of Airflow has the same [kafka_spark] deployment, and runs the same names on this "
        "Kafka: the two stop each other. Give each deployment a name of its own.",
    ),
    "JobTokenEndedError": ("The job ran longer than the token may live.",),
    "EarlierJobUnknownError": (
        "The cluster's API did not answer.",
        "The worker has no permission to read the application or the pod.",
    ),
    "ProgressUnknownError": ("The committed progress expired (offsets.retention.minutes), or was deleted.",),
    "TransactionEndedError": (
        "A transaction was open for longer than the time-out, as with slow brokers or a long pause of the JVM.",
        "InvalidPidMappingException: the brokers have forgotten a transactional id that rested for longer than their "
        "transactional.id.expiration.ms, 7 days by default. A retry gets a new one.",
        "Spark started a second attempt of the same task.",
    ),
    "SourceStalledError": (
        "A broker of the source is overloaded or a partition has no leader.",
        "An open transaction hides the records that come next.",
        "A quota throttles the login.",
    ),
    "SourceDamagedError": (
        "A disk of a broker has damaged the log of the partition.",
        "The network has damaged the answer of a broker; then a retry passes.",
    ),
    "JobKilledError": (
        "A person or a time-out (execution_timeout) ended the task.",
        "The worker stopped, or ran out of memory.",
    ),
    "AirflowApiError": (
        "The address of the API server is wrong, or it is down.",
        "The token has expired, or its user may not read the DAG.",
    ),
    "ProtocolError": (
        "Workers, triggerer and cluster have different versions of this package.",
        "A task was planned by an older version and is continued by this one.",
    ),
    "LocalServiceError": (
        "The port is in use.",
        "The machine has too little memory, or is under heavy load.",
    ),
}
_CHECKS: Mapping[str, tuple[str, ...]] = {
    "InvalidInputError": (_RENDER,),
    "OffsetRangeError": (_RENDER, _STARTS, _ENDS),
    "AuditInputError": (_RENDER, _CONNECTION),
    "ConnectionConfigError": (_CONNECTION,),
    "TargetError": (_TOPIC, _TOPIC_CONFIG),
    "PlanError": (_STARTS, _ENDS, _TOPIC),
    "AlreadyDeliveredError": ("airflow kafka-spark coverage --help",),
    "ConcurrentRunsError": ("airflow dags list-runs DAG_ID --state running",),
    "GroupOffsetsError": (_GROUP, _STARTS),
    "DataLossError": (_STARTS, _TOPIC_CONFIG),
    "OpenTransactionError": (_TRANSACTIONS, _HANGING),
    "CheckpointError": (_RENDER, "hadoop fs -ls CHECKPOINT_LOCATION"),
    "CheckpointInUseError": ("airflow dags list-runs DAG_ID --state running",),
    "ConsumerGroupError": (_MEMBERS,),
    "BrokerError": (_CONNECTION, _REACHED),
    "BrokerTlsError": (_TLS,),
    "BrokerAuthorizationError": (_ACLS,),
    "DelegationTokenError": (_TOKENS,),
    "DelegationTokenNotUsableError": (_TOKENS,),
    "SubmitError": (_PREPARE,),
    "JavaNotFoundError": ("java -version", _PREPARE),
    "JavaStartError": ("java -version", "free -m"),
    "SparkVersionError": ("pip list | grep pyspark",),
    "JarError": (_PREPARE, _CACHE),
    "ReportLocationError": (_RENDER,),
    "JobFolderError": ('df -h "${TMPDIR:-/tmp}"',),
    "StartNotRecordedError": ("airflow jobs check --job-type SchedulerJob",),
    "JobError": (_YARN_LOG, _POD_LOG),
    "JobReportMissingError": (_YARN_LOG, _POD),
    "DeliveryError": ("python -m airflow_provider_kafka_spark.audit RESULT.json",),
    "AuditFindingError": ("airflow kafka-spark coverage --help", _TOPIC_CONFIG),
    "DuplicateRecordsError": ("python -m airflow_provider_kafka_spark.audit RESULT.json",),
    "PausedTooLongError": (_GROUP,),
    "JobTokenEndedError": (_TOKENS,),
    "EarlierJobUnknownError": ("yarn application -status APPLICATION_ID", "kubectl auth can-i get pods"),
    "TransactionEndedError": (_TRANSACTIONS,),
    "SourceStalledError": (_TOPIC, _HANGING),
    "SourceDamagedError": (_TOPIC,),
    "AirflowApiError": ("curl -s API_SERVER/api/v2/monitor/health",),
    "ProtocolError": ("pip show airflow-provider-kafka-spark",),
    "LocalServiceError": ("ss -ltn", "free -m"),
}


if __name__ == "__main__":
    sys.exit(main())
