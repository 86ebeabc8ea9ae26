"""The cluster image: what it shows after each set of changes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from klamm.broker.cluster.image import ClusterImage
from klamm.storage.cluster import (
    BrokerRegistration,
    ClusterChanges,
    ConfigResourceType,
    FinalizedFeatures,
    PartitionRegistration,
    TopicState,
)
from klamm.storage.engines.memory_cluster import MemoryCluster

TOPIC = TopicState(
    "t", b"t" * 16, (PartitionRegistration(0, (1,), 1, 0), PartitionRegistration(1, (2, 1), 2, 4))
)
REGISTRATION = BrokerRegistration(1, "north", {"PLAINTEXT": ("localhost", 9092)})
CONFIG = (ConfigResourceType.TOPIC, "t")


def an_image() -> ClusterImage:
    image = ClusterImage("c", 1)
    image.apply(ClusterChanges(3, (REGISTRATION,), {"t": TOPIC}, {CONFIG: {"retention.ms": "5"}}))
    return image


def test_a_topic_is_found_by_name_and_id_until_it_is_deleted() -> None:
    image = an_image()
    assert image.topic("t") is image.topic_by_id(b"t" * 16) is TOPIC
    assert image.configs(*CONFIG) == {"retention.ms": "5"}
    image.apply(ClusterChanges(4, topics={"t": None}, configs={CONFIG: {}}))
    assert image.topic("t") is image.topic_by_id(b"t" * 16) is None
    assert image.configs(*CONFIG) == {}
    assert image.version == 4


def test_a_topic_with_the_name_of_a_deleted_one_has_its_own_id() -> None:
    image = an_image()
    another = replace(TOPIC, topic_id=b"u" * 16)
    image.apply(ClusterChanges(4, topics={"t": another}))
    assert image.topic_by_id(b"t" * 16) is None
    assert image.topic_by_id(b"u" * 16) is image.topic("t") is another


def test_partitions_are_found_within_their_range_only() -> None:
    image = an_image()
    assert image.partition("t", 1) == TOPIC.partitions[1]
    assert image.partition("t", 2) is image.partition("t", -1) is image.partition("u", 0) is None


def test_leadership_moves_with_its_epoch() -> None:
    image = an_image()
    assert [partition.partition for _, partition in image.led_here()] == [0]
    moved = replace(TOPIC.partitions[1], leader_id=1, leader_epoch=5)
    image.apply(ClusterChanges(4, topics={"t": replace(TOPIC, partitions=(TOPIC.partitions[0], moved))}))
    assert image.partition("t", 1) == moved
    assert [partition.partition for _, partition in image.led_here()] == [0, 1]


def test_a_broker_is_found_by_listener() -> None:
    image = an_image()
    assert image.address(1, "PLAINTEXT") == ("localhost", 9092)
    assert image.address(1, "OTHER") is image.address(2, "PLAINTEXT") is None


def test_what_is_missing_in_a_complete_list_is_deleted() -> None:
    image = an_image()
    features = FinalizedFeatures(0, {"transaction.version": 2})
    image.apply(ClusterChanges(20_000, features=features, is_complete=True))
    assert (image.topics, image.brokers, image.configs(*CONFIG)) == ({}, {}, {})
    assert image.topic_by_id(b"t" * 16) is None
    assert (image.features, image.transaction_version) == (features, 2)


def test_an_image_loads_all_that_the_store_has() -> None:
    store = MemoryCluster(random=Random(1))
    registered = store.register(REGISTRATION)
    store.create_topic(TOPIC, {"retention.ms": "5"})
    store.replace_configs(ConfigResourceType.BROKER, "", {"log.retention.ms": "7"})
    image = ClusterImage(store.cluster_id, 1)
    image.apply(store.changes(0))
    assert image.brokers == {1: registered}
    assert image.topics == {"t": TOPIC}
    assert image.configs(*CONFIG) == {"retention.ms": "5"}
    assert image.configs(ConfigResourceType.BROKER, "") == {"log.retention.ms": "7"}
    store.replace_configs(ConfigResourceType.BROKER, "", {})
    image.apply(store.changes(image.version))
    assert image.configs(ConfigResourceType.BROKER, "") == {}
    assert image.version == store.version()


def test_a_leader_is_shown_before_the_rest_of_a_change_is_applied() -> None:
    image = an_image()
    moved = replace(TOPIC.partitions[1], leader_id=1, leader_epoch=5)
    image.show(replace(TOPIC, partitions=(TOPIC.partitions[0], moved)), [moved])
    assert image.topic("t") is image.topic_by_id(b"t" * 16)
    assert [image.partition("t", number) for number in (0, 1)] == [TOPIC.partitions[0], moved]
    assert image.version == 3


def test_nothing_is_shown_early_of_a_topic_or_partition_that_is_new() -> None:
    image = an_image()
    image.show(replace(TOPIC, topic_id=b"u" * 16), [replace(TOPIC.partitions[0], leader_epoch=9)])
    image.show(replace(TOPIC, name="u"), [TOPIC.partitions[0]])
    image.show(TOPIC, [PartitionRegistration(2, (1,), 1, 0)])
    assert image.topic("t") == TOPIC
    assert image.topic("u") is None
