"""What both group protocols are to the rest of the consumer."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from klamm.client.consumer.group.generation import Generation
from klamm.errors import KlammError
from klamm.net.cluster import Cluster
from klamm.net.tasks import Promise
from klamm.protocol.types import TopicPartition


class GroupMembership(Protocol):
    """Being a member: heartbeats in the background, the limits of silence, and leaving."""

    last_poll_ms: Callable[[], int]
    last_heartbeat_ms: int | None  # answered
    rejoin_cause: str
    overdue: str  # how the poll interval was exceeded, if it was

    @property
    def state(self) -> Enum: ...
    @property
    def generation(self) -> Generation: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def needs_rejoin(self) -> bool:
        """Whether the next poll has to do something about the membership."""
        ...

    @property
    def is_rebalancing(self) -> bool:
        """Whether what is owned may be another member's already."""
        ...

    @property
    def fatal(self) -> KlammError | None:
        """What every poll raises until the consumer unsubscribes."""
        ...

    def request_rejoin(self, cause: str) -> None: ...
    def tick(self, now_ms: int) -> int | None: ...
    def leave(self, reason: str, leaves: bool | None = None) -> Promise[None]:
        """Leave the group; sent once and not repeated. `leaves` overrides what static members do."""
        ...


class Assigning(Protocol):
    """Getting partitions: by joining, or step by step."""

    on_joined: Callable[[], None]

    @property
    def is_running(self) -> bool: ...
    def on_poll(self) -> None:
        """Start what is needed and not under way."""
        ...

    def on_subscription(self) -> None:
        """The subscription may have changed."""
        ...

    def on_metadata(self, cluster: Cluster) -> None: ...
    def abandon(self) -> None:
        """Stop, because the consumer unsubscribes or closes. Responses still to come are ignored."""
        ...


class Fencing(Protocol):
    """Whose commit it is, and what a coordinator means that refuses it."""

    def generation(self) -> Generation:
        """What a commit carries; raises when it could only be refused."""
        ...

    def reader(self) -> Generation | None:
        """What a request for committed offsets carries; raises when the answer would come too late."""
        ...

    def refused(self, code: int, error: KlammError, partition: TopicPartition, sent: Generation) -> None:
        """Raise what the refusal of a commit means, if it is about membership."""
        ...
