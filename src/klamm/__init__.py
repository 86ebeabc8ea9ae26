"""klamm: a Kafka-protocol broker, client and Spark pipeline in Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from klamm.version import __version__

if TYPE_CHECKING:
    from klamm import aio as aio
    from klamm.broker.embedded import Broker as Broker
    from klamm.client.admin.admin import Admin as Admin
    from klamm.client.admin.model import NewTopic as NewTopic
    from klamm.client.assignors.base import GroupMetadata as GroupMetadata
    from klamm.client.consumer.consumer import Consumer as Consumer
    from klamm.client.consumer.group.listener import RebalanceListener as RebalanceListener
    from klamm.client.consumer.group.listener import StatefulListener as StatefulListener
    from klamm.client.consumer.offsets.positions import Committed as Committed
    from klamm.client.consumer.offsets.stores import FileOffsetStore as FileOffsetStore
    from klamm.client.consumer.offsets.stores import SqliteOffsetStore as SqliteOffsetStore
    from klamm.client.consumer.records import ConsumerRecord as ConsumerRecord
    from klamm.client.consumer.records import Records as Records
    from klamm.client.producer.delivery import RecordMetadata as RecordMetadata
    from klamm.client.producer.producer import Producer as Producer
    from klamm.client.producer.transactions.handover import OpenTransaction as OpenTransaction
    from klamm.client.producer.transactions.handover import PreparedTransaction as PreparedTransaction
    from klamm.client.producer.transactions.loop import run_transaction_loop as run_transaction_loop
    from klamm.config import ConfigError as ConfigError
    from klamm.errors import BrokerError as BrokerError
    from klamm.errors import BufferExhaustedError as BufferExhaustedError
    from klamm.errors import CommitFailedError as CommitFailedError
    from klamm.errors import ConcurrentAccessError as ConcurrentAccessError
    from klamm.errors import DeliveryError as DeliveryError
    from klamm.errors import DisconnectedError as DisconnectedError
    from klamm.errors import FencedInstanceIdError as FencedInstanceIdError
    from klamm.errors import GroupAuthorizationError as GroupAuthorizationError
    from klamm.errors import GroupMaxSizeReachedError as GroupMaxSizeReachedError
    from klamm.errors import IllegalStateError as IllegalStateError
    from klamm.errors import InconsistentGroupProtocolError as InconsistentGroupProtocolError
    from klamm.errors import InvalidGroupIdError as InvalidGroupIdError
    from klamm.errors import InvalidSessionTimeoutError as InvalidSessionTimeoutError
    from klamm.errors import InvalidTransactionTimeoutError as InvalidTransactionTimeoutError
    from klamm.errors import KlammError as KlammError
    from klamm.errors import KlammTimeoutError as KlammTimeoutError
    from klamm.errors import LogTruncationError as LogTruncationError
    from klamm.errors import NoBrokersError as NoBrokersError
    from klamm.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
    from klamm.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from klamm.errors import ProducerFencedError as ProducerFencedError
    from klamm.errors import ProtocolError as ProtocolError
    from klamm.errors import RebalanceInProgressError as RebalanceInProgressError
    from klamm.errors import RebalanceListenerError as RebalanceListenerError
    from klamm.errors import RecordDeserializationError as RecordDeserializationError
    from klamm.errors import RecordTooLargeError as RecordTooLargeError
    from klamm.errors import RetriableCommitFailedError as RetriableCommitFailedError
    from klamm.errors import TopicAuthorizationError as TopicAuthorizationError
    from klamm.errors import TransactionAbortedError as TransactionAbortedError
    from klamm.errors import TransactionalIdAuthorizationError as TransactionalIdAuthorizationError
    from klamm.errors import UnsupportedVersionError as UnsupportedVersionError
    from klamm.errors import WakeupError as WakeupError
    from klamm.protocol.types import TopicPartition as TopicPartition

# Module -> what is to be had from it. Imported when asked for: `import klamm` alone stays cheap.
_OFFERED = {
    "klamm.broker.embedded": ("Broker",),
    "klamm.client.admin.admin": ("Admin",),
    "klamm.client.admin.model": ("NewTopic",),
    "klamm.client.consumer.consumer": ("Consumer",),
    "klamm.client.consumer.group.listener": (
        "RebalanceListener",
        "StatefulListener",
    ),
    "klamm.client.consumer.offsets.stores": (
        "FileOffsetStore",
        "SqliteOffsetStore",
    ),
    "klamm.client.consumer.offsets.positions": ("Committed",),
    "klamm.client.consumer.records": (
        "ConsumerRecord",
        "Records",
    ),
    "klamm.errors": (
        "BrokerError",
        "BufferExhaustedError",
        "CommitFailedError",
        "ConcurrentAccessError",
        "DeliveryError",
        "DisconnectedError",
        "FencedInstanceIdError",
        "GroupAuthorizationError",
        "GroupMaxSizeReachedError",
        "IllegalStateError",
        "InconsistentGroupProtocolError",
        "InvalidGroupIdError",
        "InvalidSessionTimeoutError",
        "InvalidTransactionTimeoutError",
        "KlammError",
        "KlammTimeoutError",
        "LogTruncationError",
        "NoBrokersError",
        "NoOffsetForPartitionError",
        "OffsetOutOfRangeError",
        "ProducerFencedError",
        "ProtocolError",
        "RebalanceInProgressError",
        "RebalanceListenerError",
        "RecordDeserializationError",
        "RecordTooLargeError",
        "RetriableCommitFailedError",
        "TopicAuthorizationError",
        "TransactionAbortedError",
        "TransactionalIdAuthorizationError",
        "UnsupportedVersionError",
        "WakeupError",
    ),
    "klamm.client.producer.delivery": ("RecordMetadata",),
    "klamm.client.producer.producer": ("Producer",),
    "klamm.client.producer.transactions.handover": (
        "OpenTransaction",
        "PreparedTransaction",
    ),
    "klamm.client.producer.transactions.loop": ("run_transaction_loop",),
    "klamm.client.assignors.base": ("GroupMetadata",),
    "klamm.config": ("ConfigError",),
    "klamm.protocol.types": ("TopicPartition",),
}
_HOMES = {name: module for module, names in _OFFERED.items() for name in names}
__all__ = [
    "Admin",
    "Broker",
    "BrokerError",
    "BufferExhaustedError",
    "CommitFailedError",
    "Committed",
    "ConcurrentAccessError",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "DeliveryError",
    "DisconnectedError",
    "FencedInstanceIdError",
    "FileOffsetStore",
    "GroupAuthorizationError",
    "GroupMaxSizeReachedError",
    "GroupMetadata",
    "IllegalStateError",
    "InconsistentGroupProtocolError",
    "InvalidGroupIdError",
    "InvalidSessionTimeoutError",
    "InvalidTransactionTimeoutError",
    "KlammError",
    "KlammTimeoutError",
    "LogTruncationError",
    "NewTopic",
    "NoBrokersError",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
    "OpenTransaction",
    "PreparedTransaction",
    "Producer",
    "ProducerFencedError",
    "ProtocolError",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RebalanceListenerError",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordTooLargeError",
    "Records",
    "RetriableCommitFailedError",
    "SqliteOffsetStore",
    "StatefulListener",
    "TopicAuthorizationError",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionalIdAuthorizationError",
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
