"""The consumer's subscription, assignment and positions.

Shared by the caller's thread and the client's: every access holds `lock` briefly. Only the
caller's thread changes what is assigned.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from klamm.errors import IllegalStateError
from klamm.protocol.types import ZERO_ID, TopicPartition


class SubscriptionType(Enum):
    """How the consumer subscribes."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    BROKER_PATTERN = "a pattern of the broker"
    USER_ASSIGNED = "partitions"


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the group coordinator matches with the names of topics, as in Java.

    Its syntax is RE2's, and it has to match whole names. It needs group.protocol=consumer.
    """

    pattern: str


class PositionStatus(Enum):
    """What a partition's position needs before it can be fetched."""

    INITIALIZING = "initializing"  # the committed offset, or the reset policy
    AWAIT_RESET = "await reset"  # an offset looked up by policy or time
    AWAIT_VALIDATION = "await validation"  # the leader changed: is our offset still in its log?
    FETCHING = "fetching"


@dataclass(slots=True)
class PartitionState:
    """One assigned partition."""

    status: PositionStatus = PositionStatus.INITIALIZING
    offset: int = -1  # the next record to return
    leader_epoch: int = -1  # of the last record returned
    current_leader_epoch: int = -1  # that the position was checked against, and that our requests carry
    reset_to: int = 0  # timestamp to look up while AWAIT_RESET
    seek_count: int = 0  # a late answer to an older question is dropped
    is_paused: bool = False
    is_pending_revocation: bool = False
    is_asked: bool = False  # a lookup is under way
    retry_at_ms: int = 0  # no request for it before
    stored: tuple[int, int] | None = None  # offset and epoch that `store_offsets` marked for the next commit
    topic_id: bytes = ZERO_ID  # of the topic that the position belongs to; ZERO_ID: not known yet
    read_topic_id: bytes = ZERO_ID  # of the topic that the last records handed out came from
    ahead_offset: int = -1  # while a poll returns all buffered records: the offset of the next fetch
    asked_offset: int = -1  # of the last fetch
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    read_replica: int = -1  # the preferred read replica that the leader named
    read_replica_until_ms: int = 0

    @property
    def has_position(self) -> bool:
        return self.status in (PositionStatus.FETCHING, PositionStatus.AWAIT_VALIDATION)

    @property
    def is_fetchable(self) -> bool:
        return (
            self.status is PositionStatus.FETCHING and not self.is_paused and not self.is_pending_revocation
        )

    def seek(self, offset: int, leader_epoch: int = -1, *, current_leader_epoch: int = -1) -> None:
        """Set the position. With an epoch it is validated against the leader's log before it is used."""
        self.status = PositionStatus.FETCHING
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.current_leader_epoch = current_leader_epoch
        self._moved()

    def request_reset(self, timestamp: int) -> None:
        """Reset the position by an offset lookup."""
        self.status = PositionStatus.AWAIT_RESET
        self.reset_to = timestamp
        self._moved()

    def initialize(self) -> None:
        """Set the position to the committed offset, which must be looked up."""
        self.status = PositionStatus.INITIALIZING
        self._moved()

    def forget_log(self, topic_id: bytes) -> None:
        """Another topic has the name now: what is known of the old one's log does not hold."""
        self.topic_id = topic_id
        self.stored = None
        self.leader_epoch = -1
        self.current_leader_epoch = -1
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def _moved(self) -> None:
        self.seek_count += 1
        self.is_asked = False
        self.retry_at_ms = 0
        self.ahead_offset = -1
        self.asked_offset = -1
        self.read_replica = -1


class SubscriptionState:
    """The subscription and the assignment; changes are all or nothing."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()  # subscribed to by name, or matched by the pattern
        self.pattern: re.Pattern[str] | None = None
        self.broker_pattern: str | None = None  # matched by the coordinator
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.commits_stored = False  # commits take what `store_offsets` marked, not positions
        self.version = 0  # +1 whenever the assignment changes

    @property
    def is_auto(self) -> bool:
        return self.type is not SubscriptionType.NONE and self.type is not SubscriptionType.USER_ASSIGNED

    def check_type(self, wanted: SubscriptionType) -> None:
        """Topics, patterns and partitions exclude each other; nothing has changed when this raises."""
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalStateError(
                f"this consumer is subscribed by {self.type.value}; "
                f"call unsubscribe() before subscribing by {wanted.value}"
            )

    def set_topics(self, topics: Iterable[str]) -> None:
        """Subscribe by name."""
        self.check_type(SubscriptionType.AUTO_TOPICS)
        self.type = SubscriptionType.AUTO_TOPICS
        self.topics = frozenset(topics)

    def set_pattern(self, pattern: re.Pattern[str]) -> None:
        self.check_type(SubscriptionType.AUTO_PATTERN)
        self.type = SubscriptionType.AUTO_PATTERN
        self.pattern = pattern

    def set_broker_pattern(self, pattern: str) -> None:
        """Subscribe by a pattern that the coordinator matches."""
        self.check_type(SubscriptionType.BROKER_PATTERN)
        self.type = SubscriptionType.BROKER_PATTERN
        self.broker_pattern = pattern

    def match(self, topics: Collection[str]) -> bool:
        """What the pattern matches now; whether that is another set than before."""
        assert self.pattern is not None
        matched = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        is_changed = matched != self.topics
        self.topics = matched
        return is_changed

    def accepts(self, topic: str) -> bool:
        """Whether an assigned topic is one that this consumer subscribed to."""
        if self.type is SubscriptionType.AUTO_PATTERN:
            return self.pattern is not None and self.pattern.fullmatch(topic) is not None
        return topic in self.topics

    def wants(self, topic: str) -> bool:
        """Whether the caller has named a topic, to subscribe or in a partition."""
        with self.lock:
            return topic in self.topics or any(item.topic == topic for item in self.partitions)

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        self.check_type(SubscriptionType.USER_ASSIGNED)
        self.type = SubscriptionType.USER_ASSIGNED
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their position and paused flag."""
        before = self.partitions
        self.partitions = {partition: before.get(partition) or PartitionState() for partition in partitions}
        self.version += 1

    def unsubscribe(self) -> None:
        self.type = SubscriptionType.NONE
        self.topics = frozenset()
        self.pattern = self.broker_pattern = None
        self.assign(())

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        """An assigned partition; raises IllegalStateError that names what is assigned."""
        state = self.partitions.get(partition)
        if state is None:
            owned = ", ".join(map(str, sorted(self.partitions))) or "nothing"
            raise IllegalStateError(f"{partition} is not assigned to this consumer; it owns {owned}")
        return state
