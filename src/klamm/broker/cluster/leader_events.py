"""Moves of leadership as events in `__klamm_events`: each broker writes those of partitions that it gains."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from klamm.broker.cluster.topic_names import EVENTS_TOPIC

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.storage.cluster import BrokerRegistration, ClusterChanges


class LeaderEventCause(StrEnum):
    """Why a partition has another leader."""

    HANDED_OVER = "its leader handed it over"
    LEADER_GONE = "its leader stopped or died"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanged:
    """A partition has another leader."""

    type: ClassVar[str] = "leader_changed"

    topic: str
    partition: int
    timestamp_ms: int
    cause: LeaderEventCause
    former_leader: int
    leader: int
    leader_epoch: int

    @property
    def key(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_warning(self) -> bool:
        return False  # a death is logged once, not for each partition

    def as_json(self) -> dict[str, object]:
        values: dict[str, object] = {"type": self.type}
        for each in fields(LeaderChanged):
            value = getattr(self, each.name)
            values[each.name] = str(value) if isinstance(value, LeaderEventCause) else value
        return values

    def line(self) -> str:
        return (
            f"{self.key}: broker {self.leader} is the leader at epoch {self.leader_epoch}, "
            f"was broker {self.former_leader}: {self.cause}"
        )


class LeaderEvents:
    """Writes an event for each partition that this broker takes from another, and counts them by cause."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.counts: Counter[LeaderEventCause] = Counter()
        self._gained: list[tuple[Partition, BrokerRegistration | None, int]] = []  # with its former leader
        services.partitions.opening_watchers.append(self._opened)
        services.follower.change_watchers.append(self._applied)

    def _opened(self, partition: Partition) -> None:
        # A partition is opened before the image shows its new leader.
        image = self._services.image
        topic, state = image.topic(partition.topic), image.partition(*partition.name)
        if topic is None or state is None or state.leader_id in (-1, image.broker_id):
            return
        if topic.topic_id != partition.topic_id:
            return  # deleted and created again: not a move
        if partition.topic != EVENTS_TOPIC:  # whose move would cause a record in it
            self._gained.append((partition, image.brokers.get(state.leader_id), state.leader_id))

    def _applied(self, _: ClusterChanges) -> None:
        """The image shows what became of the former leaders. Opening many partitions takes several turns."""
        gained, self._gained = self._gained, []
        for each in gained:
            self._tell(*each)

    def _tell(self, partition: Partition, former: BrokerRegistration | None, former_id: int) -> None:
        services = self._services
        now = services.image.brokers.get(former_id)
        # One that was declared dead may have registered again by now.
        is_gone = former is None or now is None or now.is_fenced or now.epoch != former.epoch
        cause = LeaderEventCause.LEADER_GONE if is_gone else LeaderEventCause.HANDED_OVER
        self.counts[cause] += 1
        services.events.tell(
            LeaderChanged(
                topic=partition.topic,
                partition=partition.partition,
                timestamp_ms=services.clock.timestamp_ms(),
                cause=cause,
                former_leader=former_id,
                leader=services.image.broker_id,
                leader_epoch=partition.leader_epoch,
            )
        )
