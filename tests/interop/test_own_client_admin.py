"""Every operation of klamm's admin, on klamm and on Apache Kafka."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from interop.harness import START_MS
from interop.own import Own, poll_until, read
from interop.own_members import Party
from klamm import KlammError, TopicPartition
from klamm.client.admin.model import AlterOp, CommittedOffset, NewTopic, Resource
from klamm.client.admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from klamm.client.admin.results import Results
from klamm.errors import BrokerError, UnsupportedVersionError
from klamm.protocol.errors import ErrorCode
from klamm.testing import wait_until

pytestmark = [pytest.mark.groups, pytest.mark.timeout(120)]


K = TypeVar("K")


def codes(results: Results[K, Any]) -> dict[K, int]:
    """The error code of each item, 0 for those that went well."""
    found: dict[K, int] = {}
    for key in results:
        error = results.errors.get(key)
        assert error is None or isinstance(error, BrokerError), error
        found[key] = 0 if error is None else error.error_code
    return found


def test_topics_are_made_described_grown_and_deleted(own: Own, topic: str) -> None:
    admin = own.admin
    wanted = [
        NewTopic(topic, 3, 1, {"retention.ms": "60000"}),
        NewTopic(f"{topic}-placed", assignments={0: [own_broker(own)]}),
        NewTopic(f"{topic}-wrong", 0, 1),
        NewTopic("bad name!", 1, 1),
    ]
    assert codes(admin.create_topics(wanted, validate_only=True, raise_errors=False)) == {
        topic: 0,
        f"{topic}-placed": 0,
        f"{topic}-wrong": ErrorCode.invalid_partitions,
        "bad name!": ErrorCode.invalid_topic_exception,
    }
    assert codes(admin.describe_topics([topic], raise_errors=False)) == {
        topic: ErrorCode.unknown_topic_or_partition
    }
    made = admin.create_topics([*wanted[:2], f"{topic}-default"]).unwrap()
    assert (made[topic].partitions, made[topic].replication_factor) == (3, 1)
    assert codes(admin.create_topics([NewTopic(topic, 1, 1)], raise_errors=False)) == {
        topic: ErrorCode.topic_already_exists
    }
    admin.wait_for_topics(list(made))

    described = admin.describe_topics([topic]).unwrap()[topic]
    assert [item.partition for item in described.partitions] == [0, 1, 2]
    assert described.topic_id == made[topic].topic_id
    assert not described.is_internal
    assert {topic, f"{topic}-placed", f"{topic}-default"} <= admin.describe_topics().keys()

    assert codes(admin.create_partitions({topic: 2, f"{topic}-default": 4}, raise_errors=False)) == {
        topic: ErrorCode.invalid_partitions,
        f"{topic}-default": 0,
    }
    wait_until(
        lambda: len(admin.describe_topics([f"{topic}-default"]).unwrap()[f"{topic}-default"].partitions),
        equals=4,
    )

    assert codes(admin.delete_topics([topic, f"{topic}-nowhere"], raise_errors=False)) == {
        topic: 0,
        f"{topic}-nowhere": ErrorCode.unknown_topic_or_partition,
    }
    wait_until(lambda: topic in admin.describe_topics(), equals=False)


def own_broker(own: Own) -> int:
    return own.admin.describe_cluster().brokers[0].broker_id


def test_the_cluster_tells_about_itself(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 5)
    cluster = own.admin.describe_cluster()
    assert [f"{broker.host}:{broker.port}" for broker in cluster.brokers] == own.bootstrap.split(",")
    assert cluster.controller_id in {broker.broker_id for broker in cluster.brokers}
    folders = own.admin.describe_log_dirs([partition])
    assert len(folders) == len(cluster.brokers)
    assert {folder.error for folder in folders} == {None}
    (size_bytes,) = [size for folder in folders for size in folder.partitions.values()]
    assert size_bytes > 0
    (producer,) = own.admin.describe_producers([partition]).unwrap()[partition]
    assert producer.last_sequence == 4
    assert own.admin.list_reassignments() == {}
    elected = own.admin.elect_leaders([partition, TopicPartition(topic, 9)], raise_errors=False)
    assert elected.successes == {partition: False}
    assert codes(elected)[TopicPartition(topic, 9)] == ErrorCode.unknown_topic_or_partition
    for feature in own.admin.describe_features().values():
        assert feature.min_level <= (feature.level or feature.max_level) <= feature.max_level


def test_a_partition_stays_where_it_is_told_to_be(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    try:
        wanted = {partition: [own_broker(own)], TopicPartition(topic, 7): [1]}
        moved = own.admin.alter_reassignments(wanted, raise_errors=False)
    except UnsupportedVersionError:
        return  # a broker that is alone has nowhere to move a partition to
    assert codes(moved) == {partition: 0, TopicPartition(topic, 7): ErrorCode.unknown_topic_or_partition}


def test_settings_are_read_and_changed_one_by_one(own: Own, topic: str) -> None:
    own.create_topic(topic, retention_ms="60000")
    resource = (Resource.TOPIC, topic)
    own.admin.alter_configs(
        {
            resource: [
                ("max.message.bytes", AlterOp.SET, "123456"),
                ("cleanup.policy", AlterOp.APPEND, "compact"),
                ("retention.ms", AlterOp.DELETE, None),
            ]
        }
    ).unwrap()

    def told() -> dict[str, str | None]:
        keys = ["max.message.bytes", "cleanup.policy", "retention.ms"]
        entries = own.admin.describe_configs([resource], keys=keys).unwrap()[resource]
        return {name: entry.value for name, entry in entries.items()}

    wait_until(
        told,
        equals={
            "max.message.bytes": "123456",
            "cleanup.policy": "delete,compact",
            "retention.ms": "604800000",
        },
    )
    bad = own.admin.alter_configs(*resource, {"retention.ms": "soon"}, raise_errors=False)
    assert codes(bad) == {resource: ErrorCode.invalid_config}
    broker = (Resource.BROKER, str(own_broker(own)))
    assert own.admin.describe_configs([broker]).unwrap()[broker]["log.retention.hours"].value == "168"


def test_offsets_are_found_by_place_and_time_and_records_deleted(own: Own, topic: str) -> None:
    one, two = own.create_topic(topic, 2)
    producer = own.producer()
    for at_ms in (0, 5_000, 2_000):
        producer.send(topic, b"v", partition=0, timestamp_ms=START_MS + at_ms).result(30)

    def found(at: int) -> list[int]:
        listed = own.admin.list_offsets({one: at, two: at}).unwrap()
        return [listed[one].offset, listed[two].offset]

    assert found(EARLIEST) == [0, 0]
    assert found(LATEST) == [3, 0]
    assert found(MAX_TIMESTAMP) == [1, -1]
    assert found(START_MS + 1_000) == [1, -1]
    assert own.admin.delete_records({one: 2, two: -1}).unwrap() == {one: 2, two: 0}
    assert found(EARLIEST) == [2, 0]
    missing = TopicPartition(topic, 7)
    assert codes(own.admin.list_offsets({missing: LATEST}, raise_errors=False)) == {
        missing: ErrorCode.unknown_topic_or_partition
    }
    assert codes(own.admin.delete_records({one: 99}, raise_errors=False)) == {
        one: ErrorCode.offset_out_of_range
    }


def test_a_group_in_use_is_described_and_protected(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 2)
    own.fill(partitions, 3)
    group = f"g-{topic}"
    with Party(own.bootstrap, group, [topic]) as party:
        members = [party.join("anna", client_id="anna"), party.join("bert", group_instance_id="b-1")]
        party.settle(members, partitions)
        party.wait_for_records({(*item, offset) for item in partitions for offset in range(3)})
        described = own.admin.describe_groups([group]).unwrap()[group]
        assert (described.state, described.protocol_type, described.protocol) == (
            "Stable",
            "consumer",
            "range",
        )
        assert described.coordinator_id in {each.broker_id for each in own.admin.describe_cluster().brokers}
        by_instance = {member.group_instance_id: member for member in described.members}
        assert by_instance.keys() == {None, "b-1"}
        assert by_instance[None].client_id == "anna"
        assert all(member.subscribed_topics == (topic,) for member in described.members)
        owned = [partition for member in described.members for partition in member.assignment or ()]
        assert sorted(owned) == partitions
        assert group in {item.group_id for item in own.admin.list_groups(states=["Stable"])}
        assert group not in {item.group_id for item in own.admin.list_groups(states=["Empty"])}

        assert codes(own.admin.delete_groups([group, f"{group}-not"], raise_errors=False)) == {
            group: ErrorCode.non_empty_group,
            f"{group}-not": ErrorCode.group_id_not_found,
        }
        assert codes(
            own.admin.reset_group_offsets(group, partitions, to="earliest", raise_errors=False)
        ) == dict.fromkeys(partitions, ErrorCode.unknown_member_id)
        assert codes(own.admin.delete_group_offsets(group, [partitions[0]], raise_errors=False)) == {
            partitions[0]: ErrorCode.group_subscribed_to_topic
        }


def test_the_offsets_of_a_group_at_rest_can_be_moved(own: Own, topic: str) -> None:
    one, two = own.create_topic(topic, 2)
    producer = own.producer()
    for n in range(10):
        producer.send(topic, b"v", partition=0, timestamp_ms=START_MS + n * 1_000).result(30)
    group, admin = f"g-{topic}", own.admin
    admin.alter_group_offsets(group, {one: CommittedOffset(4), two: CommittedOffset(0, metadata="by hand")})
    assert admin.list_group_offsets(group) == {
        one: CommittedOffset(4),
        two: CommittedOffset(0, -1, "by hand"),
    }
    assert admin.list_group_offsets(group, [one]) == {one: CommittedOffset(4)}

    for target, expected in (
        ({"shift_by": 3}, 7),
        ({"shift_by": -99}, 0),
        ({"to": "latest"}, 10),
        ({"to": 5}, 5),
        ({"to": 500}, 10),
        ({"timestamp_ms": START_MS + 2_500}, 3),
        ({"timestamp_ms": START_MS + 60_000}, 10),
        ({"to": "earliest"}, 0),
    ):
        assert admin.reset_group_offsets(group, [one], **target).unwrap() == {one: expected}
        assert admin.list_group_offsets(group)[one].offset == expected
    assert admin.reset_group_offsets(group, to="latest").unwrap() == {one: 10, two: 0}
    with pytest.raises(ValueError, match="exactly one"):
        admin.reset_group_offsets(group, to="latest", shift_by=1)
    with pytest.raises(KlammError, match="nothing to shift"):
        admin.reset_group_offsets(f"{group}-new", [one], shift_by=1).unwrap()

    assert admin.delete_group_offsets(group, [two]).unwrap() == {two: None}
    assert admin.list_group_offsets(group) == {one: CommittedOffset(10)}
    assert admin.delete_groups([group]).unwrap() == {group: None}
    assert group not in {item.group_id for item in admin.list_groups()}


def test_members_are_removed_by_name_or_all_at_once(own: Own, topic: str) -> None:
    own.create_topic(topic, 2)
    group = f"g-{topic}"
    static = own.consumer(topic, group_id=group, group_instance_id="s-1")
    poll_until(static, lambda: len(static.assignment()) == 2, "everything")
    assert own.admin.remove_members(group, instance_ids=["s-1"]).unwrap() == {"s-1": None}
    assert own.admin.describe_groups([group]).unwrap()[group].state == "Empty"
    dynamic = own.consumer(topic, group_id=group)
    poll_until(dynamic, lambda: len(dynamic.assignment()) == 2, "everything")
    assert list(own.admin.remove_members(group).unwrap().values()) == [None]
    assert own.admin.describe_groups([group]).unwrap()[group].members == ()
    # Whoever was removed is told by its next heartbeat, and comes back.
    generation = dynamic.health().generation_id
    poll_until(dynamic, lambda: dynamic.health().generation_id > generation, "coming back")
    own.fill([TopicPartition(topic, 0)], 1)
    assert len(read(dynamic, 1)) == 1
