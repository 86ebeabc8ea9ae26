"""Requests about settings, of topics and of brokers."""

from __future__ import annotations

from interop.differential.admin_steps import TOPIC_SETTINGS, any_setting, note_rewriting
from interop.differential.data_steps import any_version
from interop.differential.sides import RESOURCES
from interop.differential.world import Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages import alter_configs as replacing
from klamm.protocol.messages import incremental_alter_configs as altering
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
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


GROUP_SETTINGS = {
    "consumer.session.timeout.ms": ("45000", "60000", "44999", "60001", "x"),
    "consumer.heartbeat.interval.ms": ("5000", " 6000", "4999", ""),
    "consumer.assignment.interval.ms": ("0", "15000", "-1"),
    "share.auto.offset.reset": ("earliest", "by_duration:PT1H", "by_duration:", "none"),
    "share.isolation.level": ("read_committed", "READ_COMMITTED"),
    "share.renew.acknowledge.enable": ("TRUE", "yes"),
    "share.delivery.count.limit": ("2", "1", "11"),
    "share.partition.max.record.locks": ("100", "4001"),
    "streams.num.standby.replicas": ("2", "3"),
    "no.such.setting": ("1",),
}
METRICS_SETTINGS = {
    "interval.ms": ("100", "3600000", "99", "3600001", "x"),
    "metrics": ("", "*", "a, b,a", "a,,b", ","),
    "match": ("client_id=.*", "client_id=[", "client_id", " client_id = a ", "x=y", "client_id=a=b"),
    "no.such.setting": ("1",),
}
_SETTINGS = {BROKER: BROKER_SETTINGS, CLIENT_METRICS: METRICS_SETTINGS, GROUP: GROUP_SETTINGS}


def any_resource(world: World) -> tuple[int, str]:
    chance = world.random.random()
    if chance < 0.7:
        return TOPIC, world.any_name()
    if chance < 0.88:
        return BROKER, world.random.choice(("", "1", "1", "2", "x", "-1", " 1"))
    if chance < 0.98:
        return world.random.choice((CLIENT_METRICS, GROUP)), world.random.choice(("", *RESOURCES))
    return world.random.choice((0, 1, 3, 5, 64, 127, -1)), world.random.choice(("", "1", "a"))


def any_resource_setting(world: World, kind: int) -> tuple[str, str | None]:
    settings = _SETTINGS.get(kind)
    if settings is None:
        return any_setting(world)
    name = world.random.choice(sorted(settings))
    return name, world.random.choice((None, *settings[name] * 5))


def describe_configs(world: World) -> Step:
    random = world.random
    version = any_version(world, ApiKey.DESCRIBE_CONFIGS)
    resources = []
    for _ in range(random.choice((1, 1, 2))):
        kind, name = any_resource(world)
        if (kind, name) == (BROKER, "1"):
            # Under another spelling of its id a change would have no effect in Kafka.
            name = random.choice(("1", "1", "01", "+1"))
        keys: list[str] | None = None
        if random.random() < 0.6 or kind == BROKER:
            settings = sorted(set(_SETTINGS.get(kind, TOPIC_SETTINGS)) - _OWN_SETTINGS)
            keys = random.sample(settings, random.randrange(1 if kind == BROKER else 0, 4))
        resources.append(DescribeConfigsResource(kind, name, keys))
    request = DescribeConfigsRequest(resources, random.random() < 0.5, version >= 3 and random.random() < 0.2)
    return Step(ApiKey.DESCRIBE_CONFIGS, version, request, str([r.resource_name[:20] for r in resources]))


def list_config_resources(world: World) -> Step:
    # Without topics: other histories have theirs, and both have internal ones of their own.
    random = world.random
    version = any_version(world, ApiKey.LIST_CONFIG_RESOURCES)
    kinds = (BROKER, BROKER_LOGGER, *(CLIENT_METRICS, GROUP) * 2, random.choice((0, 1, 3, 64, -1)))
    chosen = random.choices(kinds, k=random.choice((1, 1, 2, 3))) if version else []
    return Step(ApiKey.LIST_CONFIG_RESOURCES, version, ListConfigResourcesRequest(chosen), str(chosen))


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
