"""klamm: a Kafka-protocol broker, client and Spark pipeline in Python."""

from __future__ import annotations

import os
from importlib import import_module

if os.environ.get("KLAMM_PURE") == "1":
    from klamm.source_only import import_source_only

    import_source_only(__path__)

from klamm.version import __version__

TYPE_CHECKING = False  # type checkers know the name; importing typing would take longer than all the rest

if TYPE_CHECKING:
    from klamm import aio as aio
    from klamm.access.acls import Acl as Acl
    from klamm.access.acls import AclFilter as AclFilter
    from klamm.access.acls import AclOperation as AclOperation
    from klamm.access.acls import PatternType as PatternType
    from klamm.access.acls import PermissionType as PermissionType
    from klamm.access.acls import ResourceType as ResourceType
    from klamm.assignors.base import GroupMetadata as GroupMetadata
    from klamm.broker.embedded import Broker as Broker
    from klamm.client.admin.access_model import QuotaEntity as QuotaEntity
    from klamm.client.admin.access_model import ScramMechanism as ScramMechanism
    from klamm.client.admin.admin import Admin as Admin
    from klamm.client.admin.model import AlterOp as AlterOp
    from klamm.client.admin.model import BrokerDescription as BrokerDescription
    from klamm.client.admin.model import ClusterDescription as ClusterDescription
    from klamm.client.admin.model import ConfigEntry as ConfigEntry
    from klamm.client.admin.model import CreatedTopic as CreatedTopic
    from klamm.client.admin.model import ElectionType as ElectionType
    from klamm.client.admin.model import FeatureDescription as FeatureDescription
    from klamm.client.admin.model import GroupDescription as GroupDescription
    from klamm.client.admin.model import HangingTransaction as HangingTransaction
    from klamm.client.admin.model import ListedGroup as ListedGroup
    from klamm.client.admin.model import ListedOffset as ListedOffset
    from klamm.client.admin.model import ListedTransaction as ListedTransaction
    from klamm.client.admin.model import LogDirDescription as LogDirDescription
    from klamm.client.admin.model import MemberDescription as MemberDescription
    from klamm.client.admin.model import NewTopic as NewTopic
    from klamm.client.admin.model import PartitionDescription as PartitionDescription
    from klamm.client.admin.model import ProducerDescription as ProducerDescription
    from klamm.client.admin.model import ProducerIdentity as ProducerIdentity
    from klamm.client.admin.model import Reassignment as Reassignment
    from klamm.client.admin.model import Resource as Resource
    from klamm.client.admin.model import TopicDescription as TopicDescription
    from klamm.client.admin.model import TransactionDescription as TransactionDescription
    from klamm.client.admin.results import Results as Results
    from klamm.client.committed import Committed as Committed
    from klamm.client.committed import CommittedOffset as CommittedOffset
    from klamm.client.committed import OffsetAndMetadata as OffsetAndMetadata
    from klamm.client.consumer.consumer import Consumer as Consumer
    from klamm.client.consumer.group.listener import RebalanceListener as RebalanceListener
    from klamm.client.consumer.group.listener import StatefulListener as StatefulListener
    from klamm.client.consumer.offsets.stores import FileOffsetStore as FileOffsetStore
    from klamm.client.consumer.offsets.stores import SqliteOffsetStore as SqliteOffsetStore
    from klamm.client.consumer.records import ConsumerRecord as ConsumerRecord
    from klamm.client.consumer.records import Records as Records
    from klamm.client.consumer.state import SubscriptionPattern as SubscriptionPattern
    from klamm.client.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from klamm.client.interceptors import ProducerInterceptor as ProducerInterceptor
    from klamm.client.interceptors import ProducerRecord as ProducerRecord
    from klamm.client.message import Message as Message
    from klamm.client.producer.delivery import Delivery as Delivery
    from klamm.client.producer.delivery import RecordMetadata as RecordMetadata
    from klamm.client.producer.producer import Producer as Producer
    from klamm.client.producer.transactions.handover import OpenTransaction as OpenTransaction
    from klamm.client.producer.transactions.handover import PreparedTransaction as PreparedTransaction
    from klamm.client.producer.transactions.loop import run_transaction_loop as run_transaction_loop
    from klamm.client.serializers import Serde as Serde
    from klamm.config import ConfigError as ConfigError
    from klamm.errors import AuthenticationError as AuthenticationError
    from klamm.errors import BrokerError as BrokerError
    from klamm.errors import BufferExhaustedError as BufferExhaustedError
    from klamm.errors import CommitFailedError as CommitFailedError
    from klamm.errors import ConcurrentAccessError as ConcurrentAccessError
    from klamm.errors import ConsumerStoppedError as ConsumerStoppedError
    from klamm.errors import DeliveryError as DeliveryError
    from klamm.errors import DisconnectedError as DisconnectedError
    from klamm.errors import FencedInstanceIdError as FencedInstanceIdError
    from klamm.errors import GroupAuthorizationError as GroupAuthorizationError
    from klamm.errors import GroupIdNotFoundError as GroupIdNotFoundError
    from klamm.errors import GroupMaxSizeReachedError as GroupMaxSizeReachedError
    from klamm.errors import GroupNotEmptyError as GroupNotEmptyError
    from klamm.errors import IllegalStateError as IllegalStateError
    from klamm.errors import InconsistentGroupProtocolError as InconsistentGroupProtocolError
    from klamm.errors import InvalidGroupIdError as InvalidGroupIdError
    from klamm.errors import InvalidSessionTimeoutError as InvalidSessionTimeoutError
    from klamm.errors import InvalidTopicError as InvalidTopicError
    from klamm.errors import InvalidTransactionTimeoutError as InvalidTransactionTimeoutError
    from klamm.errors import KlammError as KlammError
    from klamm.errors import KlammTimeoutError as KlammTimeoutError
    from klamm.errors import LogTruncationError as LogTruncationError
    from klamm.errors import NoBrokersError as NoBrokersError
    from klamm.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
    from klamm.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from klamm.errors import ProducerFencedError as ProducerFencedError
    from klamm.errors import ProtocolError as ProtocolError
    from klamm.errors import PurgedError as PurgedError
    from klamm.errors import RebalanceInProgressError as RebalanceInProgressError
    from klamm.errors import RebalanceListenerError as RebalanceListenerError
    from klamm.errors import RecordDeserializationError as RecordDeserializationError
    from klamm.errors import RecordTooLargeError as RecordTooLargeError
    from klamm.errors import RetriableCommitFailedError as RetriableCommitFailedError
    from klamm.errors import SaslAuthenticationError as SaslAuthenticationError
    from klamm.errors import SslAuthenticationError as SslAuthenticationError
    from klamm.errors import TopicAlreadyExistsError as TopicAlreadyExistsError
    from klamm.errors import TopicAuthorizationError as TopicAuthorizationError
    from klamm.errors import TransactionAbortedError as TransactionAbortedError
    from klamm.errors import TransactionalIdAuthorizationError as TransactionalIdAuthorizationError
    from klamm.errors import UnknownTopicError as UnknownTopicError
    from klamm.errors import UnknownTopicOrPartitionError as UnknownTopicOrPartitionError
    from klamm.errors import UnsupportedVersionError as UnsupportedVersionError
    from klamm.errors import WakeupError as WakeupError
    from klamm.protocol.types import TopicPartition as TopicPartition

