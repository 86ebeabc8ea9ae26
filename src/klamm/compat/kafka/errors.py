"""kafka-python's errors: klamm's own classes under its names, so that `except` catches what klamm raises."""

from __future__ import annotations

from klamm import errors
from klamm.config import ConfigError
from klamm.errors import error_class

KafkaError = errors.KlammError
CommitFailedError = errors.CommitFailedError
IllegalArgumentError = ValueError
IllegalStateError = errors.IllegalStateError
KafkaConfigurationError = ConfigError
KafkaConnectionError = errors.DisconnectedError
KafkaProtocolError = errors.ProtocolError
KafkaTimeoutError = errors.KlammTimeoutError
NoOffsetForPartitionError = errors.NoOffsetForPartitionError
LogTruncationError = errors.LogTruncationError
NoBrokersAvailable = errors.NoBrokersError  # of its versions before 3
TransactionAbortedError = errors.TransactionAbortedError
BrokerResponseError = errors.BrokerError
OffsetOutOfRangeError = errors.OffsetOutOfRangeError
MessageSizeTooLargeError = errors.RecordTooLargeError
UnsupportedVersionError = errors.UnsupportedVersionError
IncompatibleBrokerVersion = errors.UnsupportedVersionError
ProducerFencedError = errors.ProducerFencedError

# By the number that a broker answers.
NoError = error_class(0)
UnknownError = error_class(-1)
CorruptRecordError = error_class(2)
CorruptRecordException = error_class(2)
UnknownTopicOrPartitionError = error_class(3)
InvalidFetchRequestError = error_class(4)
LeaderNotAvailableError = error_class(5)
NotLeaderForPartitionError = error_class(6)
RequestTimedOutError = error_class(7)
BrokerNotAvailableError = error_class(8)
ReplicaNotAvailableError = error_class(9)
StaleControllerEpochError = error_class(11)
OffsetMetadataTooLargeError = error_class(12)
NetworkExceptionError = error_class(13)
CoordinatorLoadInProgressError = error_class(14)
CoordinatorNotAvailableError = error_class(15)
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
OutOfOrderSequenceNumberError = error_class(45)
DuplicateSequenceNumberError = error_class(46)
InvalidProducerEpochError = error_class(47)
InvalidTxnStateError = error_class(48)
InvalidProducerIdMappingError = error_class(49)
InvalidTransactionTimeoutError = error_class(50)
ConcurrentTransactionsError = error_class(51)
TransactionCoordinatorFencedError = error_class(52)
TransactionalIdAuthorizationFailedError = error_class(53)
SecurityDisabledError = error_class(54)
OperationNotAttemptedError = error_class(55)
KafkaStorageError = error_class(56)
LogDirNotFoundError = error_class(57)
SaslAuthenticationFailedError = error_class(58)
UnknownProducerIdError = error_class(59)
ReassignmentInProgressError = error_class(60)
DelegationTokenAuthDisabledError = error_class(61)
DelegationTokenNotFoundError = error_class(62)
DelegationTokenOwnerMismatchError = error_class(63)
DelegationTokenRequestNotAllowedError = error_class(64)
DelegationTokenAuthorizationFailedError = error_class(65)
DelegationTokenExpiredError = error_class(66)
InvalidPrincipalTypeError = error_class(67)
NonEmptyGroupError = error_class(68)
GroupIdNotFoundError = error_class(69)
FetchSessionIdNotFoundError = error_class(70)
InvalidFetchSessionEpochError = error_class(71)
ListenerNotFoundError = error_class(72)
TopicDeletionDisabledError = error_class(73)
FencedLeaderEpochError = error_class(74)
UnknownLeaderEpochError = error_class(75)
UnsupportedCompressionTypeError = error_class(76)
StaleBrokerEpochError = error_class(77)
OffsetNotAvailableError = error_class(78)
MemberIdRequiredError = error_class(79)
PreferredLeaderNotAvailableError = error_class(80)
GroupMaxSizeReachedError = error_class(81)
FencedInstanceIdError = error_class(82)
EligibleLeadersNotAvailableError = error_class(83)
ElectionNotNeededError = error_class(84)
NoReassignmentInProgressError = error_class(85)
GroupSubscribedToTopicError = error_class(86)
InvalidRecordError = error_class(87)
UnstableOffsetCommitError = error_class(88)
ThrottlingQuotaExceededError = error_class(89)
ResourceNotFoundError = error_class(91)
DuplicateResourceError = error_class(92)
UnacceptableCredentialError = error_class(93)
InconsistentVoterSetError = error_class(94)
InvalidUpdateVersionError = error_class(95)
FeatureUpdateFailedError = error_class(96)
PrincipalDeserializationFailureError = error_class(97)
SnapshotNotFoundError = error_class(98)
PositionOutOfRangeError = error_class(99)
UnknownTopicIdError = error_class(100)
DuplicateBrokerRegistrationError = error_class(101)
BrokerIdNotRegisteredError = error_class(102)
InconsistentTopicIdError = error_class(103)
InconsistentClusterIdError = error_class(104)
TransactionalIdNotFoundError = error_class(105)
FetchSessionTopicIdError = error_class(106)
IneligibleReplicaError = error_class(107)
NewLeaderElectedError = error_class(108)
OffsetMovedToTieredStorageError = error_class(109)
FencedMemberEpochError = error_class(110)
UnreleasedInstanceIdError = error_class(111)
UnsupportedAssignorError = error_class(112)
StaleMemberEpochError = error_class(113)
MismatchedEndpointTypeError = error_class(114)
UnsupportedEndpointTypeError = error_class(115)
UnknownControllerIdError = error_class(116)
UnknownSubscriptionIdError = error_class(117)
TelemetryTooLargeError = error_class(118)
InvalidRegistrationError = error_class(119)
TransactionAbortableError = error_class(120)
InvalidRecordStateError = error_class(121)
ShareSessionNotFoundError = error_class(122)
InvalidShareSessionEpochError = error_class(123)
FencedStateEpochError = error_class(124)
InvalidVoterKeyError = error_class(125)
DuplicateVoterError = error_class(126)
VoterNotFoundError = error_class(127)

for_code = error_class


# Those below have no counterpart in klamm, which does not raise them.


class RetriableError(KafkaError):
    """Not raised by klamm."""


class InvalidMetadataError(KafkaError):
    """Not raised by klamm."""


class Cancelled(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class CorrelationIdError(KafkaError):
    """Not raised by klamm."""


class InvalidReceiveError(KafkaError):
    """Not raised by klamm."""


class MetadataEmptyBrokerList(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class NodeNotReadyError(KafkaError):
    """Not raised by klamm."""


class UnknownBrokerIdError(KafkaError):
    """Not raised by klamm."""


class QuotaViolationError(KafkaError):
    """Not raised by klamm."""


class StaleMetadata(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class TooManyInFlightRequests(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class UnrecognizedBrokerVersion(KafkaError):  # noqa: N818  # its name there
    """Not raised by klamm."""


class UnsupportedCodecError(KafkaError):
    """Not raised by klamm."""


class AuthorizationError(KafkaError):
    """Not raised by klamm."""
