"""Offsets on their way to a commit, with the topics that they belong to.

A topic that is deleted and created again has the same name and another id. An offset of the old one means
nothing in the new one, so offsets and ids are read together, and committed together where a broker takes ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from klamm.client.committed import Committed
from klamm.client.consumer.state import SubscriptionState
from klamm.net.cluster import Cluster
from klamm.protocol.types import ZERO_ID, TopicPartition


@dataclass(frozen=True, slots=True)
class ToCommit:
    """What one commit carries."""

    offsets: Mapping[TopicPartition, Committed]
    topic_ids: Mapping[TopicPartition, bytes]  # ZERO_ID: not known
    is_explicit: bool = False  # the caller named the offsets

    def __bool__(self) -> bool:
        return bool(self.offsets)

    @property
    def has_all_ids(self) -> bool:
        return ZERO_ID not in self.topic_ids.values()

    def by_topic(self) -> dict[tuple[str, bytes], list[int]]:
        """Partitions by topic name and id."""
        grouped: dict[tuple[str, bytes], list[int]] = {}
        for partition in self.offsets:
            grouped.setdefault((partition.topic, self.topic_ids[partition]), []).append(partition.partition)
        return grouped

    def without(self, partitions: Collection[TopicPartition]) -> ToCommit:
        """The same less some partitions."""
        kept = {key: value for key, value in self.offsets.items() if key not in partitions}
        return replace(self, offsets=kept, topic_ids={key: self.topic_ids[key] for key in kept})


def consumed(state: SubscriptionState, only: Collection[TopicPartition] | None = None) -> ToCommit:
    """The positions of all partitions, or of some. Call it with the state's lock held."""
    offsets: dict[TopicPartition, Committed] = {}
    topic_ids: dict[TopicPartition, bytes] = {}
    for partition, item in state.partitions.items():
        if only is not None and partition not in only:
            continue
        if state.commits_stored:
            if item.stored is None:
                continue
            offsets[partition] = Committed(*item.stored)
        elif item.has_position:
            offsets[partition] = Committed(item.offset, item.leader_epoch)
        else:
            continue
        topic_ids[partition] = item.topic_id
    return ToCommit(offsets, topic_ids)


def named(
    offsets: Mapping[TopicPartition, Committed], state: SubscriptionState, cluster: Cluster
) -> ToCommit:
    """Offsets that the caller named. They are those of records it has read, of the topic as it was then."""
    topic_ids: dict[TopicPartition, bytes] = {}
    with state.lock:
        for partition in offsets:
            item = state.partitions.get(partition)
            topic = cluster.topics.get(partition.topic)
            if item is not None and item.read_topic_id != ZERO_ID:
                topic_ids[partition] = item.read_topic_id
            else:
                topic_ids[partition] = topic.topic_id if topic else ZERO_ID
    return ToCommit(offsets, topic_ids, is_explicit=True)
