"""Every failure that this package names, as one tree. ``docs/reference/errors.md`` is generated from it.

::

    KafkaSparkError
    ├── InvalidInputError            a parameter cannot be right; nothing was started
    │   ├── OffsetRangeError         a range is malformed, given twice or overlaps another
    │   ├── BoundError               a start, an end or a window is malformed, reversed, empty or in the future
    │   ├── OptionError              an option is misspelt, refused, ignored or contradicted
    │   ├── ExpressionError          an SQL expression does not compile, is not permitted or fails on data
    │   ├── AuditInputError          a result cannot be audited: no result of a copy, or without provenance
    │   ├── ConnectionConfigError    a connection is missing, incomplete or cannot be translated
    │   └── TargetError              the target cannot take the records: missing, too small, or also read
    │       └── TargetRecreatedError   a target was deleted or recreated while the job ran                 (retriable)
    ├── PlanError                    the broker does not hold what the plan asks for
    │   ├── PlanTooLargeError        the plan has more records than the task permits
    │   ├── PlanOutdatedError        the plan of another task no longer holds
    │   ├── AlreadyDeliveredError    the task has succeeded before, and on_rerun='fail'
    │   ├── UnknownTopicError        a topic or partition does not exist
    │   ├── ConcurrentRunsError      another run of the task has found the same records               (retriable)
    │   ├── GroupOffsetsError        a group's offsets cannot be translated to the target
    │   ├── TopicRecreatedError      a topic of an audited copy was deleted or recreated since
    │   ├── DataLossError            requested records are no longer available
    │   └── OpenTransactionError     a transaction at the end of a window is not yet complete           (retriable)
    ├── CheckpointError              a checkpoint is damaged, out of reach, or belongs to another job
    │   ├── CheckpointMissingError   there is no checkpoint where one is expected
    │   └── CheckpointInUseError     another run is using it now                                      (retriable)
    ├── ConsumerGroupError           a consumer group is in use, or took not all offsets              (retriable)
    │   └── ConsumerGroupActiveError a consumer group that gets offsets has members                   (retriable)
    ├── BrokerError                  the broker did not answer as it should
    │   ├── BrokerUnavailableError   no answer within the time-out                                (retriable)
    │   ├── BrokerAuthenticationError  the broker refused the login
    │   │   └── BrokerTlsError       TLS failed: a certificate is unknown, expired, missing or of another host
    │   ├── BrokerAuthorizationError   the login lacks a permission
    │   ├── DelegationTokenError     a token is unknown, not visible to the login, or cannot be made
    │   │   └── DelegationTokenExpiredError  a token has ended, or ends too soon
    │   └── DelegationTokenNotUsableError  a broker still refuses a new token                         (retriable)
    ├── SubmitError                  the Spark job could not be started or followed
    │   ├── JavaNotFoundError        no Java, or one that is too old
    │   ├── JavaStartError           a JVM for Kafka's client did not start                           (retriable)
    │   ├── SparkSubmitNotFoundError no ``spark-submit``
    │   ├── SparkVersionError        pyspark and pyspark-client are of different versions
    │   ├── JarError                 jars of the Kafka connector are missing, unreadable or unavailable
    │   ├── ClassArchiveError        the archive with which drivers start faster cannot be made
    │   ├── ReportLocationError      the job's report cannot reach the worker
    │   ├── JobFolderError           the worker cannot write the files of a job                       (retriable)
    │   └── StartNotRecordedError    Airflow did not record the start of the job, which was stopped   (retriable)
    ├── JobError                     the Spark job ran and did not prove delivery
    │   ├── JobFailedError           the job reported a failure                                       (retriable)
    │   ├── JobReportMissingError    the job ended and left no report                                 (retriable)
    │   ├── JobReportForgedError     the report was not written by the submitted job                  (retriable)
    │   ├── DeliveryError            the report does not match the plan                               (retriable)
    │   ├── AuditFindingError        an audit found records missing, doubled or different
    │   ├── DuplicateRecordsError    all was delivered, and some of it more than once
    │   ├── PausedTooLongError       the consumer group of pause_while_lag did not catch up           (retriable)
    │   ├── RunTakenOverError        a later try of the same run writes now                           (retriable)
    │   ├── JobTokenEndedError       the job's delegation token ended while it ran                    (retriable)
    │   ├── EarlierJobUnknownError   it is unknown whether an earlier try's job still runs            (retriable)
    │   ├── ProgressUnknownError     the committed progress of a Spark task is gone                   (retriable)
    │   ├── TransactionEndedError    the brokers ended a transaction of the job                       (retriable)
    │   ├── SourceStalledError       the source gave no records for too long                          (retriable)
    │   ├── SourceDamagedError       a record batch of the source is damaged                          (retriable)
    │   └── JobKilledError           the task was killed, and the job with it                         (retriable)
    ├── AirflowApiError              Airflow's API did not answer a question about past runs          (retriable)
    ├── ProtocolError                a request, report or stored state is not of a form that is read
    └── LocalServiceError            a broker or cluster for tests and demos did not start or stop

``retriable`` says whether running the same task again, unchanged, can succeed.
"""

