"""The group coordinator within a broker: where it is found, what the wire says, what the disk does to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.apis.find_coordinator import KEYS_AT_ONCE
from klamm.broker.cluster.topic_names import EVENTS_TOPIC, OFFSETS_TOPIC
from klamm.broker.coordinators.events import LOG_AFTER_S, MAX_ALIKE_LINES
from klamm.broker.metrics.groups import group_families
from klamm.coordinator.group.events import GroupRemoved
from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.testing.requests import a_produce

NOT_THERE = ErrorCode.coordinator_not_available
LATEST = {
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.INSPECT_GROUPS: 0,
}
OLDEST = {ApiKey.OFFSET_COMMIT: 2, ApiKey.OFFSET_FETCH: 1}


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"group.initial.rebalance.delay.ms": "100", "offsets.topic.num.partitions": "4"})
    jar.create_topic("t", partitions=3)
    yield jar
    jar.close()


def find(client: JarClient, key: str = "g", key_type: int = 0, version: int = 2) -> Any:
    return client.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(key, key_type))


def ready(jar: Jar) -> JarClient:
    """A client of a broker whose groups have a topic to live in."""
    client = jar.connect()
    find(client)
    jar.pass_ms(10)
    return client


def joining(member_id: str = "", session_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", bytes.fromhex("000000000001000174ffffffff"))],
    )


def join(jar: Jar, client: JarClient, version: int = 9) -> Any:
    """Join as a client of that version does; the answer."""
    client.send(ApiKey.JOIN_GROUP, version, joining())
    jar.pass_ms(300)
    (answer,) = client.new_answers()
    if answer.error_code == ErrorCode.member_id_required:
        client.send(ApiKey.JOIN_GROUP, version, joining(answer.member_id))
        jar.pass_ms(300)
        (answer,) = client.new_answers()
    return answer


def sync(member_id: str, assignment: bytes = b"mine") -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id, assignment)],
    )


def settled(jar: Jar) -> tuple[JarClient, str]:
    """A group of one, and who is in it."""
    client = ready(jar)
    member_id = join(jar, client).member_id
    assert client.ask(ApiKey.SYNC_GROUP, 5, sync(member_id)).error_code == 0
    return client, member_id


def commit(offset: int, topic_id: bytes = bytes(16)) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, offset, -1, "")
    return OffsetCommitRequest(
        group_id="simple", topics=[OffsetCommitRequestTopic(topic_id, "t", [partition])]
    )


def fetched(client: JarClient) -> int:
    request = OffsetFetchRequest(group_id="simple", topics=[OffsetFetchRequestTopic("t", [0])])
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, request)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def state_of(client: JarClient) -> str:
    described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g"]))
    state: str = described.groups[0].group_state
    return state


# --- where a coordinator is found ----------------------------------------------------------------------


def test_the_first_question_creates_the_topic_and_the_second_is_answered() -> None:
    jar = Jar()
    client = jar.connect()
    first = find(client, version=0)
    assert (first.error_code, first.node_id, first.host, first.port) == (NOT_THERE, -1, "", -1)
    jar.pass_ms(10)
    second = find(client, version=0)
    assert (second.error_code, second.node_id) == (0, jar.config.node_id)
    described = client.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=OFFSETS_TOPIC)]))
    assert described.topics[0].is_internal
    assert len(described.topics[0].partitions) == 50
    topic = jar.services.partitions.get(OFFSETS_TOPIC, 0)
    assert topic is not None
    assert topic.log.config.cleanup_policy == {"compact"}
    jar.close()


@pytest.mark.parametrize("key_type", [2, 9, -1])
def test_other_kinds_of_coordinators_do_not_exist(jar: Jar, key_type: int) -> None:
    assert find(jar.connect(), key_type=key_type).error_code == ErrorCode.invalid_request


def test_several_keys_are_answered_in_order_as_often_as_asked(jar: Jar) -> None:
    client = ready(jar)
    request = FindCoordinatorRequest(coordinator_keys=["b", "a", "b"])
    answer = client.ask(ApiKey.FIND_COORDINATOR, 4, request)
    assert [(each.key, each.error_code) for each in answer.coordinators] == [("b", 0), ("a", 0), ("b", 0)]
    assert client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest()).coordinators == []
    many = [f"group-{number}" for number in range(3 * KEYS_AT_ONCE + 1)]
    found = client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=many))
    assert [each.key for each in found.coordinators] == many
    assert {(each.error_code, each.node_id) for each in found.coordinators} == {(0, 1)}


def test_a_group_whose_partition_cannot_be_served_has_no_coordinator(jar: Jar) -> None:
    client = ready(jar)
    number = jar.services.groups.coordinator.partition_for("g")
    partition = jar.services.partitions.get(OFFSETS_TOPIC, number)
    assert partition is not None
    partition.fail(ErrorCode.kafka_storage_error)
    jar.loop.settle()
    assert find(client).error_code == NOT_THERE
    heartbeat = HeartbeatRequest("g", 1, "m")
    assert client.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code == ErrorCode.not_coordinator


def test_the_topic_has_no_more_replicas_than_there_are_brokers() -> None:
    jar = Jar({"offsets.topic.replication.factor": "3"})
    client = jar.connect()
    assert find(client).error_code == NOT_THERE
    jar.pass_ms(100)
    assert find(client).error_code == 0
    topic = jar.services.image.topic(OFFSETS_TOPIC)
    assert topic is not None
    assert {state.replicas for state in topic.partitions} == {(1,)}
    jar.close()


def test_nobody_else_writes_to_the_topic(jar: Jar) -> None:
    client = ready(jar)
    answer = client.ask(ApiKey.PRODUCE, 9, a_produce(jar, topic=OFFSETS_TOPIC))
    error_code = answer.responses[0].partition_responses[0].error_code
    assert error_code == ErrorCode.invalid_topic_exception


# --- the wire ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", range(10))
def test_a_member_of_any_age_joins_works_and_leaves(jar: Jar, age: int) -> None:
    client = ready(jar)

    def at(api_key: ApiKey) -> int:
        return max(LATEST[api_key] - 9 + age, OLDEST.get(api_key, 0))

    joined = join(jar, client, at(ApiKey.JOIN_GROUP))
    assert (joined.error_code, joined.generation_id) == (0, 1)
    member_id = joined.member_id
    assert client.ask(ApiKey.SYNC_GROUP, at(ApiKey.SYNC_GROUP), sync(member_id)).assignment == b"mine"
    heartbeat = HeartbeatRequest("g", 1, member_id)
    assert client.ask(ApiKey.HEARTBEAT, at(ApiKey.HEARTBEAT), heartbeat).error_code == 0
    request = commit(7)
    request.group_id, request.member_id, request.generation_id_or_member_epoch = "g", member_id, 1
    committed = client.ask(ApiKey.OFFSET_COMMIT, at(ApiKey.OFFSET_COMMIT), request)
    assert committed.topics[0].partitions[0].error_code == 0
    fetch = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic("t", [0])],
        groups=[
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
        ],
    )
    answer = client.ask(ApiKey.OFFSET_FETCH, at(ApiKey.OFFSET_FETCH), fetch)
    topics = answer.groups[0].topics if answer.groups else answer.topics
    assert topics[0].partitions[0].committed_offset == 7
    described = client.ask(ApiKey.DESCRIBE_GROUPS, at(ApiKey.DESCRIBE_GROUPS), DescribeGroupsRequest(["g"]))
    assert (described.groups[0].group_state, len(described.groups[0].members)) == ("Stable", 1)
    assert described.groups[0].members[0].client_host == "/10.0.0.1"
    listed = client.ask(ApiKey.LIST_GROUPS, at(ApiKey.LIST_GROUPS), ListGroupsRequest())
    assert [group.group_id for group in listed.groups] == ["g"]
    leave = LeaveGroupRequest("g", [MemberIdentity(member_id)], member_id)
    assert client.ask(ApiKey.LEAVE_GROUP, at(ApiKey.LEAVE_GROUP), leave).error_code == 0
    deleted = client.ask(ApiKey.DELETE_GROUPS, at(ApiKey.DELETE_GROUPS), DeleteGroupsRequest(["g"]))
    assert deleted.results[0].error_code == 0


def test_offsets_are_committed_by_topic_id_and_deleted_by_name(jar: Jar) -> None:
    client = ready(jar)
    topic = jar.services.image.topic("t")
    assert topic is not None
    answer = client.ask(ApiKey.OFFSET_COMMIT, 10, commit(5, topic.topic_id))
    assert answer.topics[0].partitions[0].error_code == 0
    assert fetched(client) == 5
    delete = OffsetDeleteRequest("simple", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
    deleted = client.ask(ApiKey.OFFSET_DELETE, 0, delete)
    assert (deleted.error_code, deleted.topics[0].partitions[0].error_code) == (0, 0)
    assert fetched(client) == -1


def test_a_deleted_topic_takes_its_offsets_along(jar: Jar) -> None:
    client = ready(jar)
    client.ask(ApiKey.OFFSET_COMMIT, 8, commit(5))
    jar.delete_topic("t")
    jar.loop.settle()
    assert fetched(client) == -1


# --- time and the disk ---------------------------------------------------------------------------------


def test_a_silent_member_is_removed_when_its_session_is_over(jar: Jar) -> None:
    client, member_id = settled(jar)
    jar.pass_ms(9_000)
    heartbeat = HeartbeatRequest("g", 1, member_id)
    assert client.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code == 0
    jar.pass_ms(9_990)
    assert state_of(client) == "Stable"
    jar.pass_ms(20)
    assert state_of(client) == "Empty"


def test_a_heartbeat_that_came_while_the_broker_stood_still_counts(jar: Jar) -> None:
    client, member_id = settled(jar)
    client.new_answers()
    loop = jar.loop
    jar.clock.advance(30_000)
    # As sockets do it: what is there is read after the timers that are due.
    heartbeat = client.request(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, member_id))
    loop.call_soon(loop.call_soon, client.protocol.data_received, heartbeat)
    jar.pass_ms(10)
    assert client.new_answers()[0].error_code == 0
    assert state_of(client) == "Stable"
    jar.pass_ms(10_000)
    assert state_of(client) == "Empty"


def test_a_commit_is_answered_when_the_disk_has_it(jar: Jar) -> None:
    client = ready(jar)
    jar.disk.delay_ms = 50
    client.send(ApiKey.OFFSET_COMMIT, 8, commit(5))
    jar.pass_ms(49)
    assert client.new_answers() == []
    jar.pass_ms(10)
    assert client.new_answers()[0].topics[0].partitions[0].error_code == 0


def test_commits_of_one_connection_share_a_flush(jar: Jar) -> None:
    client = ready(jar)
    jar.disk.delay_ms = 50
    rounds = jar.services.flusher.rounds
    client.send_bytes(
        b"".join(client.request(ApiKey.OFFSET_COMMIT, 8, commit(number)) for number in range(20))
    )
    jar.pass_ms(120)
    assert len(client.new_answers()) == 20
    assert jar.services.flusher.rounds <= rounds + 2


@pytest.mark.parametrize("in_one_piece", [True, False])
@pytest.mark.parametrize("require_stable", [True, False])
def test_a_fetch_behind_a_commit_of_its_connection_finds_it(
    jar: Jar, in_one_piece: bool, require_stable: bool
) -> None:
    client = ready(jar)
    client.ask(ApiKey.OFFSET_COMMIT, 8, commit(1))
    jar.disk.delay_ms = 50
    fetch = OffsetFetchRequest(
        group_id="simple", topics=[OffsetFetchRequestTopic("t", [0])], require_stable=require_stable
    )
    pieces = [
        client.request(ApiKey.OFFSET_COMMIT, 8, commit(2)),
        client.request(ApiKey.OFFSET_FETCH, 7, fetch),
    ]
    for piece in [b"".join(pieces)] if in_one_piece else pieces:
        client.send_bytes(piece)
        jar.pass_ms(1)
    jar.pass_ms(120)
    _, found = client.new_answers()
    assert (found.topics[0].partitions[0].committed_offset, found.error_code) == (2, 0)


def test_a_flush_that_fails_is_told_and_forgotten(jar: Jar) -> None:
    client = ready(jar)
    client.ask(ApiKey.OFFSET_COMMIT, 8, commit(1))
    jar.files.faults.append(FailingOperation("sync"))
    client.send(ApiKey.OFFSET_COMMIT, 8, commit(2))
    jar.pass_ms(20)
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    assert fetched(client) == 1
    client.send(ApiKey.OFFSET_COMMIT, 8, commit(3))
    jar.pass_ms(20)
    assert client.new_answers()[0].topics[0].partitions[0].error_code == 0
    assert fetched(client) == 3


def test_a_power_loss_leaves_every_promise_and_every_member() -> None:
    jar = Jar({"group.initial.rebalance.delay.ms": "100", "offsets.topic.num.partitions": "4"})
    jar.create_topic("t")
    client, member_id = settled(jar)
    client.ask(ApiKey.OFFSET_COMMIT, 8, commit(5))
    jar.files.crash()
    again = Jar(clock=jar.clock, files=jar.files, cluster=jar.cluster)
    client = again.connect()
    again.pass_ms(10)
    assert fetched(client) == 5
    heartbeat = HeartbeatRequest("g", 1, member_id)
    assert client.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code == 0
    again.pass_ms(10_000)
    assert client.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code == ErrorCode.unknown_member_id
    again.close()


def test_shards_are_loaded_one_after_the_other_and_everybody_else_has_a_turn_in_between(jar: Jar) -> None:
    ready(jar)
    turns: list[str] = []

    class Long:
        epoch, status = 0, ShardStatus.LOADING

        def __init__(self, name: str, parts: int) -> None:
            self.name, self.parts = name, parts

        def load_some(self, context: object, max_bytes: int) -> bool:
            self.parts -= 1
            turns.append(self.name)
            jar.loop.call_soon(turns.append, "others")
            return not self.parts

    for shard in (Long("a", 2), Long("b", 1)):
        jar.services.groups.load(cast(Shard, shard))
    jar.loop.settle()
    assert turns == ["a", "others", "a", "others", "b", "others"]


def test_whoever_waits_when_the_broker_stops_is_not_left_waiting(jar: Jar) -> None:
    client = ready(jar)
    client.send(ApiKey.JOIN_GROUP, 3, joining())
    jar.loop.run(jar.broker.stop())
    assert client.is_closed


# --- events --------------------------------------------------------------------------------------------


def test_what_happened_to_a_group_can_be_read_from_a_topic(jar: Jar) -> None:
    client, member_id = settled(jar)
    client.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest("g", [MemberIdentity(member_id, None, "done")]))
    jar.pass_ms(250)
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    log = partition.log
    raw = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
    events = [
        json.loads(record.value or b"")
        for position, _ in iter_headers(raw)
        for record in decode_records(raw, position)
    ]
    assert [event["type"] for event in events] == [
        "rebalance_started",
        "rebalance_completed",
        "member_removed",
        "rebalance_started",
        "group_emptied",
    ]
    assert {event["group_id"] for event in events} == {"g"}
    assert events[1]["generation_before"] == 0
    assert events[1]["generation_after"] == 1
    assert events[2]["reason"] == "done"
    assert events[2]["client_host"] == "/10.0.0.1"


def test_what_happened_last_is_on_record_when_the_broker_stops(jar: Jar) -> None:
    client, member_id = settled(jar)
    jar.pass_ms(250)
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    log = partition.log
    before = log.log_end_offset
    client.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest("g", [MemberIdentity(member_id)]))
    assert log.log_end_offset == before  # nobody waits for it
    jar.services.stop_coordinators()
    assert log.log_end_offset == before + 3


def test_the_log_has_one_line_for_many_events_that_are_alike(
    jar: Jar, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "klamm.broker.coordinators.events")
    writer = jar.services.events
    for key, count in (("many", MAX_ALIKE_LINES + 3), ("few", 2)):
        for number in range(count):
            writer.tell(GroupRemoved(group_id=key, timestamp_ms=0, cause="a test", generation=number))
    assert not caplog.messages
    jar.pass_ms(round(LOG_AFTER_S * 1000))
    lines = caplog.messages
    assert len(lines) == MAX_ALIKE_LINES + 1 + 2
    assert lines[MAX_ALIKE_LINES] == "many: 3 more events like this one are in __klamm_events"
    assert "few" in lines[-1]
    jar.pass_ms(1_000)
    assert len(caplog.messages) == len(lines)


def test_what_happens_without_a_pause_is_on_record_within_two_seconds(jar: Jar) -> None:
    settled(jar)
    jar.pass_ms(250)
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    before = partition.log.log_end_offset
    for number in range(40):
        jar.services.groups.tell(GroupRemoved(group_id=f"g{number}", timestamp_ms=0, cause="c", generation=0))
        jar.pass_ms(50)
        if number < 10:
            assert partition.log.log_end_offset == before  # others may be waiting for their answers
    assert before + 20 <= partition.log.log_end_offset < before + 40


# --- figures -------------------------------------------------------------------------------------------


def test_groups_are_counted_by_what_they_do_and_what_was_done_for_them(jar: Jar) -> None:
    client, _ = settled(jar)
    client.ask(ApiKey.OFFSET_COMMIT, 9, commit(1))
    client.ask(ApiKey.OFFSET_COMMIT, 9, commit(2))
    found = figures(jar)
    manager, coordinator = "kafka_server_groupmetadatamanager_", "kafka_server_group_coordinator_metrics_"
    assert (found[f"{manager}numgroups"], found[f"{manager}numoffsets"]) == (2, 1)
    assert (found[f"{manager}numgroupsstable"], found[f"{manager}numgroupsempty"]) == (1, 1)
    assert found[f"{manager}numgroupspreparingrebalance"] == 0
    assert found["klamm_group_members"] == 1
    assert found[f"{coordinator}group_completed_rebalance_count"] == 1
    assert found[f"{coordinator}offset_commit_count"] == 2
    assert found[f"{coordinator}num_partitions active"] == 4

    client.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["simple"]))
    found = figures(jar)
    assert (found[f"{manager}numgroups"], found[f"{manager}numoffsets"]) == (1, 0)
    assert found[f"{coordinator}offset_deletion_count"] == 1
    assert found[f"{coordinator}offset_expiration_count"] == 0


def figures(jar: Jar) -> dict[str, float]:
    found = {}
    for family in group_families(jar.services.groups):
        for sample in family.samples:
            assert sample is not None
            _, labels, value = sample
            assert not isinstance(labels, str)
            found[" ".join((family.name, *labels.values())).removesuffix(" classic")] = value
    return found


NAMES = [f"late-{number}" for number in range(40)]


def _of_all_groups() -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=topics) for name in NAMES])


@pytest.mark.parametrize(
    ("api_key", "request_of", "seen"),
    [
        (ApiKey.LIST_GROUPS, ListGroupsRequest, lambda answer: [each.group_id for each in answer.groups]),
        (
            ApiKey.DESCRIBE_GROUPS,
            lambda: DescribeGroupsRequest(NAMES),
            lambda answer: [each for each in answer.groups if not each.error_code],
        ),
        (
            ApiKey.DELETE_GROUPS,
            lambda: DeleteGroupsRequest(NAMES),
            lambda answer: [each for each in answer.results if not each.error_code],
        ),
        (
            ApiKey.INSPECT_GROUPS,
            lambda: InspectGroupsRequest(NAMES),
            lambda answer: [each for each in answer.groups if not each.error_code],
        ),
        (
            ApiKey.OFFSET_FETCH,
            _of_all_groups,
            lambda answer: [
                each for each in answer.groups if each.topics[0].partitions[0].committed_offset != -1
            ],
        ),
    ],
)
def test_a_request_about_many_groups_sees_nothing_of_what_its_connection_asks_later(
    jar: Jar, api_key: ApiKey, request_of: Any, seen: Any
) -> None:
    client = ready(jar)
    sent = client.request(api_key, LATEST[api_key], request_of())
    for name in NAMES:
        later = commit(1)
        later.group_id = name
        sent += client.request(ApiKey.OFFSET_COMMIT, LATEST[ApiKey.OFFSET_COMMIT], later)
    client.send_bytes(sent)
    jar.pass_ms(100)
    first, *commits = client.new_answers()
    assert seen(first) == []
    assert [each.topics[0].partitions[0].error_code for each in commits] == [0] * len(NAMES)
