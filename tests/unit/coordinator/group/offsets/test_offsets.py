"""Committing and fetching offsets."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.topics import KnownTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.types import ZERO_ID
from unit.coordinator.asking import Call, at_version, commit_errors
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)


def test_a_commit_to_a_group_that_is_not_there_begins_a_simple_group() -> None:
    world = World()
    assert world.commit_error() is OK
    (listed,) = world.list_groups().groups
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
def test_a_member_cannot_commit_to_a_group_that_is_not_there(version: int, expected: ErrorCode) -> None:
    world = World()
    assert world.commit_error(member_id="m", generation=3, version=version) is expected
    assert world.listed() == {}


def test_an_outsider_cannot_commit_to_a_group_that_works() -> None:
    world = World()
    world.stable(1)
    assert world.commit_error() is ErrorCode.unknown_member_id


def test_anybody_may_commit_to_a_group_that_its_members_left() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.leave(member_id)
    assert world.commit_error(member_id="whoever", instance="whatever") is OK
    assert world.commit_error(member_id=member_id, generation=1) is ErrorCode.unknown_member_id


def test_a_members_commit_is_judged_by_phase_and_generation() -> None:
    world = World()
    (member_id, other_id) = world.joined(2)
    commit = {"member_id": member_id, "generation": 1}
    assert world.commit_error(**commit) is ErrorCode.rebalance_in_progress
    world.settle([member_id, other_id])
    assert world.commit_error(**commit) is OK
    assert world.commit_error(member_id=member_id, generation=0) is ErrorCode.illegal_generation
    assert world.commit_error(member_id=member_id) is ErrorCode.illegal_generation
    world.join(member_id)
    assert world.phase() is Phase.PREPARING
    assert world.commit_error(**commit) is OK


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("m" * 4_096, OK),
        ("m" * 4_097, ErrorCode.offset_metadata_too_large),
        ("é" * 4_096, OK),
        ("😀" * 2_048, OK),
        ("😀" * 2_049, ErrorCode.offset_metadata_too_large),
    ],
    ids=["at the limit", "past it", "two bytes each", "two units each", "two units each, past it"],
)
def test_metadata_is_measured_as_java_does_and_refused_alone(metadata: str, expected: ErrorCode) -> None:
    world = World()
    call = world.commit({("t", 0): (1, metadata), ("t", 1): 2})
    assert commit_errors(call) == {("t", 0): expected, ("t", 1): OK}
    assert world.fetch(("t", 1)) == {("t", 1): (2, OK)}


def test_a_commit_with_nothing_acceptable_writes_nothing() -> None:
    world = World()
    world.commit({T0: (1, "m" * 5_000)})
    assert world.log.batches == []
    assert world.listed() == {}


def test_unknown_topics_and_partitions_are_refused_singly() -> None:
    world = World()
    call = world.commit({("t", 0): 1, ("t", 8): 1, ("t", -1): 1, ("nowhere", 0): 1})
    unknown = ErrorCode.unknown_topic_or_partition
    assert commit_errors(call) == {
        ("t", 0): OK,
        ("t", 8): unknown,
        ("t", -1): unknown,
        ("nowhere", 0): unknown,
    }
    assert len(call.response.topics) == 2
    alone = world.commit({("nowhere", 0): 1}, group="other")
    assert commit_errors(alone) == {("nowhere", 0): unknown}
    assert "other" not in world.listed()


def test_a_retention_of_its_own_ends_an_offset_of_an_empty_group_only() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.commit({T0: 1}, member_id=member_id, generation=1, version=2, retention_ms=1_000)
    assert (world.log.records()[-1].value or b"")[:2] == b"\x00\x01"
    world.commit({T0: 1}, group="simple", version=2, retention_ms=1_000)
    for _ in range(70):
        world.pass_ms(9_000)
        world.heartbeat(member_id, 1)
    assert world.fetch(T0) == {T0: (1, OK)}
    assert world.fetch(T0, group="simple") == {T0: (-1, OK)}


def test_a_commit_is_dated_by_the_broker() -> None:
    world = World()
    world.pass_ms(123)
    world.commit()
    stored = world.group().memory.committed("t", 0)
    assert stored is not None
    assert stored[1].commit_timestamp_ms == world.clock.timestamp_ms()


@pytest.mark.parametrize(
    ("log_error", "expected"),
    [
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas_after_append, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.record_list_too_large, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.invalid_fetch_size, ErrorCode.invalid_commit_offset_size),
        (ErrorCode.network_exception, ErrorCode.coordinator_load_in_progress),
        (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
    ],
)
def test_what_the_log_says_is_told_in_the_clients_terms(log_error: ErrorCode, expected: ErrorCode) -> None:
    world = World()
    world.log.refuse_with = log_error
    assert world.commit_error() is expected
    world.log.refuse_with = None
    assert world.fetch(T0, stable=True) == {T0: (-1, OK)}
    assert world.listed() == {}


def test_what_was_never_committed_is_fetched_as_minus_one() -> None:
    world = World()
    world.commit({T0: 5})
    response = world.fetch_response(("t", 3))
    (answer,) = response.topics[0].partitions
    assert (answer.committed_offset, answer.metadata, answer.error_code) == (-1, "", OK)
    assert world.fetch(T0, group="nowhere") == {T0: (-1, OK)}
    assert world.fetch() == {T0: (5, OK)}
    assert world.fetch(group="nowhere") == {}


def test_the_first_fetch_version_has_errors_on_every_partition() -> None:
    world = World(elect=False)
    world.elect(0)
    wait = ErrorCode.coordinator_load_in_progress
    assert world.fetch(T0, ("t", 1), version=1) == {T0: (-1, wait), ("t", 1): (-1, wait)}
    later = world.fetch_response(T0, version=2)
    assert (later.error_code, list(later.topics)) == (wait, [])
    batched = world.fetch_response(T0, version=8)
    assert (batched.groups[0].error_code, list(batched.groups[0].topics)) == (wait, [])


def test_a_commit_on_its_way_to_the_disk_is_hidden_and_unstable() -> None:
    world = World()
    world.commit({T0: 1})
    world.log.is_holding = True
    call = world.commit({T0: 2, ("t", 1): 2})
    again = world.commit({T0: 3})
    assert not call.is_answered
    unstable = ErrorCode.unstable_offset_commit
    assert world.fetch(T0, ("t", 1)) == {T0: (1, OK), ("t", 1): (-1, OK)}
    assert world.fetch() == {T0: (1, OK)}
    assert world.fetch(T0, stable=True) == {T0: (-1, unstable)}
    world.flush()
    assert commit_errors(call) == {T0: OK, ("t", 1): OK}
    assert commit_errors(again) == {T0: OK}
    assert world.fetch(T0, ("t", 1), stable=True) == {T0: (3, OK), ("t", 1): (2, OK)}


def test_a_commit_in_a_group_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    world = World()
    world.log.is_holding = True
    world.commit({T0: 2})
    world.ask_delete("g")
    world.flush()
    assert world.listed() == {}
    assert world.fetch(T0) == {T0: (-1, OK)}


def test_several_groups_are_fetched_at_once_each_by_itself() -> None:
    world = World(partition_count=50, elect=False)
    world.elect(47)  # group
    world.load_all()
    world.commit({T0: 4}, group="group")
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="testgroup", topics=topics),
            OffsetFetchRequestGroup(group_id="group", topics=topics),
            OffsetFetchRequestGroup(group_id="group", topics=None),
        ]
    )
    response = world.ask(at_version(request, 8)).response
    assert [group.group_id for group in response.groups] == ["testgroup", "group", "group"]
    assert [group.error_code for group in response.groups] == [ErrorCode.not_coordinator, OK, OK]
    assert [group.topics[0].partitions[0].committed_offset for group in response.groups[1:]] == [4, 4]


def test_the_leader_epoch_comes_back_with_the_offset() -> None:
    world = World()
    world.commit({T0: 1}, version=6, leader_epoch=7)
    world.commit({("t", 1): 1}, version=5)
    (first, second) = world.fetch_response(T0, ("t", 1), version=5).topics[0].partitions
    assert (first.committed_leader_epoch, second.committed_leader_epoch) == (7, -1)


def test_offsets_may_go_back_and_be_anything() -> None:
    world = World()
    for offset in (10, 3, 2**63 - 1, -5):
        world.commit({T0: offset})
        assert world.fetch(T0) == {T0: (offset, OK)}


def test_topics_may_be_named_by_id() -> None:
    world = World()
    known_id, unknown_id = world.topics.known["t"].topic_id, b"x" * 16
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(known_id, "", [OffsetCommitRequestPartition(0, 9)]),
            OffsetCommitRequestTopic(known_id, "", [OffsetCommitRequestPartition(99, 9)]),
            OffsetCommitRequestTopic(unknown_id, "", [OffsetCommitRequestPartition(0, 9)]),
        ],
    )
    response = world.ask(at_version(request, 10)).response
    errors = {
        (topic.topic_id, answer.partition_index): ErrorCode(answer.error_code)
        for topic in response.topics
        for answer in topic.partitions
    }
    assert errors == {
        (known_id, 0): OK,
        (known_id, 99): ErrorCode.unknown_topic_or_partition,
        (unknown_id, 0): ErrorCode.unknown_topic_id,
    }
    stored = world.group().memory.committed("t", 0)
    assert stored is not None
    assert stored[1].topic_id == known_id

    fetch = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    OffsetFetchRequestTopics(topic_id=unknown_id, partition_indexes=[0]),
                    OffsetFetchRequestTopics(topic_id=known_id, partition_indexes=[0]),
                    OffsetFetchRequestTopics(topic_id=ZERO_ID, partition_indexes=[0]),
                ],
            ),
            OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
    )
    by_id, everything = world.ask(at_version(fetch, 10)).response.groups
    answers = [
        (topic.topic_id, topic.partitions[0].committed_offset, ErrorCode(topic.partitions[0].error_code))
        for topic in by_id.topics
    ]
    assert answers == [
        (known_id, 9, OK),  # Kafka puts unknown topics last
        (unknown_id, -1, ErrorCode.unknown_topic_id),
        (ZERO_ID, -1, ErrorCode.unknown_topic_id),
    ]
    assert [(topic.topic_id, topic.partitions[0].committed_offset) for topic in everything.topics] == [
        (known_id, 9)
    ]
    del world.topics.known["t"]
    only_all = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert list(world.ask(at_version(only_all, 10)).response.groups[0].topics) == []


def test_who_asks_by_id_is_not_told_of_a_topic_that_had_the_name_before() -> None:
    world = World()
    world.commit({T0: 9})
    made_anew = KnownTopic("t", b"x" * 16, 8)
    world.topics.known["t"] = made_anew
    asked = OffsetFetchRequestTopics(topic_id=made_anew.topic_id, partition_indexes=[0])
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[asked])])
    ((topic,),) = [group.topics for group in world.ask(at_version(fetch, 10)).response.groups]
    assert (topic.partitions[0].committed_offset, topic.partitions[0].error_code) == (-1, 0)
    assert world.fetch(T0) == {T0: (9, OK)}


def test_a_retention_beyond_all_time_is_over_at_once_as_in_java() -> None:
    world = World()
    assert world.commit_error(version=2, retention_ms=2**63 - 1) is ErrorCode.none
    stored = world.group().memory.committed("t", 0)
    assert stored is not None
    assert -(2**63) <= stored[1].expire_timestamp_ms < 0


def test_a_topic_named_twice_is_answered_once_when_part_of_it_is_unknown() -> None:
    world = World()
    pieces = [
        OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(index, 1)])
        for index in (0, 99, 1)
    ]
    call: Call[OffsetCommitResponse] = world.ask(OffsetCommitRequest("g", topics=pieces))
    (topic,) = call.response.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (99, ErrorCode.unknown_topic_or_partition),
        (0, ErrorCode.none),
        (1, ErrorCode.none),
    ]
