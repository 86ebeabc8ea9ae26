"""Requests that clients seldom send: moves on a single broker, features, loggers."""

from __future__ import annotations

from typing import Final

from interop.differential.data_steps import any_version, grouped, targets
from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages import incremental_alter_configs as altering
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

_REPLICAS: Final[tuple[list[int] | None, ...]] = ([1], [1], [1], None, [], [2], [1, 1], [1, 2], [-1], [2, 1])
_LOGGERS = 8


def reassign(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    wanted = targets(world)
    if random.random() < 0.1:
        wanted += wanted[:1]
    topics = [
        ReassignableTopic(
            name, [ReassignablePartition(each, random.choice(_REPLICAS)) for each in partitions]
        )
        for name, partitions in grouped(world, wanted).items()
    ]
    if random.random() < 0.1:
        topics += topics[:1]
    request = AlterPartitionReassignmentsRequest(30_000, topics=topics if random.random() < 0.95 else [])
    if version >= 1:
        request.allow_replication_factor_change = random.random() < 0.7
    return Step(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request, changes_cluster=True)


def update_features(world: World) -> Step:
    """Levels of features, which stay as they are: the requests only ask, or are refused."""
    random = world.random
    version = random.choice((1, 2))
    updates = [
        FeatureUpdateKey(
            random.choice(("transaction.version",) * 4 + ("no.such.feature", "")),
            random.choice((0, 1, 2, 2, 3, -1, 2**15 - 1)),
            random.choice((1, 1, 2, 3, 0, 4, -1)),
        )
        for _ in range(random.choice((0, 1, 1, 1, 2)))
    ]
    request = UpdateFeaturesRequest(30_000, updates, validate_only=True)
    return Step(ApiKey.UPDATE_FEATURES, version, request, str(updates))


def loggers(world: World) -> Step:
    """Levels of loggers that neither has: those that they have are their own."""
    random = world.random
    name = random.choice(("", "x", "2", "1"))
    keys = ["no.such.logger"]
    if random.random() < 0.5:
        asked = DescribeConfigsRequest([DescribeConfigsResource(_LOGGERS, name, keys)])
        return Step(ApiKey.DESCRIBE_CONFIGS, any_version(world, ApiKey.DESCRIBE_CONFIGS), asked)
    change = altering.AlterableConfig(
        keys[0], random.choice((0, 0, 1, 2)), random.choice(("INFO", "x", None))
    )
    resource = altering.AlterConfigsResource(_LOGGERS, name, [change])
    request = altering.IncrementalAlterConfigsRequest([resource])
    return Step(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, f"loggers of {name!r}")
