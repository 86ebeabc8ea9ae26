"""Requests about settings, of topics and of brokers."""

from __future__ import annotations

from interop.differential.admin_steps import TOPIC_SETTINGS, any_setting, note_rewriting
from interop.differential.data_steps import any_version
from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages import alter_configs as replacing
from klamm.protocol.messages import incremental_alter_configs as altering
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER = 2, 4
_OWN_SETTINGS = {"node.id"}  # klamm has a default for it
# No unknown ones: Kafka takes any, klamm none, and then the two would differ.
BROKER_SETTINGS = {
    "log.retention.ms": ("604800000", "-1", "x", "0"),
    "log.segment.bytes": ("1048576", "1073741824", "0"),
    "message.max.bytes": ("1048588", "2000000", "-1"),
    "log.cleanup.policy": ("delete", "compact", "soon"),
    "compression.type": ("producer", "soon"),
    "log.flush.interval.messages": ("5", "0"),
    "log.cleaner.backoff.ms": ("15000", "-1"),
    "max.connections": ("100000", "-1"),
    "log.dirs": ("/tmp",),
    "node.id": ("2",),
    "num.partitions": ("3",),
    "auto.create.topics.enable": ("false",),
    "log.message.timestamp.type": ("CreateTime", "x"),
    "leader.replication.throttled.rate": ("1000", "0", "-1", ""),
    "follower.replication.throttled.rate": ("1000", " 7 ", "x"),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("1000", "9223372036854775808"),
}


def any_resource(world: World) -> tuple[int, str]:
    chance = world.random.random()
    if chance < 0.8:
        return TOPIC, world.any_name()
    if chance < 0.98:
        return BROKER, world.random.choice(("", "1", "1", "2", "x", "-1"))
    return world.random.choice((0, 1, 3, 5, 64, 127, -1)), world.random.choice(("", "1", "a"))


def any_resource_setting(world: World, kind: int) -> tuple[str, str | None]:
    if kind != BROKER:
        return any_setting(world)
    name = world.random.choice(sorted(BROKER_SETTINGS))
    return name, world.random.choice((None, *BROKER_SETTINGS[name] * 5))


def describe_configs(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.DESCRIBE_CONFIGS)
    resources = []
    for _ in range(random.choice((1, 1, 2))):
        kind, name = any_resource(world)
        keys: list[str] | None = None
        if random.random() < 0.6 or kind != TOPIC:
            settings = sorted(set(TOPIC_SETTINGS if kind == TOPIC else BROKER_SETTINGS) - _OWN_SETTINGS)
            keys = random.sample(settings, random.randrange(0 if kind == TOPIC else 1, 6))
        resources.append(DescribeConfigsResource(kind, name, keys))
    request = DescribeConfigsRequest(resources, random.random() < 0.5, version >= 3 and random.random() < 0.2)
    return Step(ApiKey.DESCRIBE_CONFIGS, version, request, str([r.resource_name[:20] for r in resources]))


def incremental_alter_configs(world: World) -> Step:
    random = world.random
    resources = []
    for _ in range(random.choice((1, 1, 1, 2))):
        kind, name = any_resource(world)
        changes = []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            setting, value = any_resource_setting(world, kind)
            operation = random.choice((0, 0, 0, 0, 1, 2, 3))
            if operation == 1 and random.random() < 0.7:
                value = None
            note_rewriting(world, name, setting, value)
            changes.append(altering.AlterableConfig(setting, operation, value))
        resources.append(altering.AlterConfigsResource(kind, name, changes))
    if random.random() < 0.03:
        resources.append(resources[0])
    request = altering.IncrementalAlterConfigsRequest(resources, random.random() < 0.2)
    version = any_version(world, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    return Step(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, changes_cluster=True)


def alter_configs(world: World) -> Step:
    random = world.random
    resources = []
    for _ in range(random.choice((1, 1, 1, 2))):
        kind, name = any_resource(world)
        entries = []
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            setting, value = any_resource_setting(world, kind)
            note_rewriting(world, name, setting, value)
            entries.append(replacing.AlterableConfig(setting, value))
        if (kind, name) == (BROKER, ""):
            entries.append(replacing.AlterableConfig("min.insync.replicas", "1"))
        resources.append(replacing.AlterConfigsResource(kind, name, entries))
    # A resource named twice leaves Kafka silent for ever.
    resources = list({(each.resource_type, each.resource_name): each for each in resources}.values())
    request = replacing.AlterConfigsRequest(resources, random.random() < 0.2)
    version = any_version(world, ApiKey.ALTER_CONFIGS)
    return Step(ApiKey.ALTER_CONFIGS, version, request, changes_cluster=True)