from __future__ import annotations

from typing import ClassVar


class KafkaSparkError(Exception):
    """Base of every error that this package raises on purpose.

    Read the message: it says what is wrong and what to do. Catch this class to catch them all.
    """

    code: ClassVar[str] = "KS001"
    retriable: ClassVar[bool] = False


class InvalidInputError(KafkaSparkError):
    """A parameter cannot be right. Nothing was started.

    Correct the parameter that the message names. If it is a template, check what it rendered to.
    """

    code = "KS100"


class OffsetRangeError(InvalidInputError):
    """An offset range is malformed, given twice or overlaps another one.

    Correct ``offset_ranges``, or pass ``merge_overlaps=True`` to write the records of overlapping ranges once.
    """

    code = "KS101"


class BoundError(InvalidInputError):
    """A start, an end or a time window is malformed, reversed, empty or in the future.

    Correct the offsets or timestamps that the message names.
    """

    code = "KS102"


class OptionError(InvalidInputError):
    """An option is misspelt, refused, ignored by Spark, or contradicts another one.

    Correct or remove the option. The message names the parameter to use instead, if there is one.
    """

    code = "KS103"


class ExpressionError(InvalidInputError):
    """An SQL expression does not compile, is not permitted, or fails on the data of a record.

    Correct ``where``, ``columns`` or ``target_topic_expr``, or leave out the records on which it fails.
    """

    code = "KS104"


class AuditInputError(InvalidInputError):
    """A result cannot be audited: it is no result of a copy, a plan, or of records without the provenance header.

    Pass the result of a task that has copied, as it was returned.
    """

    code = "KS105"


class ConnectionConfigError(InvalidInputError):
    """An Airflow connection is missing, incomplete, or has no counterpart in one of the Kafka clients.

    Correct the property of the connection that the message names.
    """

    code = "KS106"


class TargetError(InvalidInputError):
    """The target cannot take the records: it is missing, is also read, has too few partitions, or refuses a record.

    Create or change the target topic, or leave out the record that the message names. Then clear the task.
    """

    code = "KS107"


class TargetRecreatedError(TargetError):
    """A target was deleted, or deleted and recreated, while the job ran: what went to the earlier topic is lost.

    Create the topic if it does not exist. A retry writes all records to the new one.
    """

    code = "KS108"
    retriable = True


class PlanError(KafkaSparkError):
    """The broker does not hold what the plan asks for.

    Correct the offsets. If the log was longer before, the topic was deleted and recreated.
    """

    code = "KS200"


class PlanTooLargeError(PlanError):
    """A plan has more records than the task permits.

    Look at the plan in the log. Correct what is read, or raise ``max_planned_records``.
    """

    code = "KS201"


