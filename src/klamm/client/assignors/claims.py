"""The previous owners of partitions: the claims of all members, resolved together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.client.assignors.base import ClusterView, Holdings, TopicPartition
from klamm.protocol.consumer_protocol import NO_GENERATION, StickyMemory


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions that members claim to own, and the valid claims."""

    owned: Holdings  # every member; of several claims to a partition the youngest generation counts
    owner: Mapping[TopicPartition, str]  # the same, by partition
    contested: frozenset[TopicPartition]  # two claims of the same generation: it has no owner
    claimants: Mapping[TopicPartition, frozenset[str]]  # all members that claim it
    earlier_owner: Mapping[TopicPartition, str]  # the last one before the youngest generation of the group


def judge_claims(
    cluster: ClusterView, topics: Mapping[str, object], memories: Mapping[str, StickyMemory]
) -> Claims:
    """Find the valid claim to each partition.

    Kafka compares claims pairwise as they arrive, so an old conflict can void a newer claim. Together,
    the order of arrival does not matter. Partitions that no longer exist have no owner.
    """
    youngest = max((_generation(memory) for memory in memories.values()), default=NO_GENERATION)
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member_id in sorted(memories):
        generation = _generation(memories[member_id])
        for partition in dict.fromkeys(memories[member_id].partitions):
            if partition.topic in topics and cluster.has(partition):
                claims.setdefault(partition, []).append((generation, member_id))

    owned: Holdings = {member_id: [] for member_id in memories}
    owner: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    earlier_owner: dict[TopicPartition, str] = {}
    for partition, of_partition in claims.items():
        best = max(generation for generation, _ in of_partition)
        winners = [member_id for generation, member_id in of_partition if generation == best]
        if len(winners) > 1:
            contested.add(partition)
        else:
            owned[winners[0]].append(partition)
            owner[partition] = winners[0]
        earlier = [claim for claim in of_partition if claim[0] < youngest]
        if earlier:
            earlier_owner[partition] = max(earlier, key=lambda claim: claim[0])[1]
    claimants = {
        partition: frozenset(member_id for _, member_id in of_partition)
        for partition, of_partition in claims.items()
    }
    return Claims(owned, owner, frozenset(contested), claimants, earlier_owner)


def _generation(memory: StickyMemory) -> int:
    return NO_GENERATION if memory.generation is None else memory.generation
