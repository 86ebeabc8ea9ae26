"""What administrators see and do."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.remembered import GroupForgotten, OffsetForgotten
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from unit.coordinator.asking import Call, assignment, subscription
from unit.coordinator.driver import World

OK = ErrorCode.none


def errors(response: OffsetDeleteResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, answer.partition_index): ErrorCode(answer.error_code)
        for topic in response.topics
        for answer in topic.partitions
    }


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.commit({("t", 0): 1, ("t2", 0): 2}, member_id=member_id, generation=1)
    response = world.delete_offsets(("t", 0), ("t2", 0), ("t2", 7))
    subscribed = ErrorCode.group_subscribed_to_topic
    assert errors(response) == {("t", 0): subscribed, ("t2", 0): OK, ("t2", 7): OK}
    assert world.fetch() == {("t", 0): (1, OK)}
    assert world.log.decoded()[-1] == OffsetForgotten("g", "t2", 0)


def test_a_group_of_another_kind_must_be_empty_for_its_offsets_to_be_deleted() -> None:
    world = World()
    (member_id,) = world.stable(1, protocol_type="connect")
    assert world.delete_offsets(("t", 0)).error_code == ErrorCode.non_empty_group
    world.leave(member_id)
    assert errors(world.delete_offsets(("t", 0))) == {("t", 0): OK}


def test_offsets_of_a_missing_group_cannot_be_deleted() -> None:
    response = World().delete_offsets(("t", 0))
    assert (response.error_code, list(response.topics)) == (ErrorCode.group_id_not_found, [])
    assert World().delete_offsets(("nowhere", 0)).error_code == ErrorCode.group_id_not_found
    assert World().delete_offsets(("t", 0), group="").error_code == ErrorCode.invalid_group_id


def test_a_subscription_that_cannot_be_read_counts_as_one_to_everything() -> None:
    world = World()
    world.stable(1, protocols={"range": b"\x00"})
    assert errors(world.delete_offsets(("t2", 0))) == {("t2", 0): ErrorCode.group_subscribed_to_topic}


def test_unknown_partitions_are_refused_beside_those_that_are_deleted() -> None:
    world = World()
    world.commit({("t", 0): 1})
    response = world.delete_offsets(("t", 0), ("t", 99), ("nowhere", 0))
    unknown = ErrorCode.unknown_topic_or_partition
    assert errors(response) == {("t", 0): OK, ("t", 99): unknown, ("nowhere", 0): unknown}
    assert world.fetch() == {}
    assert world.listed() == {"g": "Empty"}


def test_a_deletion_that_cannot_be_written_is_told() -> None:
    world = World()
    world.commit({("t", 0): 1})
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.delete_offsets(("t", 0)).error_code == ErrorCode.not_coordinator
    assert world.delete("g") == {"g": ErrorCode.not_coordinator}
    assert world.fetch() == {("t", 0): (1, OK)}


def test_only_groups_without_members_are_deleted() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.commit({("t", 0): 1}, member_id=member_id, generation=1)
    assert world.delete("g", "nowhere", "g") == {
        "g": ErrorCode.non_empty_group,
        "nowhere": ErrorCode.group_id_not_found,
    }
    world.leave(member_id)
    assert world.delete("g") == {"g": OK}
    assert world.fetch(("t", 0)) == {("t", 0): (-1, OK)}
    assert world.log.decoded()[-2:] == [OffsetForgotten("g", "t", 0), GroupForgotten("g")]
    assert world.delete("g") == {"g": ErrorCode.group_id_not_found}


def test_a_name_given_twice_is_deleted_and_answered_once() -> None:
    world = World()
    world.commit()
    results = world.ask(DeleteGroupsRequest(["g", "g"])).response.results
    assert [result.error_code for result in results] == [OK]
    assert list(world.ask(DeleteGroupsRequest([])).response.results) == []


def test_a_group_with_only_a_pending_id_is_deleted_with_it() -> None:
    world = World()
    member_id = world.join(version=4).response.member_id
    assert world.delete("g") == {"g": OK}
    assert world.join(member_id).error is ErrorCode.unknown_member_id
    world.pass_ms(10_000)
    assert world.listed() == {}


def test_a_stable_group_is_described_with_what_its_members_do() -> None:
    world = World()
    leader_id, follower_id = world.statics("a", "b")
    group = world.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (member.member_id, member.group_instance_id, member.client_id, member.client_host)
        for member in group.members
    ] == [
        (leader_id, "a", "client", "/127.0.0.1"),
        (follower_id, "b", "client", "/127.0.0.1"),
    ]
    assert group.members[1].member_metadata == subscription("t")
    assert group.members[1].member_assignment == assignment(("t", 1))
    assert group.authorized_operations == -2147483648


def test_a_group_that_rebalances_is_described_with_the_assignments_of_its_last_generation() -> None:
    world = World()
    leader_id, _ = world.stable(2)
    world.join(leader_id)
    group = world.describe()
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]
    assert [member.member_assignment for member in group.members] == [
        assignment(("t", 0)),
        assignment(("t", 1)),
    ]


@pytest.mark.parametrize(("version", "error_code"), [(5, OK), (6, ErrorCode.group_id_not_found)])
def test_a_missing_group_is_described_as_dead(version: int, error_code: ErrorCode) -> None:
    group = World().describe(version=version)
    assert (group.group_state, group.error_code) == ("Dead", error_code)
    assert (group.error_message is not None) is (version == 6)


def test_groups_are_described_as_often_as_asked_in_order() -> None:
    world = World()
    world.commit()
    groups = world.ask(DescribeGroupsRequest(["g", "x", "g"])).response.groups
    assert [(group.group_id, group.group_state) for group in groups] == [
        ("g", "Empty"),
        ("x", "Dead"),
        ("g", "Empty"),
    ]
    assert list(world.ask(DescribeGroupsRequest([])).response.groups) == []


def test_a_group_with_only_pending_ids_shows_as_empty() -> None:
    world = World()
    world.join(version=4)
    assert (world.describe().group_state, world.describe().protocol_type) == ("Empty", "")
    assert world.listed() == {"g": "Empty"}


def test_groups_are_listed_by_state_and_type_in_any_case() -> None:
    world = World()
    world.stable(1)
    world.commit(group="simple")
    assert {group.group_id for group in world.list_groups().groups} == {"g", "simple"}
    for states, types, expected in (
        (["stable"], [], {"g"}),
        (["STABLE", "eMpTy"], [], {"g", "simple"}),
        ([" stable\t"], [], {"g"}),
        (["\N{NO-BREAK SPACE}stable"], [], set()),
        (["nonsense"], [], set()),
        ([], ["consumer"], set()),
        ([], [" classic"], set()),
        ([], ["Classic"], {"g", "simple"}),
        (["Empty"], ["classic"], {"simple"}),
    ):
        found = {group.group_id for group in world.list_groups(states, types).groups}
        assert found == expected, (states, types)
    assert {group.group_type for group in world.list_groups().groups} == {"classic"}


def test_a_topic_named_twice_loses_all_the_offsets_that_were_named() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t", 1): 1})
    pieces = [
        OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index) for index in indexes])
        for indexes in ((0, 0), (1, 99))
    ]
    call: Call[OffsetDeleteResponse] = world.ask(OffsetDeleteRequest("g", pieces))
    (topic,) = call.response.topics
    assert sorted(each.partition_index for each in topic.partitions) == [0, 0, 1, 99]
    assert world.fetch() == {}
