"""The catalogue of errors: each class has all that ``explain``, the reference page and other processes need of it."""

from __future__ import annotations

import pickle
import re

import pytest

from airflow_provider_kafka_spark.core.errors import KafkaSparkError
from airflow_provider_kafka_spark.core.errors.catalogue import all_errors, meaning_and_advice

#: A code is in the logs, tickets and runbooks of users: none is changed, removed or used again.
_LISTED = """
KS001 KafkaSparkError KS100 InvalidInputError KS101 OffsetRangeError KS102 BoundError KS103 OptionError
KS104 ExpressionError KS105 AuditInputError KS106 ConnectionConfigError KS107 TargetError KS108 TargetRecreatedError
KS109 ConnectionNotFoundError
KS200 PlanError KS201 PlanTooLargeError KS202 PlanOutdatedError KS203 AlreadyDeliveredError KS204 UnknownTopicError
KS205 ConcurrentRunsError KS206 GroupOffsetsError KS207 TopicRecreatedError KS208 DataLossError
KS209 OpenTransactionError KS300 CheckpointError KS301 CheckpointMissingError KS302 CheckpointInUseError
KS303 CheckpointUnavailableError
KS400 ConsumerGroupError KS401 ConsumerGroupActiveError KS500 BrokerError KS501 BrokerUnavailableError
KS502 BrokerAuthenticationError KS503 BrokerTlsError KS504 BrokerAuthorizationError KS505 DelegationTokenError
KS506 DelegationTokenExpiredError KS507 DelegationTokenNotUsableError KS600 SubmitError KS601 JavaNotFoundError
KS602 JavaStartError KS603 SparkSubmitNotFoundError KS604 SparkVersionError KS605 JarError KS606 ClassArchiveError
KS607 ReportLocationError KS608 JobFolderError KS609 StartNotRecordedError KS610 ClusterUnavailableError
KS700 JobError KS701 JobFailedError KS702 JobReportMissingError KS703 JobReportForgedError KS704 DeliveryError
KS705 AuditFindingError
KS706 DuplicateRecordsError KS707 PausedTooLongError KS708 RunTakenOverError KS709 JobTokenEndedError
KS710 EarlierJobUnknownError KS711 ProgressUnknownError KS712 TransactionEndedError KS713 SourceStalledError
KS714 JobKilledError KS715 SourceDamagedError KS716 JobMemoryError KS717 RepeatedMemoryError KS718 UncopiedRecordsError
KS801 AirflowApiError KS802 ProtocolError KS803 LocalServiceError KS804 RequirementError
"""
#: Of which no class is raised but those below it: their causes would be vague.
_WITHOUT_CAUSES = {"KafkaSparkError", "SubmitError", "JobError"}


def test_no_code_changes() -> None:
    """And none is that of two classes, as of one that has none of its own."""
    assert {error.code: error.__name__ for error in all_errors()} == dict(re.findall(r"(KS\d+) (\w+)", _LISTED))
    assert [error.__name__ for error in all_errors() if "code" not in vars(error)] == []


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_every_error_is_explained(error: type[KafkaSparkError]) -> None:
    assert "__doc__" in vars(error)
    assert all(meaning_and_advice(error))
    assert "causes" in vars(error) or error.__name__ in _WITHOUT_CAUSES
    assert error.checks or error is KafkaSparkError
    # Airflow's processes send exceptions to each other.
    read_back = pickle.loads(pickle.dumps(error("what it is")))  # noqa: S301 - our own bytes
    assert (type(read_back), str(read_back)) == (error, "what it is")
