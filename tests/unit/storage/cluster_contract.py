"""What every ClusterStore must do; an engine's tests inherit `ClusterContract` and name their store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from klamm.storage.cluster import (
    BrokerRegistration,
    ClusterStore,
    ConflictError,
    FinalizedFeatures,
    PartitionRegistration,
    ResourceType,
    TopicState,
)

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


def a_topic(name: str = "orders", *, topic_id: bytes = b"i" * 16, partitions: int = 2) -> TopicState:
    states = tuple(PartitionRegistration(partition, (1,), 1, 0) for partition in range(partitions))
    return TopicState(name, topic_id, states)


class ClusterContract:
    """Tests of any store; the engine provides the fixture `store`."""

    @pytest.fixture
    def store(self) -> ClusterStore:
        raise AssertionError("an engine's tests provide their store")

    def test_a_new_cluster_has_an_id_and_nothing_else(self, store: ClusterStore) -> None:
        assert len(store.cluster_id) == 22
        assert list(store.brokers()) == []
        assert dict(store.topics()) == {}
        assert dict(store.all_configs()) == {}

    def test_features_are_finalized_all_at_once_at_the_next_epoch(self, store: ClusterStore) -> None:
        assert store.features() == FinalizedFeatures(-1, {})
        first = store.finalize_features({"transaction.version": 2, "other": 1}, expected_epoch=-1)
        assert first == store.features() == FinalizedFeatures(0, {"transaction.version": 2, "other": 1})
        # Level 0 is the same as none
        second = store.finalize_features({"transaction.version": 1, "other": 0}, expected_epoch=0)
        assert second == store.features() == FinalizedFeatures(1, {"transaction.version": 1})

    def test_features_that_were_changed_by_another_are_not_overwritten(self, store: ClusterStore) -> None:
        store.finalize_features({"transaction.version": 2}, expected_epoch=-1)
        version = store.version()
        with pytest.raises(ConflictError):
            store.finalize_features({"transaction.version": 1}, expected_epoch=-1)
        assert store.features() == FinalizedFeatures(0, {"transaction.version": 2})
        assert store.version() == version

    def test_a_broker_that_comes_back_replaces_its_registration(self, store: ClusterStore) -> None:
        store.register_broker(BrokerRegistration(2, None, {"PLAINTEXT": ("b", 2)}))
        store.register_broker(BrokerRegistration(1, "r1", {"PLAINTEXT": ("a", 1), "LAN": ("::1", 9)}))
        store.register_broker(BrokerRegistration(2, "r2", {"PLAINTEXT": ("b", 3)}))
        assert list(store.brokers()) == [
            BrokerRegistration(1, "r1", {"PLAINTEXT": ("a", 1), "LAN": ("::1", 9)}),
            BrokerRegistration(2, "r2", {"PLAINTEXT": ("b", 3)}),
        ]

    def test_a_created_topic_is_found_with_its_configuration(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {"retention.ms": "5"})
        assert dict(store.topics()) == {"orders": a_topic()}
        assert store.configs(TOPIC, "orders") == {"retention.ms": "5"}

    def test_a_name_and_an_id_are_taken_once(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {})
        with pytest.raises(ConflictError):
            store.create_topic(a_topic(topic_id=b"j" * 16), {"retention.ms": "5"})
        with pytest.raises(ConflictError):
            store.create_topic(a_topic("other"), {})
        assert dict(store.topics()) == {"orders": a_topic()}
        assert store.configs(TOPIC, "orders") == {}

    def test_partitions_are_numbered_from_zero(self, store: ClusterStore) -> None:
        with pytest.raises(ValueError, match="from 0"):
            store.create_topic(TopicState("t", b"i" * 16, (PartitionRegistration(1, (1,), 1, 0),)), {})

    def test_only_the_id_that_holds_a_name_can_be_deleted(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {"retention.ms": "5"})
        for name, topic_id in (("orders", b"j" * 16), ("other", b"i" * 16)):
            with pytest.raises(ConflictError):
                store.delete_topic(name, topic_id)
        store.delete_topic("orders", b"i" * 16)
        assert dict(store.topics()) == {}
        assert store.configs(TOPIC, "orders") == {}
        # The name is free at once.
        store.create_topic(a_topic(topic_id=b"j" * 16, partitions=1), {})
        assert len(store.topics()["orders"].partitions) == 1

    def test_partitions_are_added_behind_the_last_one_or_not_at_all(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {})
        third = PartitionRegistration(2, (1,), 1, 0)
        store.add_partitions("orders", b"i" * 16, [third])
        assert store.topics()["orders"].partitions == (*a_topic().partitions, third)
        for name, topic_id, state in (
            ("orders", b"i" * 16, third),
            ("orders", b"i" * 16, PartitionRegistration(4, (1,), 1, 0)),
            ("orders", b"j" * 16, PartitionRegistration(3, (1,), 1, 0)),
            ("other", b"i" * 16, PartitionRegistration(0, (1,), 1, 0)),
        ):
            with pytest.raises(ConflictError):
                store.add_partitions(name, topic_id, [state])
        assert len(store.topics()["orders"].partitions) == 3

    def test_leadership_is_taken_at_the_next_epoch(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {})
        assert store.lead(1) == {("orders", 0): 1, ("orders", 1): 1}
        assert store.lead(1, [("orders", 1)]) == {("orders", 1): 2}
        assert [(state.leader_id, state.leader_epoch) for state in store.topics()["orders"].partitions] == [
            (1, 1),
            (1, 2),
        ]

    def test_a_broker_leads_only_what_it_keeps(self, store: ClusterStore) -> None:
        topic = TopicState(
            "t", b"i" * 16, (PartitionRegistration(0, (1, 2), 1, 4), PartitionRegistration(1, (1,), -1, 7))
        )
        store.create_topic(topic, {})
        assert store.lead(2) == {("t", 0): 5}
        with pytest.raises(ConflictError):
            store.lead(2, [("t", 0), ("t", 1)])
        with pytest.raises(ConflictError):
            store.lead(1, [("absent", 0)])
        assert [(state.leader_id, state.leader_epoch) for state in store.topics()["t"].partitions] == [
            (2, 5),
            (-1, 7),
        ]

    def test_configurations_are_replaced_whole(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {"retention.ms": "5", "segment.ms": "6"})
        store.replace_configs(TOPIC, "orders", {"segment.ms": "7"})
        store.replace_configs(BROKER, "", {"log.retention.ms": "1"})
        store.replace_configs(BROKER, "1", {"max.connections": "2"})
        assert store.all_configs() == {
            (TOPIC, "orders"): {"segment.ms": "7"},
            (BROKER, ""): {"log.retention.ms": "1"},
            (BROKER, "1"): {"max.connections": "2"},
        }
        store.replace_configs(BROKER, "", {})
        assert (BROKER, "") not in store.all_configs()
        assert store.configs(BROKER, "") == {}

    def test_a_configuration_changed_meanwhile_is_a_conflict(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {"retention.ms": "5"})
        store.replace_configs(TOPIC, "orders", {"retention.ms": "6"}, expected={"retention.ms": "5"})
        with pytest.raises(ConflictError):
            store.replace_configs(TOPIC, "orders", {"retention.ms": "7"}, expected={"retention.ms": "5"})
        with pytest.raises(ConflictError):
            store.replace_configs(TOPIC, "absent", {"retention.ms": "7"})
        assert store.configs(TOPIC, "orders") == {"retention.ms": "6"}

    def test_the_version_rises_with_every_change_and_only_then(self, store: ClusterStore) -> None:
        seen = [store.version()]
        for change in (
            lambda: store.register_broker(BrokerRegistration(1, None, {})),
            lambda: store.create_topic(a_topic(), {}),
            lambda: store.add_partitions("orders", b"i" * 16, [PartitionRegistration(2, (1,), 1, 0)]),
            lambda: store.lead(1),
            lambda: store.replace_configs(TOPIC, "orders", {"segment.ms": "7"}),
            lambda: store.delete_topic("orders", b"i" * 16),
            lambda: store.allocate_producer_ids(1),
        ):
            change()
            assert store.version() > seen[-1]
            seen.append(store.version())
        with pytest.raises(ConflictError):
            store.delete_topic("orders", b"i" * 16)
        store.topics()
        assert store.version() == seen[-1]

    def test_producer_ids_are_never_given_twice(self, store: ClusterStore) -> None:
        blocks = [store.allocate_producer_ids(count) for count in (1000, 1, 1000)]
        ids = [producer_id for block in blocks for producer_id in block]
        assert len(set(ids)) == len(ids) == 2001
        assert min(ids) >= 0
        with pytest.raises(ValueError, match="block"):
            store.allocate_producer_ids(0)
        with pytest.raises(OverflowError):
            store.allocate_producer_ids(2**63)

    def test_threads_share_a_store(self, store: ClusterStore) -> None:
        with ThreadPoolExecutor(4) as threads:
            blocks = list(threads.map(lambda _: store.allocate_producer_ids(10), range(40)))
        assert len({producer_id for block in blocks for producer_id in block}) == 400

    def test_answers_are_copies(self, store: ClusterStore) -> None:
        configs = {"retention.ms": "5"}
        store.create_topic(a_topic(), configs)
        configs["retention.ms"] = "6"
        dict(store.topics()).clear()
        assert store.configs(TOPIC, "orders") == {"retention.ms": "5"}
