"""The error classes of this package, as one tree.

::

    KafkaSparkError
    ├── InvalidInputError            a parameter or connection is invalid; nothing was started
    │   ├── OffsetRangeError         a range is malformed, duplicated or overlaps another
    │   ├── BoundError               a start, an end or a window is malformed, reversed, empty or in the future
    │   ├── OptionError              an option is misspelt, refused, ignored or contradicted
    │   ├── ExpressionError          an SQL expression does not compile against the source columns
    │   ├── ConnectionConfigError    a connection is missing, incomplete or cannot be translated
    │   └── TargetError              the target cannot take the records: missing, too small, or the source itself
    ├── PlanError                    the broker does not hold what the plan asks for
    │   ├── UnknownTopicError        a topic or partition does not exist
    │   └── DataLossError            requested records aged out, or the topic was re-created
    ├── CheckpointError              a checkpoint is damaged, out of reach, or belongs to another job
    │   ├── CheckpointMissingError   there is no checkpoint yet
    │   └── CheckpointInUseError     another run is using it now                                  (retriable)
    ├── ConsumerGroupError           a consumer group is in use, or took not all offsets          (retriable)
    ├── BrokerError                  the broker did not answer as it should
    │   ├── BrokerUnavailableError   no answer within the time-out                                (retriable)
    │   ├── BrokerAuthenticationError  the broker refused the login
    │   │   └── BrokerTlsError       TLS failed: a certificate is unknown, expired, missing or of another host
    │   ├── BrokerAuthorizationError   the login lacks a permission
    │   ├── DelegationTokenError     a token is unknown, unavailable, or belongs to others
    │   │   └── DelegationTokenExpiredError  a token has ended, or ends too soon
    │   └── DelegationTokenNotUsableError  brokers have not heard of a new token yet              (retriable)
    ├── SubmitError                  the Spark job could not be started or followed
    │   ├── JavaNotFoundError        no Java, or one that is too old
    │   ├── JavaStartError           a JVM next to the task did not start                         (retriable)
    │   ├── SparkSubmitNotFoundError no ``spark-submit``
    │   ├── SparkVersionError        pyspark and pyspark-client are of different versions
    │   ├── JarError                 the Kafka connector's jars are missing, unreadable or unavailable
    │   ├── ReportLocationError      the job's report cannot travel back
    │   ├── JobFolderError           the worker cannot write the files of a job                   (retriable)
    │   └── StartNotRecordedError    Airflow did not record the start of the job, which was stopped(retriable)
    ├── JobError                     the Spark job ran and did not prove delivery
    │   ├── JobFailedError           the job reported a failure                                   (retriable)
    │   ├── JobReportMissingError    the job ended and left no report                             (retriable)
    │   ├── JobReportForgedError     the report is not by the job that was submitted              (retriable)
    │   ├── DeliveryError            the report does not match the plan                           (retriable)
    │   ├── DuplicateRecordsError    all was delivered, and some of it more than once
    │   ├── RunTakenOverError        a later try of the same run writes now                       (retriable)
    │   ├── JobTokenEndedError       the job's delegation token ended while it ran                (retriable)
    │   ├── EarlierJobUnknownError   it is unknown whether an earlier try's job still runs        (retriable)
    │   └── JobKilledError           the task was killed, and the job with it                     (retriable)
    ├── ProtocolError                a request or report has an unknown version or shape
    └── LocalServiceError            a broker or cluster for tests and demos did not start or stop

``retriable`` says whether running the same task again, unchanged, can succeed.
"""

from __future__ import annotations

from typing import ClassVar


class KafkaSparkError(Exception):
    """Base class of the errors that this package raises."""

    retriable: ClassVar[bool] = False


class InvalidInputError(KafkaSparkError):
    """A parameter or connection is invalid. Nothing was started."""


class OffsetRangeError(InvalidInputError):
    """An offset range is malformed, duplicated, or overlaps another."""


class BoundError(InvalidInputError):
    """A start, an end or a window is malformed, reversed, empty or in the future."""


class OptionError(InvalidInputError):
    """An option is misspelt, refused by Spark, ignored by Spark, or contradicts another."""


class ExpressionError(InvalidInputError):
    """An SQL expression does not compile against the source columns."""


class ConnectionConfigError(InvalidInputError):
    """An Airflow connection is missing, incomplete, or cannot be translated for Spark."""


