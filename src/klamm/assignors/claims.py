"""The previous owners of partitions: the claims of all members, resolved together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.assignors.base import ClusterView, Holdings, TopicPartition
from klamm.protocol.consumer_protocol import NO_GENERATION, StickyMemory


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions that members claim to own, and the valid claims."""

    owned: Holdings  # every member; of several claims to a partition the youngest generation counts
    owner: Mapping[TopicPartition, str]  # the same, by partition
    contested: frozenset[TopicPartition]  # two claims of the same generation: it has no owner
    claims: Mapping[TopicPartition, list[tuple[int, str]]]  # all: the generation, and the member
    youngest: int  # generation of the group

    def claimants(self) -> dict[TopicPartition, frozenset[str]]:
        """All members that claim a partition."""
        return {
            partition: frozenset(member_id for _, member_id in of_partition)
            for partition, of_partition in self.claims.items()
        }

    def earlier_owners(self) -> dict[TopicPartition, str]:
        """The last owner of each partition before the youngest generation of the group."""
        found: dict[TopicPartition, str] = {}
        for partition, of_partition in self.claims.items():
            earlier = [claim for claim in of_partition if claim[0] < self.youngest]
            if earlier:
                found[partition] = max(earlier, key=lambda claim: claim[0])[1]
        return found


def judge_claims(
    cluster: ClusterView, topics: Mapping[str, object], memories: Mapping[str, StickyMemory]
) -> Claims:
    """Find the valid claim to each partition.

    Kafka compares claims pairwise as they arrive, so an old conflict can void a newer claim. Together,
    the order of arrival does not matter. Partitions that no longer exist have no owner.
    """
    youngest = NO_GENERATION
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    counts = {topic: cluster.partition_count(topic) for topic in topics}
    for member_id in sorted(memories):
        memory = memories[member_id]
        generation = NO_GENERATION if memory.generation is None else memory.generation
        youngest = max(youngest, generation)
        for partition in dict.fromkeys(memory.partitions):
            topic, number = partition
            if 0 <= number < counts.get(topic, 0):
                claims.setdefault(partition, []).append((generation, member_id))

    owned: Holdings = {member_id: [] for member_id in memories}
    owner: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    for partition, of_partition in claims.items():
        winner = of_partition[0][1]
        if len(of_partition) > 1:
            best = max(generation for generation, _ in of_partition)
            winners = [member_id for generation, member_id in of_partition if generation == best]
            if len(winners) > 1:
                contested.add(partition)
                continue
            winner = winners[0]
        owned[winner].append(partition)
        owner[partition] = winner
    return Claims(owned, owner, frozenset(contested), claims, youngest)
