"""What every ClusterStore must do; an engine's tests inherit `ClusterContract` and name their store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ClusterStore,
    ConfigChange,
    ConfigResourceType,
    ConflictError,
    FencedError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
)

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def a_topic(name: str = "orders", *, topic_id: bytes = b"i" * 16, partitions: int = 2) -> TopicState:
    states = tuple(PartitionRegistration(partition, (1,), 1, 0) for partition in range(partitions))
    return TopicState(name, topic_id, states)


def leaders(store: ClusterStore) -> list[tuple[int, int]]:
    return [(state.leader_id, state.leader_epoch) for state in store.topics()["orders"].partitions]


class ClusterContract:
    """Tests of any store; the engine provides the fixture `store`."""

    @pytest.fixture
    def store(self) -> ClusterStore:
        raise AssertionError("an engine's tests provide their store")

    @pytest.fixture
    def other(self, store: ClusterStore) -> ClusterStore:
        raise AssertionError("an engine's tests provide the store of another broker of the same cluster")

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

    def test_a_broker_that_comes_back_replaces_its_registration(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        other.register(BrokerRegistration(2, None, {"PLAINTEXT": ("b", 2)}))
        first = store.register(BrokerRegistration(1, "r1", {"PLAINTEXT": ("a", 1), "LAN": ("::1", 9)}))
        second = other.register(BrokerRegistration(2, "r2", {"PLAINTEXT": ("b", 3)}))
        assert list(store.brokers()) == [first, second]
        assert (first.broker_id, first.rack, first.listeners["LAN"]) == (1, "r1", ("::1", 9))
        assert (second.rack, second.listeners) == ("r2", {"PLAINTEXT": ("b", 3)})
        assert first.epoch < second.epoch

    def test_a_registration_raises_the_epochs_of_what_its_id_leads(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {})
        store.register(BrokerRegistration(2, None, {}))
        assert leaders(store) == [(1, 0), (1, 0)]
        store.register(BrokerRegistration(1, None, {}))
        assert leaders(store) == [(1, 1), (1, 1)]

    def test_a_broker_that_was_replaced_changes_nothing_any_more(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        store.register(BrokerRegistration(1, None, {}))
        other.register(BrokerRegistration(1, None, {}))
        version = store.version()
        with pytest.raises(FencedError):
            store.create_topic(a_topic(), {})
        with pytest.raises(FencedError):
            store.set_state(BrokerState.RUNNING)
        assert (dict(store.topics()), store.version()) == ({}, version)
        # Registering again is the way back.
        store.register(BrokerRegistration(1, None, {}))
        store.create_topic(a_topic(), {})

    def test_a_broker_may_change_its_state_while_it_registers_anew(self, store: ClusterStore) -> None:
        # It is told to stop at the moment at which it finds itself replaced.
        me = store.register(BrokerRegistration(1, None, {}))

        def change_state() -> None:
            with suppress(FencedError):  # as a broker that was replaced
                store.set_state(BrokerState.DRAINING)

        with ThreadPoolExecutor(2) as threads:
            for _ in range(100):
                changed, registered = threads.submit(change_state), threads.submit(store.register, me)
                changed.result()
                registered.result()
        assert [each.broker_id for each in store.brokers()] == [1]

    def test_a_broker_changes_its_state(self, store: ClusterStore) -> None:
        registered = store.register(BrokerRegistration(1, None, {}, state=BrokerState.STARTING))
        assert (registered.state, registered.is_fenced) == (BrokerState.STARTING, True)
        store.set_state(BrokerState.RUNNING)
        (found,) = store.brokers()
        assert (found.epoch, found.state, found.is_fenced) == (registered.epoch, BrokerState.RUNNING, False)

    def test_the_partitions_of_a_dead_broker_go_to_others_at_once(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        gone = other.register(BrokerRegistration(1, None, {}))
        store.register(BrokerRegistration(2, None, {}))
        store.create_topic(a_topic(), {})
        store.take_over(gone, [LeaderChange("orders", each, 1, 0, 2) for each in range(2)])
        assert leaders(store) == [(2, 1), (2, 1)]
        assert [broker.state for broker in store.brokers()] == [BrokerState.GONE, BrokerState.RUNNING]
        with pytest.raises(FencedError):
            other.set_state(BrokerState.RUNNING)
        # Declared once
        with pytest.raises(ConflictError):
            store.take_over(gone, [])

    def test_a_take_over_that_does_not_match_changes_nothing(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        gone = other.register(BrokerRegistration(1, None, {}))
        store.register(BrokerRegistration(2, None, {}))
        store.create_topic(a_topic(), {})
        version = store.version()
        with pytest.raises(ConflictError):
            store.take_over(gone, [LeaderChange("orders", 0, 1, 0, 2)])  # it leads another one too
        back = other.register(BrokerRegistration(1, None, {}))
        assert back.epoch == version + 1
        with pytest.raises(ConflictError):
            store.take_over(gone, [LeaderChange("orders", each, 1, 1, 2) for each in range(2)])
        assert leaders(store) == [(1, 1), (1, 1)]
        assert store.version() == version + 1

    def test_a_partition_is_handed_over_in_two_steps(self, store: ClusterStore, other: ClusterStore) -> None:
        store.register(BrokerRegistration(1, None, {}))
        other.register(BrokerRegistration(2, None, {}))
        store.create_topic(a_topic(), {})
        moves = [LeaderChange("orders", 0, 1, 0, 2), LeaderChange("orders", 1, 1, 7, 2)]
        assert store.start_moves(moves) == moves[:1]  # the other has another epoch
        assert [state.moving_to for state in store.topics()["orders"].partitions] == [2, -1]
        assert leaders(store) == [(1, 0), (1, 0)]
        assert store.finish_moves(moves) == moves[:1]
        assert leaders(store) == [(2, 1), (1, 0)]
        assert [state.moving_to for state in store.topics()["orders"].partitions] == [-1, -1]

    def test_nothing_moves_to_a_broker_that_does_not_run(self, store: ClusterStore) -> None:
        store.register(BrokerRegistration(1, None, {}))
        store.create_topic(a_topic(), {})
        assert store.start_moves([LeaderChange("orders", 0, 1, 0, 2)]) == []
        assert store.topics()["orders"].partitions[0].moving_to == -1

    def test_a_cancelled_move_leaves_the_leader(self, store: ClusterStore, other: ClusterStore) -> None:
        store.register(BrokerRegistration(1, None, {}))
        other.register(BrokerRegistration(2, None, {}))
        store.create_topic(a_topic(), {})
        moves = [LeaderChange("orders", 0, 1, 0, 2)]
        store.start_moves(moves)
        store.cancel_moves(moves)
        assert store.topics()["orders"].partitions[0] == PartitionRegistration(0, (1,), 1, 0)

    def test_preferred_brokers_are_replaced(self, store: ClusterStore) -> None:
        store.create_topic(a_topic(), {})
        store.replace_replicas("orders", 1, [2, 1])
        assert [state.replicas for state in store.topics()["orders"].partitions] == [(1,), (2, 1)]
        with pytest.raises(ConflictError):
            store.replace_replicas("orders", 2, [1])

    def test_changes_are_what_was_touched_as_it_is_now(self, store: ClusterStore) -> None:
        broker = store.register(BrokerRegistration(1, "r", {"PLAINTEXT": ("a", 1)}))
        store.create_topic(a_topic("kept", topic_id=b"k" * 16), {"retention.ms": "5"})
        store.create_topic(a_topic(), {"retention.ms": "5"})
        seen = store.version()
        features = store.finalize_features({"transaction.version": 2}, expected_epoch=-1)
        store.replace_configs(TOPIC, "kept", {"retention.ms": "6"})
        store.delete_topic("orders", b"i" * 16)
        assert store.changes(seen) == ClusterChanges(
            seen + 3,
            (),
            {"orders": None},
            {(TOPIC, "kept"): {"retention.ms": "6"}, (TOPIC, "orders"): {}},
            features,
        )
        everything = store.changes(0)
        assert everything.is_complete
        assert everything.brokers == (broker,)
        assert [topic for topic in everything.topics.values() if topic is not None] == [
            a_topic("kept", topic_id=b"k" * 16)
        ]
        assert everything.features == features
        assert store.changes(seen + 3) == ClusterChanges(seen + 3)

    def test_another_broker_sees_that_something_changed(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        store.changed()
        assert not store.changed()
        other.create_topic(a_topic(), {})
        assert store.changed()
        assert not store.changed()

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

    def test_many_configurations_are_one_change_and_those_changed_meanwhile_stay(
        self, store: ClusterStore, other: ClusterStore
    ) -> None:
        kind = ConfigResourceType.ACL
        store.replace_configs(kind, "kept", {"a": "1", "b": "2"})
        store.replace_configs(kind, "raced", {"a": "1"})
        version = store.version()
        lost = store.replace_all_configs(
            kind,
            [
                ConfigChange("kept", {"b": "3", "c": "4"}, {"a": "1", "b": "2"}),
                ConfigChange("new", {"a": ""}, {}),
                ConfigChange("raced", {"a": "2"}, {"a": "0"}),
            ],
        )
        assert list(lost) == ["raced"]
        assert store.version() == version + 1
        expected = {(kind, "kept"): {"b": "3", "c": "4"}, (kind, "new"): {"a": ""}}
        assert other.changes(version).configs == expected
        assert other.configs(kind, "raced") == {"a": "1"}
        assert not store.replace_all_configs(kind, [ConfigChange("new", {}, {"a": ""})])
        assert (kind, "new") not in other.all_configs()

    def test_the_version_rises_with_every_change_and_only_then(self, store: ClusterStore) -> None:
        seen = [store.version()]
        for change in (
            lambda: store.register(BrokerRegistration(1, None, {})),
            lambda: store.create_topic(a_topic(), {}),
            lambda: store.add_partitions("orders", b"i" * 16, [PartitionRegistration(2, (1,), 1, 0)]),
            lambda: store.finish_moves([LeaderChange("orders", 0, 1, 0, 1)]),
            lambda: store.set_state(BrokerState.DRAINING),
            lambda: store.replace_configs(TOPIC, "orders", {"segment.ms": "7"}),
            lambda: store.delete_topic("orders", b"i" * 16),
        ):
            change()
            assert store.version() == seen[-1] + 1
            seen.append(store.version())
        with pytest.raises(ConflictError):
            store.delete_topic("orders", b"i" * 16)
        store.topics()
        store.allocate_producer_ids(1)
        assert store.version() == seen[-1]

    @pytest.mark.parametrize(
        "kind", [ConfigResourceType.ACL, ConfigResourceType.USER, ConfigResourceType.QUOTA]
    )
    def test_what_has_no_type_on_the_wire_is_kept_as_any_other_configuration(
        self, store: ClusterStore, other: ClusterStore, kind: ConfigResourceType
    ) -> None:
        name, key = '[2, 3, "f\\u0000o/\\ud800"]', '["User:b\\"ob", "*", 3, 3]'
        version = store.version()
        store.replace_configs(kind, name, {key: ""}, expected={})
        assert other.configs(kind, name) == {key: ""}
        assert other.changes(version).configs == {(kind, name): {key: ""}}
        with pytest.raises(ConflictError):
            other.replace_configs(kind, name, {}, expected={})

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