class PlanOutdatedError(PlanError):
    """What ``plan=`` is to carry out has changed since it was planned: records are gone, or a topic was recreated.
    Nothing was copied.

    Make a new plan, and have it approved: clear the task that plans.
    """

    code = "KS202"


class AlreadyDeliveredError(PlanError):
    """The task instance has succeeded before, and ``on_rerun="fail"`` permits no second copy. Nothing was started.

    Pass ``on_rerun="missing_only"`` to write what the target lacks, or ``"copy_again"``.
    """

    code = "KS203"


class UnknownTopicError(PlanError):
    """A topic or partition does not exist, or the login may not see it.

    Correct the name, create the topic, or grant DESCRIBE on it.
    """

    code = "KS204"


class GroupOffsetsError(PlanError):
    """A group's offsets cannot be translated: it has none, they are not of this topic, or the target has no records
    that a copy has written.

    Correct group, topics and target. The target's records need the header of ``provenance="headers"``.
    """

    code = "KS206"


class TopicRecreatedError(PlanError):
    """A source or target of an audited copy was deleted or recreated since, or its log was cut.

    Nothing can be compared: an audit says nothing about what was in the earlier topic. Copy again, if the records are
    needed.
    """

    code = "KS207"


class DataLossError(PlanError):
    """Requested records are no longer available: they aged out, the topic was deleted or recreated, or its log was cut.

    Clear the task to plan again, or pass ``fail_on_data_loss=False`` to copy what is left. The result then names the
    gap.
    """

    code = "KS208"


class OpenTransactionError(PlanError):
    """An open transaction of a producer hides records that were asked for.

    A retry looks again. Give the task ``retries``, or wait with ``KafkaTimestampReachedSensor``. A transaction that
    stays open ends by its own time-out (``transaction.timeout.ms`` of its producer).
    """

    code = "KS209"
    retriable = True


class CheckpointError(KafkaSparkError):
    """A checkpoint is damaged, out of reach, or belongs to another job.

    Restore the file that the message names, or pass another ``checkpoint_location``. For a changed job, pass the
    ``reset_checkpoint_to`` that the message gives.
    """

    code = "KS300"


class CheckpointMissingError(CheckpointError):
    """There is no checkpoint where a sensor expects one.

    Correct the location, run the stream first, or add ``"if_missing": "earliest"`` to ``since``.
    """

    code = "KS301"


class ConcurrentRunsError(PlanError):
    """Another run of the same task looked for new records at the same time, and found them first.

    Set ``max_active_runs=1`` for the DAG.
    """

    code = "KS205"
    retriable = True


class CheckpointInUseError(CheckpointError):
    """Another run is using the checkpoint.

    Set ``max_active_runs=1`` for the DAG, and give each task a ``checkpoint_location`` of its own.
    """

    code = "KS302"
    retriable = True


class ConsumerGroupError(KafkaSparkError):
    """A consumer group has members, or did not take all offsets.

    Pass a ``commit_group_id`` that nobody consumes with.
    """

    code = "KS400"
    retriable = True


class ConsumerGroupActiveError(ConsumerGroupError):
    """A consumer group to which offsets are committed is active: its state is neither Empty nor Dead.

    Stop its consumers and wait until their session has ended, or pass another ``target_group_id``.
    """

    code = "KS401"


class BrokerError(KafkaSparkError):
    """A broker did not answer as it should.

    Look at the reason in the message, and at the logs of the brokers.
    """

    code = "KS500"


class BrokerUnavailableError(BrokerError):
    """No broker answered within the timeout, or the identity provider or KDC did not.

    Check that the brokers are up and reachable from the worker, and that ``security.protocol`` is that of the listener.
    """

    code = "KS501"
    retriable = True


class BrokerAuthenticationError(BrokerError):
    """The broker refused the login.

    Check ``security.protocol``, ``sasl.mechanism`` and the credentials of the connection.
    """

    code = "KS502"


class BrokerTlsError(BrokerAuthenticationError):
    """TLS failed before the login: a certificate is missing, expired, not trusted, or of another host.

    Correct the certificate or the trusted CA that the message names.
    """

    code = "KS503"


