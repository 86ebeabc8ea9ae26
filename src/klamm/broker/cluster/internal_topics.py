"""Internal topics, and the coordinators that keep their state in them.

A coordinator is a row of `COORDINATORS`: its topic, its key type in FindCoordinator, the name under which
`Services` has it, and the class that runs it where a partition of its topic is led, which is imported when
it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.config import as_text

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig

EVENTS_SEGMENT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The shape and configuration of an internal topic."""

    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CoordinatorRow:
    """One coordinator."""

    name: str  # in `Services` and in routes
    topic: str  # whose leaders are the coordinators
    key_type: int  # in FindCoordinator
    host: str  # module and class, made with the services
    shape: Callable[[BrokerConfig], InternalTopic]  # of the topic


def _offsets_shape(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": as_text(config.offsets_topic_segment_bytes),
        },
    )


def _transactions_shape(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": as_text(config.transaction_state_log_min_isr),
            "segment.bytes": as_text(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def _events_shape(config: BrokerConfig) -> InternalTopic:
    # One partition keeps the events of a broker in order.
    return InternalTopic(
        1,
        config.default_replication_factor,
        {"cleanup.policy": "delete", "segment.bytes": as_text(EVENTS_SEGMENT_BYTES)},
    )


GROUPS: Final = CoordinatorRow(
    "groups", OFFSETS_TOPIC, 0, "klamm.broker.coordinators.groups:Groups", _offsets_shape
)
TRANSACTIONS: Final = CoordinatorRow(
    "transactions",
    TRANSACTIONS_TOPIC,
    1,
    "klamm.broker.coordinators.transactions:Transactions",
    _transactions_shape,
)
# One that ends requests of others comes after them: they are stopped in reverse.
COORDINATORS: Final = (GROUPS, TRANSACTIONS)
BY_NAME: Final[Mapping[str, CoordinatorRow]] = {row.name: row for row in COORDINATORS}
BY_TOPIC: Final[Mapping[str, CoordinatorRow]] = {row.topic: row for row in COORDINATORS}
BY_KEY_TYPE: Final[Mapping[int, CoordinatorRow]] = {row.key_type: row for row in COORDINATORS}


def internal_topic(name: str, config: BrokerConfig) -> InternalTopic:
    """The shape of an internal topic on a broker with this configuration."""
    row = BY_TOPIC.get(name)
    return _events_shape(config) if row is None else row.shape(config)
