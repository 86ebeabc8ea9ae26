"""The cluster image: what it shows after each kind of change."""

from __future__ import annotations

from random import Random

from klamm.broker.cluster.image import (
    BrokerRegistered,
    ClusterImage,
    ConfigsReplaced,
    LeadershipTaken,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from klamm.storage.cluster import BrokerRegistration, PartitionRegistration, ResourceType, TopicState
from klamm.storage.engines.memory_cluster import MemoryCluster

TOPIC = TopicState(
    "t", b"t" * 16, (PartitionRegistration(0, (1,), 1, 0), PartitionRegistration(1, (2, 1), 2, 4))
)
REGISTRATION = BrokerRegistration(1, "north", {"PLAINTEXT": ("localhost", 9092)})


def test_a_topic_is_found_by_name_and_id_until_it_is_deleted() -> None:
    image = ClusterImage("c", 1)
    image.apply(TopicCreated(TOPIC, {"retention.ms": "5"}))
    assert image.topic("t") is image.topic_by_id(b"t" * 16) is TOPIC
    assert image.configs(ResourceType.TOPIC, "t") == {"retention.ms": "5"}
    image.apply(TopicDeleted("t"))
    assert image.topic("t") is image.topic_by_id(b"t" * 16) is None
    assert image.configs(ResourceType.TOPIC, "t") == {}


def test_partitions_are_found_within_their_range_only() -> None:
    image = ClusterImage("c", 1)
    image.apply(TopicCreated(TOPIC, {}))
    assert image.partition("t", 1) == TOPIC.partitions[1]
    assert image.partition("t", 2) is image.partition("t", -1) is image.partition("u", 0) is None
    image.apply(PartitionsAdded("t", [PartitionRegistration(2, (1,), 1, 0)]))
    assert image.partition("t", 2) == PartitionRegistration(2, (1,), 1, 0)


def test_leadership_moves_with_its_epoch() -> None:
    image = ClusterImage("c", 1)
    image.apply(TopicCreated(TOPIC, {}))
    image.apply(LeadershipTaken(1, {("t", 1): 5}))
    assert image.partition("t", 1) == PartitionRegistration(1, (2, 1), 1, 5)
    assert [partition.partition for _, partition in image.led_here()] == [0, 1]


def test_a_broker_is_found_by_listener() -> None:
    image = ClusterImage("c", 1)
    image.apply(BrokerRegistered(REGISTRATION))
    assert image.address(1, "PLAINTEXT") == ("localhost", 9092)
    assert image.address(1, "OTHER") is image.address(2, "PLAINTEXT") is None


def test_an_image_loads_all_that_the_store_remembers() -> None:
    store = MemoryCluster(random=Random(1))
    store.register_broker(REGISTRATION)
    store.create_topic(TOPIC, {"retention.ms": "5"})
    store.replace_configs(ResourceType.BROKER, "", {"log.retention.ms": "7"})
    image = ClusterImage.load(store, 1)
    assert image.cluster_id == store.cluster_id
    assert image.brokers == {1: REGISTRATION}
    assert image.topics == {"t": TOPIC}
    assert image.configs(ResourceType.TOPIC, "t") == {"retention.ms": "5"}
    assert image.configs(ResourceType.BROKER, "") == {"log.retention.ms": "7"}
    image.apply(ConfigsReplaced(ResourceType.BROKER, "", {}))
    assert image.configs(ResourceType.BROKER, "") == {}