class BrokerAuthorizationError(BrokerError):
    """The login is known, but lacks a permission.

    Grant the ACL that the message names. The permissions page lists what each task needs.
    """

    code = "KS504"


class DelegationTokenError(BrokerError):
    """A delegation token does not exist, is not visible to the login, or cannot be made by this broker.

    Check the token's id, its owner and renewers, and ``delegation.token.secret.key`` of the brokers.
    """

    code = "KS505"


class DelegationTokenNotUsableError(BrokerError):
    """A broker still refuses a new delegation token that it may not know yet.

    Wait for the retry. If it fails too, check that all brokers reach their controller.
    """

    code = "KS507"
    retriable = True


class DelegationTokenExpiredError(DelegationTokenError):
    """A delegation token has ended, or cannot live long enough.

    Make a new token, and renew it earlier. For ``min_token_lifetime``, split the job or raise
    ``delegation.token.max.lifetime.ms``.
    """

    code = "KS506"


class SubmitError(KafkaSparkError):
    """The Spark job could not be started or followed.

    Look at the subclass: it names what is wrong.
    """

    code = "KS600"


class JavaNotFoundError(SubmitError):
    """There is no Java on the worker, or only one that is too old for Spark.

    Install Java 17, or set ``JAVA_HOME`` or the ``PATH`` of the worker to it.
    """

    code = "KS601"


class JavaStartError(SubmitError):
    """A JVM for Kafka's Java client did not start in time, or ended at its start.

    Run ``java -version`` on the worker, and check its free memory.
    """

    code = "KS602"
    retriable = True


class SparkSubmitNotFoundError(SubmitError):
    """There is no ``spark-submit`` on the worker.

    Install ``pyspark`` in Airflow's environment, or set ``SPARK_HOME``.
    """

    code = "KS603"


class SparkVersionError(SubmitError):
    """The installed ``pyspark`` and ``pyspark-client`` have different versions, so their common files are mixed.

    Run the ``pip install`` command that the message gives.
    """

    code = "KS604"


class JarError(SubmitError):
    """Jars of the Kafka connector are missing, unreadable, unavailable or changed, or others may replace them.

    Check the network or the Maven mirror, or pass ``kafka_connector`` a folder with the jars. Where a folder, a link or
    a file is refused, run the command of the message if you trust its content.
    """

    code = "KS605"


class ClassArchiveError(SubmitError):
    """The class archive or the jar of the writer, with which drivers on a local master start faster, cannot be made or
    kept.

    Only ``prepare`` fails with it; jobs run without an archive. Do what the message says, or pass
    ``--no-class-archive``.
    """

    code = "KS606"


class ReportLocationError(SubmitError):
    """The job's report cannot reach the worker.

    In cluster mode, pass a ``report_location`` that driver and worker both reach, and install the Airflow provider of
    that storage.
    """

    code = "KS607"


class JobFolderError(SubmitError):
    """The worker's temporary folder, or that of a ``JobBundle``, cannot take the files of a job. Nothing was written to
    Kafka.

    Free space there, or set ``TMPDIR`` to another folder; correct the permissions of the bundle's folder.
    """

    code = "KS608"
    retriable = True


class StartNotRecordedError(SubmitError):
    """Airflow did not record the start of the job, so a retry could not wait for its end. The job was stopped.

    Check Airflow's API server.
    """

    code = "KS609"
    retriable = True


class JobError(KafkaSparkError):
    """The Spark job ran and did not prove delivery.

    Look at the subclass: it names what is wrong.
    """

    code = "KS700"


class JobFailedError(JobError):
    """The job reported a failure that has no name of its own.

    Look at the cause in the message and at the driver's log.
    """

    code = "KS701"
    retriable = True


class JobReportMissingError(JobError):
    """The job ended without a report: its driver died, or the report was lost.

    Look at the end of the driver's log in the message, such as for lack of memory.
    """

    code = "KS702"
    retriable = True