# Module -> its public names. Imported on first use: `import klamm` alone stays fast.
_OFFERED = {
    "klamm.access.acls": (
        "Acl",
        "AclFilter",
        "AclOperation",
        "PatternType",
        "PermissionType",
        "ResourceType",
    ),
    "klamm.client.admin.access_model": (
        "QuotaEntity",
        "ScramMechanism",
    ),
    "klamm.broker.embedded": ("Broker",),
    "klamm.client.admin.admin": ("Admin",),
    "klamm.client.admin.model": (
        "AlterOp",
        "BrokerDescription",
        "ClusterDescription",
        "ConfigEntry",
        "CreatedTopic",
        "ElectionType",
        "FeatureDescription",
        "GroupDescription",
        "HangingTransaction",
        "ListedGroup",
        "ListedOffset",
        "ListedTransaction",
        "LogDirDescription",
        "MemberDescription",
        "Message",
        "NewTopic",
        "PartitionDescription",
        "ProducerDescription",
        "ProducerIdentity",
        "Reassignment",
        "Resource",
        "TopicDescription",
        "TransactionDescription",
    ),
    "klamm.client.admin.results": ("Results",),
    "klamm.client.consumer.consumer": ("Consumer",),
    "klamm.client.consumer.group.listener": (
        "RebalanceListener",
        "StatefulListener",
    ),
    "klamm.client.consumer.offsets.stores": (
        "FileOffsetStore",
        "SqliteOffsetStore",
    ),
    "klamm.client.committed": (
        "Committed",
        "CommittedOffset",
        "OffsetAndMetadata",
    ),
    "klamm.client.consumer.records": (
        "ConsumerRecord",
        "ConsumerStoppedError",
        "Records",
    ),
    "klamm.errors": (
        "AuthenticationError",
        "BrokerError",
        "BufferExhaustedError",
        "CommitFailedError",
        "ConcurrentAccessError",
        "ConsumerStoppedError",
        "DeliveryError",
        "DisconnectedError",
        "FencedInstanceIdError",
        "GroupAuthorizationError",
        "GroupIdNotFoundError",
        "GroupMaxSizeReachedError",
        "GroupNotEmptyError",
        "IllegalStateError",
        "InconsistentGroupProtocolError",
        "InvalidGroupIdError",
        "InvalidSessionTimeoutError",
        "InvalidTopicError",
        "InvalidTransactionTimeoutError",
        "KlammError",
        "KlammTimeoutError",
        "LogTruncationError",
        "NoBrokersError",
        "NoOffsetForPartitionError",
        "OffsetOutOfRangeError",
        "ProducerFencedError",
        "ProtocolError",
        "PurgedError",
        "RebalanceInProgressError",
        "RebalanceListenerError",
        "RecordDeserializationError",
        "RecordTooLargeError",
        "RetriableCommitFailedError",
        "SaslAuthenticationError",
        "SslAuthenticationError",
        "TopicAlreadyExistsError",
        "TopicAuthorizationError",
        "TransactionAbortedError",
        "TransactionalIdAuthorizationError",
        "UnknownTopicError",
        "UnknownTopicOrPartitionError",
        "UnsupportedVersionError",
        "WakeupError",
    ),
    "klamm.client.consumer.state": ("SubscriptionPattern",),
    "klamm.client.interceptors": (
        "ConsumerInterceptor",
        "ProducerInterceptor",
        "ProducerRecord",
    ),
    "klamm.client.message": ("Message",),
    "klamm.client.serializers": ("Serde",),
    "klamm.client.producer.delivery": (
        "Delivery",
        "RecordMetadata",
    ),
    "klamm.client.producer.producer": ("Producer",),
    "klamm.client.producer.transactions.handover": (
        "OpenTransaction",
        "PreparedTransaction",
    ),
    "klamm.client.producer.transactions.loop": ("run_transaction_loop",),
    "klamm.assignors.base": ("GroupMetadata",),
    "klamm.config": ("ConfigError",),
    "klamm.protocol.types": ("TopicPartition",),
}
_HOMES = {name: module for module, names in _OFFERED.items() for name in names}
__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "Admin",
    "AlterOp",
    "AuthenticationError",
    "Broker",
    "BrokerDescription",
    "BrokerError",
    "BufferExhaustedError",
    "ClusterDescription",
    "CommitFailedError",
    "Committed",
    "CommittedOffset",
    "ConcurrentAccessError",
    "ConfigEntry",
    "ConfigError",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreatedTopic",
    "Delivery",
    "DeliveryError",
    "DisconnectedError",
    "ElectionType",
    "FeatureDescription",
    "FencedInstanceIdError",
    "FileOffsetStore",
    "GroupAuthorizationError",
    "GroupDescription",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "GroupMetadata",
    "GroupNotEmptyError",
    "HangingTransaction",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidGroupIdError",
    "InvalidSessionTimeoutError",
    "InvalidTopicError",
    "InvalidTransactionTimeoutError",
    "KlammError",
    "KlammTimeoutError",
    "ListedGroup",
    "ListedOffset",
    "ListedTransaction",
    "LogDirDescription",
    "LogTruncationError",
    "MemberDescription",
    "NewTopic",
    "NoBrokersError",
    "NoOffsetForPartitionError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OpenTransaction",
    "PartitionDescription",
    "PatternType",
    "PermissionType",
    "PreparedTransaction",
    "Producer",
    "ProducerDescription",
    "ProducerFencedError",
    "ProducerIdentity",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProtocolError",
    "PurgedError",
    "QuotaEntity",
    "Reassignment",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RebalanceListenerError",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordTooLargeError",
    "Records",
    "Resource",
    "ResourceType",
    "Results",
    "RetriableCommitFailedError",
    "SaslAuthenticationError",
    "ScramMechanism",
    "Serde",
    "SqliteOffsetStore",
    "SslAuthenticationError",
    "StatefulListener",
    "SubscriptionPattern",
    "TopicAlreadyExistsError",
    "TopicAuthorizationError",
    "TopicDescription",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionDescription",
    "TransactionalIdAuthorizationError",
    "UnknownTopicError",
    "UnknownTopicOrPartitionError",
    "UnsupportedVersionError",
    "WakeupError",
    "__version__",
    "aio",
    "run_transaction_loop",
]


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("klamm.aio")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'klamm' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
