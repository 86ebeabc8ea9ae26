"""Requests about which broker leads what."""

from __future__ import annotations

from typing import Final

from interop.differential.data_steps import any_version, grouped, targets
from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest

_BAD_REPLICAS: Final[tuple[list[int], ...]] = ([], [1, 1], [9], [-1], [1, 2, 9])


def elect_leaders(world: World) -> Step:
    """Preferred leaders, mostly; all of them if no partition is named."""
    random = world.random
    topics = [TopicPartitions(*item) for item in grouped(world, targets(world)).items()]
    request = ElectLeadersRequest(
        random.choice((0, 0, 0, 0, 0, 1, 2, -1)),
        None if random.random() < 0.3 else topics,
        random.choice((30_000,) * 9 + (0, -1)),
    )
    version = any_version(world, ApiKey.ELECT_LEADERS)
    return Step(ApiKey.ELECT_LEADERS, version, request, changes_cluster=True)


def reassign(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    topics = [
        ReassignableTopic(name, [ReassignablePartition(each, _replicas(world)) for each in partitions])
        for name, partitions in grouped(world, targets(world)).items()
    ]
    timeout_ms = random.choice((30_000,) * 9 + (0, -1))
    request = AlterPartitionReassignmentsRequest(timeout_ms, topics=topics)
    if version >= 1:
        request.allow_replication_factor_change = random.random() < 0.7
    return Step(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request, changes_cluster=True)


def _replicas(world: World) -> list[int] | None:
    random = world.random
    chance = random.random()
    if chance < 0.06:
        return None
    if chance < 0.2:
        return random.choice(_BAD_REPLICAS)
    return random.sample((1, 2, 3), random.choice((1, 1, 2, 3, 3)))


def find_coordinator(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.FIND_COORDINATOR)
    key_type = random.choice((0, 0, 0, 1, 1, 1, 3, -1)) if version >= 1 else 0
    keys = [f"g{random.randrange(40)}" for _ in range(random.choice((1, 1, 2, 3)))]
    request = FindCoordinatorRequest(key_type=key_type)
    if version >= 4:
        request.coordinator_keys = keys
    else:
        request.key = keys[0]
    return Step(ApiKey.FIND_COORDINATOR, version, request, str(keys))
