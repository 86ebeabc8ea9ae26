"""What the consumer is subscribed to, what it owns, and where it stands in each partition.

Shared by the caller's thread and the client's: every access holds `lock`, for as short as it takes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from klamm.client.errors import IllegalStateError
from klamm.protocol.types import TopicPartition


class SubscriptionType(Enum):
    """How the consumer says what it wants."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    USER_ASSIGNED = "partitions"


class Status(Enum):
    """What a partition's position needs before it can be fetched."""

    INITIALIZING = "initializing"  # the committed offset, or the reset policy
    AWAIT_RESET = "await reset"  # an offset looked up by policy or time
    AWAIT_VALIDATION = "await validation"  # the leader changed: is our offset still in its log?
    FETCHING = "fetching"


@dataclass(slots=True)
class PartitionState:
    """One assigned partition."""

    status: Status = Status.INITIALIZING
    offset: int = -1  # the next record to hand out
    leader_epoch: int = -1  # of the last record handed out
    current_leader_epoch: int = -1  # that our requests carry
    reset_to: int = 0  # timestamp to look up while AWAIT_RESET
    seek_count: int = 0  # a late answer to an older question is dropped
    is_paused: bool = False
    is_pending_revocation: bool = False
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1

    @property
    def is_fetchable(self) -> bool:
        return self.status is Status.FETCHING and not self.is_paused and not self.is_pending_revocation

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        self.status = Status.FETCHING
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.seek_count += 1

    def request_reset(self, timestamp: int) -> None:
        self.status = Status.AWAIT_RESET
        self.reset_to = timestamp
        self.seek_count += 1


class SubscriptionState:
    """The subscription and the assignment; changes are all or nothing."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()  # subscribed to by name, or matched by the pattern
        self.pattern: re.Pattern[str] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.version = 0  # +1 whenever the assignment changes

    @property
    def is_auto(self) -> bool:
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    def check_type(self, wanted: SubscriptionType) -> None:
        """Topics, patterns and partitions exclude each other; nothing has changed when this raises."""
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalStateError(
                f"this consumer is subscribed by {self.type.value}; "
                f"call unsubscribe() before subscribing by {wanted.value}"
            )

    def set_topics(self, topics: Iterable[str]) -> bool:
        """Subscribe by name; whether that is another set than before."""
        wanted = frozenset(topics)
        self.check_type(SubscriptionType.AUTO_TOPICS)
        self.type = SubscriptionType.AUTO_TOPICS
        is_changed = wanted != self.topics
        self.topics = wanted
        return is_changed

    def set_pattern(self, pattern: re.Pattern[str]) -> None:
        self.check_type(SubscriptionType.AUTO_PATTERN)
        self.type = SubscriptionType.AUTO_PATTERN
        self.pattern = pattern

    def match(self, topics: Collection[str]) -> bool:
        """What the pattern matches now; whether that is another set than before."""
        assert self.pattern is not None
        matched = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        is_changed = matched != self.topics
        self.topics = matched
        return is_changed

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        self.check_type(SubscriptionType.USER_ASSIGNED)
        self.type = SubscriptionType.USER_ASSIGNED
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Own exactly these; those owned before keep their position and whether they are paused."""
        before = self.partitions
        self.partitions = {partition: before.get(partition) or PartitionState() for partition in partitions}
        self.version += 1

    def unsubscribe(self) -> None:
        self.type = SubscriptionType.NONE
        self.topics = frozenset()
        self.pattern = None
        self.assign(())

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        """An assigned partition; raises IllegalStateError that names what is assigned."""
        state = self.partitions.get(partition)
        if state is None:
            owned = ", ".join(map(str, sorted(self.partitions))) or "nothing"
            raise IllegalStateError(f"{partition} is not assigned to this consumer; it owns {owned}")
        return state