class JobReportForgedError(JobError):
    """The report was not written by the submitted job, or was changed afterwards.

    Check who may write to ``report_location``.
    """

    code = "KS703"
    retriable = True


class DeliveryError(JobError):
    """The job's report does not match the plan: records may be missing from the target.

    Wait for the retry, which writes what is missing. If it fails too, look at the ranges in the message.
    """

    code = "KS704"
    retriable = True


class AuditFindingError(JobError):
    """An audit found records of a past copy missing, doubled or different in the target.

    Replay ``missing_ranges`` of the result if records are missing. Pass ``fail_on_finding=False`` to have findings
    reported only.
    """

    code = "KS705"


class DuplicateRecordsError(JobError):
    """All records were delivered, and some of them more than once.

    Remove the surplus by the provenance header, or pass ``allow_duplicates=True`` to have it reported only.
    """

    code = "KS706"


class JobTokenEndedError(JobError):
    """The delegation token that the job logged in with ended while it ran.

    Raise ``delegation.token.max.lifetime.ms``, or split the job.
    """

    code = "KS709"
    retriable = True


class PausedTooLongError(JobError):
    """The consumer group of ``pause_while_lag`` did not catch up within ``max_pause``, or its lag was unknown for that
    long.

    Look at the consumers of the group. A retry continues where this try stopped.
    """

    code = "KS707"
    retriable = True


class RunTakenOverError(JobError):
    """A later try of the same run writes now. This one was fenced and writes nothing more.

    Nothing: the later try finishes the run.
    """

    code = "KS708"
    retriable = True


class ProgressUnknownError(JobError):
    """The committed progress of a Spark task is gone, so it is unknown what it has delivered. Nothing was written.

    Nothing: a retry reads the target back.
    """

    code = "KS711"
    retriable = True


class TransactionEndedError(JobError):
    """The brokers ended a transaction of the job: it was open for too long, or another attempt of its task took over.

    Nothing, if it is rare. Else raise ``kafka.transaction.timeout.ms`` in ``sink_options``.
    """

    code = "KS712"
    retriable = True


class SourceStalledError(JobError):
    """The source gave no records for longer than ``kafkaConsumer.pollTimeoutMs``. What was committed stays.

    Check the brokers of the source, or raise ``kafkaConsumer.pollTimeoutMs`` in ``source_options``.
    """

    code = "KS713"
    retriable = True


class SourceDamagedError(JobError):
    """A record batch of the source is damaged: its checksum is wrong, it is cut off, or its format is not known.

    Nothing of it was written. Look at the disk of the partition's leader, or move the leader to another replica.
    """

    code = "KS715"
    retriable = True


class EarlierJobUnknownError(JobError):
    """It is unknown whether the job of an earlier try still runs. A second job could write the same records again.

    Give the worker access to YARN's ResourceManager or to Kubernetes, as the message says.
    """

    code = "KS710"
    retriable = True


class JobKilledError(JobError):
    """The task was killed, and its job with it. Airflow decides whether it is tried again.

    Clear the task to go on. It writes only what is missing.
    """

    code = "KS714"
    retriable = True


class AirflowApiError(KafkaSparkError):
    """Airflow's API did not answer a question about past runs.

    The message has its answer. Check its address, and the token or the user that the command has.
    """

    code = "KS801"
    retriable = True


class ProtocolError(KafkaSparkError):
    """A request, report, event or stored state is not of the version or form that this package reads.

    Run the same version of this package on all workers and triggerers, and remove copies installed on the cluster.
    Clear a task whose stored plan is too old.
    """

    code = "KS802"


class LocalServiceError(KafkaSparkError):
    """A broker or cluster for tests and demos did not start, answer or stop.

    Look at the end of its log in the message.
    """

    code = "KS803"


def error_named(name: str, default: type[KafkaSparkError]) -> type[KafkaSparkError]:
    """The class with this name, or the default. The job sends errors by name."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, KafkaSparkError) else default