class TargetError(InvalidInputError):
    """The target cannot take the records: it is missing, has too few partitions, or is the source itself."""


class PlanError(KafkaSparkError):
    """The broker does not hold what the plan asks for."""


class UnknownTopicError(PlanError):
    """A topic or partition does not exist."""


class DataLossError(PlanError):
    """Requested records are no longer available: retention deleted them, or the topic was re-created."""


class CheckpointError(KafkaSparkError):
    """A checkpoint is damaged, out of reach, or belongs to another job."""


class CheckpointMissingError(CheckpointError):
    """There is no checkpoint where one was expected."""


class CheckpointInUseError(CheckpointError):
    """Another run is using the checkpoint now."""

    retriable = True


class ConsumerGroupError(KafkaSparkError):
    """A consumer group has members, or did not take all offsets."""

    retriable = True


class BrokerError(KafkaSparkError):
    """The broker did not answer as it should."""


class BrokerUnavailableError(BrokerError):
    """No answer from any bootstrap server within the time-out."""

    retriable = True


class BrokerAuthenticationError(BrokerError):
    """The broker refused the login."""


class BrokerTlsError(BrokerAuthenticationError):
    """TLS failed before any login: a certificate is not trusted, has expired, is of another host, or is missing."""


class BrokerAuthorizationError(BrokerError):
    """The login is known, and lacks a permission."""


class DelegationTokenError(BrokerError):
    """A delegation token does not exist, belongs to others, or is unavailable from this broker."""


class DelegationTokenNotUsableError(BrokerError):
    """A new delegation token is still refused by a broker, which may not have heard of it yet."""

    retriable = True


class DelegationTokenExpiredError(DelegationTokenError):
    """A delegation token has ended, or ends too soon."""


class SubmitError(KafkaSparkError):
    """The Spark job could not be started or followed."""


class JavaNotFoundError(SubmitError):
    """There is no Java, or only one that is too old for Spark."""


class JavaStartError(SubmitError):
    """Java exists, but the JVM next to the task did not start in time, or ended at its start."""

    retriable = True


class SparkSubmitNotFoundError(SubmitError):
    """There is no ``spark-submit`` where the connection or the PATH says."""


class SparkVersionError(SubmitError):
    """The installed pyspark and pyspark-client are of different versions, so that their common files are a mixture."""


class JarError(SubmitError):
    """The Kafka connector's jars are missing, unreadable, or unavailable for this Spark version."""


class ReportLocationError(SubmitError):
    """The job's report cannot travel back from where the driver runs."""


class JobFolderError(SubmitError):
    """The files of a job cannot be written to the worker's temporary folder. Nothing was written to Kafka."""

    retriable = True


class StartNotRecordedError(SubmitError):
    """Airflow did not record the start of the job, so a retry could not wait for its end. The job was stopped."""

    retriable = True


class JobError(KafkaSparkError):
    """The Spark job ran and did not prove delivery."""


class JobFailedError(JobError):
    """The job reported a failure of its own."""

    retriable = True


class JobReportMissingError(JobError):
    """The job ended and left no report: its driver died, or its report was lost."""

    retriable = True


class JobReportForgedError(JobError):
    """The report does not prove that the submitted job wrote it: something else wrote or changed it."""

    retriable = True


class DeliveryError(JobError):
    """The job's report does not match the plan: something did not arrive."""

    retriable = True


class DuplicateRecordsError(JobError):
    """Everything was delivered, and some records more than once. A retry cannot undo that."""


class JobTokenEndedError(JobError):
    """The delegation token that the job logged in with ended while it ran."""

    retriable = True


class RunTakenOverError(JobError):
    """A later try of the same run writes now, so this one was fenced and wrote nothing more."""

    retriable = True


class EarlierJobUnknownError(JobError):
    """It is unknown whether the job of an earlier try still runs. A second job beside it would write records twice."""

    retriable = True


class JobKilledError(JobError):
    """The task was killed, and the job with it. Airflow decides about a retry: not after a user's kill, but after an
    eviction.
    """

    retriable = True


class ProtocolError(KafkaSparkError):
    """A request or report has a version or shape that this package does not know."""


class LocalServiceError(KafkaSparkError):
    """A broker or cluster for tests and demos did not start, answer or stop."""


def error_named(name: str, default: type[KafkaSparkError]) -> type[KafkaSparkError]:
    """The class with this name, or the default. The job sends errors by name."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, KafkaSparkError) else default
