"""What the consumer is subscribed to, what it owns, and where it stands in each partition.

Shared by the caller's thread and the client's: every access holds `lock`, for as short as it takes. Only the
caller's thread changes what is assigned.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from klamm.errors import IllegalStateError
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
    current_leader_epoch: int = -1  # that the position was checked against, and that our requests carry
    reset_to: int = 0  # timestamp to look up while AWAIT_RESET
    seek_count: int = 0  # a late answer to an older question is dropped
    is_paused: bool = False
    is_pending_revocation: bool = False
    is_asked: bool = False  # a lookup is under way
    retry_at_ms: int = 0  # no request for it before
    ahead_offset: int = -1  # while a poll hands out all that is buffered: where the next fetch goes on
    asked_offset: int = -1  # of the last fetch
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    read_replica: int = -1  # a follower nearer than the leader, as the leader said
    read_replica_until_ms: int = 0

    @property
    def has_position(self) -> bool:
        return self.status in (Status.FETCHING, Status.AWAIT_VALIDATION)

    @property
    def is_fetchable(self) -> bool:
        return self.status is Status.FETCHING and not self.is_paused and not self.is_pending_revocation

    def seek(self, offset: int, leader_epoch: int = -1, *, current_leader_epoch: int = -1) -> None:
        """Stand at an offset. With an epoch it is checked against the leader's log before it is used."""
        self.status = Status.FETCHING
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.current_leader_epoch = current_leader_epoch
        self._moved()

    def request_reset(self, timestamp: int) -> None:
        """Stand nowhere until an offset was looked up."""
        self.status = Status.AWAIT_RESET
        self.reset_to = timestamp
        self._moved()

    def initialize(self) -> None:
        """Stand nowhere until the committed offset was looked up."""
        self.status = Status.INITIALIZING
        self._moved()

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

    def set_topics(self, topics: Iterable[str]) -> None:
        """Subscribe by name."""
        self.check_type(SubscriptionType.AUTO_TOPICS)
        self.type = SubscriptionType.AUTO_TOPICS
        self.topics = frozenset(topics)

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

    def accepts(self, topic: str) -> bool:
        """Whether a topic that the group gives is one that this consumer asked for."""
        if self.type is SubscriptionType.AUTO_PATTERN:
            return self.pattern is not None and self.pattern.fullmatch(topic) is not None
        return topic in self.topics

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

    def consumed(self) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and leader epoch of every partition that has a position: what a commit takes."""
        return {
            partition: (state.offset, state.leader_epoch)
            for partition, state in self.partitions.items()
            if state.has_position
        }

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        """An assigned partition; raises IllegalStateError that names what is assigned."""
        state = self.partitions.get(partition)
        if state is None:
            owned = ", ".join(map(str, sorted(self.partitions))) or "nothing"
            raise IllegalStateError(f"{partition} is not assigned to this consumer; it owns {owned}")
        return state
