"""aiokafka's errors: klamm's own classes under its names, so that `except` catches what klamm raises."""

from __future__ import annotations

from klamm import errors
from klamm.config import ConfigError
from klamm.errors import error_class

KafkaError = errors.KlammError
IllegalStateError = errors.IllegalStateError
IllegalArgumentError = ValueError
NoBrokersAvailable = errors.NoBrokersError
KafkaProtocolError = errors.ProtocolError
IncompatibleBrokerVersion = errors.UnsupportedVersionError
CommitFailedError = errors.CommitFailedError
KafkaTimeoutError = errors.KlammTimeoutError
KafkaConnectionError = errors.DisconnectedError
KafkaConfigurationError = ConfigError
AuthenticationFailedError = errors.AuthenticationError
AuthenticationMethodNotSupported = errors.AuthenticationError
ConsumerStoppedError = errors.ConsumerStoppedError
IllegalOperation = errors.IllegalStateError
NoOffsetForPartitionError = errors.NoOffsetForPartitionError
RecordTooLargeError = errors.RecordTooLargeError
ProducerClosed = errors.IllegalStateError
ProducerFenced = errors.ProducerFencedError
BrokerResponseError = errors.BrokerError
OffsetOutOfRangeError = errors.OffsetOutOfRangeError
MessageSizeTooLargeError = errors.RecordTooLargeError
UnsupportedVersionError = errors.UnsupportedVersionError

# By the number that a broker answers.
NoError = error_class(0)
UnknownError = error_class(-1)
CorruptRecordException = error_class(2)
InvalidMessageError = error_class(2)
UnknownTopicOrPartitionError = error_class(3)
InvalidFetchRequestError = error_class(4)
LeaderNotAvailableError = error_class(5)
NotLeaderForPartitionError = error_class(6)
RequestTimedOutError = error_class(7)
BrokerNotAvailableError = error_class(8)
ReplicaNotAvailableError = error_class(9)
StaleControllerEpochError = error_class(11)
OffsetMetadataTooLargeError = error_class(12)
StaleLeaderEpochCodeError = error_class(13)
GroupLoadInProgressError = error_class(14)
CoordinatorLoadInProgressError = error_class(14)
GroupCoordinatorNotAvailableError = error_class(15)
CoordinatorNotAvailableError = error_class(15)
NotCoordinatorForGroupError = error_class(16)
NotCoordinatorError = error_class(16)
InvalidTopicError = error_class(17)
RecordListTooLargeError = error_class(18)
NotEnoughReplicasError = error_class(19)
NotEnoughReplicasAfterAppendError = error_class(20)
InvalidRequiredAcksError = error_class(21)
IllegalGenerationError = error_class(22)
InconsistentGroupProtocolError = error_class(23)
InvalidGroupIdError = error_class(24)
UnknownMemberIdError = error_class(25)
InvalidSessionTimeoutError = error_class(26)
RebalanceInProgressError = error_class(27)
InvalidCommitOffsetSizeError = error_class(28)
TopicAuthorizationFailedError = error_class(29)
GroupAuthorizationFailedError = error_class(30)
ClusterAuthorizationFailedError = error_class(31)
InvalidTimestampError = error_class(32)
UnsupportedSaslMechanismError = error_class(33)
IllegalSaslStateError = error_class(34)
TopicAlreadyExistsError = error_class(36)
InvalidPartitionsError = error_class(37)
InvalidReplicationFactorError = error_class(38)
InvalidReplicationAssignmentError = error_class(39)
InvalidConfigurationError = error_class(40)
NotControllerError = error_class(41)
InvalidRequestError = error_class(42)
UnsupportedForMessageFormatError = error_class(43)
PolicyViolationError = error_class(44)
OutOfOrderSequenceNumber = error_class(45)
DuplicateSequenceNumber = error_class(46)
InvalidProducerEpoch = error_class(47)
InvalidTxnState = error_class(48)
InvalidProducerIdMapping = error_class(49)
InvalidTransactionTimeout = error_class(50)
ConcurrentTransactions = error_class(51)
TransactionCoordinatorFenced = error_class(52)
TransactionalIdAuthorizationFailed = error_class(53)
SecurityDisabled = error_class(54)
OperationNotAttempted = error_class(55)
KafkaStorageError = error_class(56)
LogDirNotFound = error_class(57)
SaslAuthenticationFailed = error_class(58)
UnknownProducerId = error_class(59)
ReassignmentInProgress = error_class(60)
DelegationTokenAuthDisabled = error_class(61)
DelegationTokenNotFound = error_class(62)
DelegationTokenOwnerMismatch = error_class(63)
DelegationTokenRequestNotAllowed = error_class(64)
DelegationTokenAuthorizationFailed = error_class(65)
DelegationTokenExpired = error_class(66)
InvalidPrincipalType = error_class(67)
NonEmptyGroup = error_class(68)
GroupIdNotFound = error_class(69)
FetchSessionIdNotFound = error_class(70)
InvalidFetchSessionEpoch = error_class(71)
ListenerNotFound = error_class(72)
MemberIdRequired = error_class(79)

for_code = error_class


# Those below have no counterpart in klamm, which does not raise them.


class NodeNotReadyError(KafkaError):
    """Not raised by klamm."""


class CorrelationIdError(KafkaError):
    """Not raised by klamm."""


class Cancelled(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class TooManyInFlightRequests(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class StaleMetadata(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class MetadataEmptyBrokerList(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class UnrecognizedBrokerVersion(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class KafkaUnavailableError(KafkaError):
    """Not raised by klamm."""


class UnsupportedCodecError(KafkaError):
    """Not raised by klamm."""


class QuotaViolationError(KafkaError):
    """Not raised by klamm."""
