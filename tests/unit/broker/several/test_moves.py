"""Leadership moves while requests wait and clients work."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from random import Random
from typing import Any

import pytest

from internals.jar import JarClient
from internals.shared_jar import JarNode, SharedJar
from klamm.broker.cluster.leader_events import LeaderEventCause
from klamm.broker.cluster.topic_names import EVENTS_TOPIC, OFFSETS_TOPIC
from klamm.broker.metrics.exposition import render
from klamm.broker.metrics.partitions import partition_families
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.testing.requests import a_batch, a_fetch, a_produce
from unit.broker.several.asking import (
    a_commit,
    a_join,
    a_sync,
    an_offset_fetch,
    commit,
    committed,
    coordinator_id,
    fetch,
    find,
    heartbeat,
    key_of,
    make_internal_topics,
    produce,
    shard_of,
)

FENCED = 74


@pytest.fixture
def jar(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    jar = make_cluster(settings={"group.initial.rebalance.delay.ms": "0"})
    jar.create_topic()
    make_internal_topics(jar)
    return jar


def move_group(jar: SharedJar, group: str) -> JarNode:
    """The shard of a group moves to the next broker, which loads it."""
    present = coordinator_id(jar, group)
    to = present % 3 + 1
    jar.move(OFFSETS_TOPIC, shard_of(group), to)
    jar.pass_ms(20)
    return jar[to]


class Member:
    """A member of a group, request by request."""

    def __init__(self, node: JarNode, group: str) -> None:
        self.group = group
        self.client: JarClient = node.connect()
        self.member_id = ""
        self.generation = -1

    def join(self, protocol: bytes = b"") -> None:
        """With other metadata than before a member causes a rebalance."""
        self.client.send(ApiKey.JOIN_GROUP, 3, a_join(self.group, self.member_id, protocol=protocol))

    def joined(self) -> Any:
        (answer,) = self.client.new_answers()
        if answer.error_code == 0:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, *members: str) -> None:
        self.client.send(ApiKey.SYNC_GROUP, 3, a_sync(self.group, self.member_id, self.generation, *members))


def a_stable_group(jar: SharedJar, group: str) -> tuple[Member, Member]:
    """Two members with their assignments."""
    node = jar[coordinator_id(jar, group)]
    first, second = Member(node, group), Member(node, group)
    first.join()
    jar.loop.settle()
    first.joined()
    second.join()
    first.join()
    jar.loop.settle()
    assert first.joined().error_code == second.joined().error_code == 0
    first.sync(first.member_id, second.member_id)
    second.sync()
    jar.loop.settle()
    for member in (first, second):
        (answer,) = member.client.new_answers()
        assert (answer.error_code, bytes(answer.assignment)) == (0, member.member_id.encode())
    return first, second


# scenario 20
def test_members_that_wait_in_a_join_or_a_sync_are_sent_to_the_new_coordinator(jar: SharedJar) -> None:
    group = key_of(jar, 1)
    first, second = a_stable_group(jar, group)
    second.join(b"new")
    other = key_of(jar, 1, number=1)
    lone, late = Member(jar[1], other), Member(jar[1], other)
    lone.join()
    jar.loop.settle()
    lone.joined()
    late.join()
    lone.join()
    jar.loop.settle()
    lone.joined()
    late.joined()
    follower = late if late.member_id != lone.member_id else lone
    follower.sync()
    jar.loop.settle()
    assert second.client.new_answers() == follower.client.new_answers() == []
    for each in {shard_of(group), shard_of(other)}:
        jar.move(OFFSETS_TOPIC, each, 2)
    (joined,) = second.client.new_answers()
    assert (joined.error_code, joined.member_id) == (16, second.member_id)
    (synced,) = follower.client.new_answers()
    assert synced.error_code == 16
    assert not second.client.is_closed
    assert not follower.client.is_closed
    for node in jar.nodes.values():
        found = find(node, group)
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 2, "node2", 9092)
    assert first.client.new_answers() == []


@pytest.mark.parametrize(("epoch", "code"), [(0, FENCED), (-1, 6)])
# scenario 21
def test_a_parked_fetch_is_sent_to_the_new_leader(jar: SharedJar, epoch: int, code: int) -> None:
    topic = jar[1].services.image.topic("t")
    assert topic is not None
    clients = {version: jar[1].connect() for version in (12, 17)}
    for version, client in clients.items():
        request = a_fetch(jar[1], topic_id=topic.topic_id, leader_epoch=epoch, max_wait_ms=60_000)
        client.send(ApiKey.FETCH, version, request)
    jar.pass_ms(10)
    jar.move("t", 0, 3)
    for version, client in clients.items():
        (answer,) = client.new_answers()
        (data,) = answer.responses[0].partitions
        assert data.error_code == code
        if version == 17:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (3, 1)
            assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(3, 9093)]
        else:
            assert (data.current_leader, list(answer.node_endpoints)) == (None, [])


# scenario 22
def test_a_held_produce_names_the_new_leader_and_its_retry_is_stored_once(jar: SharedJar) -> None:
    jar[1].disk.delay_ms = 50
    batches = [a_batch(jar[1], producer_id=9, base_sequence=sequence) for sequence in (0, 1)]
    single, several = jar[1].connect(), jar[1].connect()
    single.send(ApiKey.PRODUCE, 10, a_produce(jar[1], batches[0]))
    two = {("t", 0): batches[1], ("t", 1): a_batch(jar[1])}
    several.send(ApiKey.PRODUCE, 10, a_produce(jar[1], batches=two))
    jar.loop.settle()
    assert single.new_answers() == several.new_answers() == []
    jar[1].disk.delay_ms = 0
    jar.move("t", 0, 2)
    for client, offset in ((single, 0), (several, 1)):
        (answer,) = client.new_answers()
        line = answer.responses[0].partition_responses[0]
        assert (line.error_code, line.base_offset) == (6, offset)
        assert (line.current_leader.leader_id, line.current_leader.leader_epoch) == (2, 1)
        assert [each.node_id for each in answer.node_endpoints] == [2]
    for offset, batch in enumerate(batches):
        line = produce(jar[2], batch=batch)
        assert (line.error_code, line.base_offset) == (0, offset)
    assert fetch(jar[2]).responses[0].partitions[0].high_watermark == 2


# scenario 23
def test_a_commit_under_way_is_served_by_the_new_coordinator_if_it_was_acknowledged(
    jar: SharedJar,
) -> None:
    group = key_of(jar, 1)
    assert commit(jar[1], group, 1) == 0
    jar[1].disk.delay_ms = 50
    client = jar[1].connect()
    client.send(ApiKey.OFFSET_COMMIT, 8, a_commit(group, 2))
    jar.loop.settle()
    assert client.new_answers() == []
    jar[1].disk.delay_ms = 0
    node = move_group(jar, group)
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == 16
    error_code, offset = committed(node, group)
    assert error_code == 0
    assert offset in (1, 2), "the outcome is not known, but nothing is lost that was acknowledged"
    assert commit(node, group, 3) == 0
    assert committed(move_group(jar, group), group) == (0, 3)


# scenario 24
def test_a_stable_group_does_not_notice_that_its_shard_moves(jar: SharedJar) -> None:
    group = key_of(jar, 1)
    members = a_stable_group(jar, group)
    rebalances = sum(node.services.groups.completed_rebalances for node in jar.nodes.values())
    node = move_group(jar, group)
    for member in members:
        assert heartbeat(node, group, member.member_id, member.generation) == 0
        synced = node.ask(ApiKey.SYNC_GROUP, 3, a_sync(group, member.member_id, member.generation))
        assert (synced.error_code, bytes(synced.assignment)) == (0, member.member_id.encode())
    assert sum(each.services.groups.completed_rebalances for each in jar.nodes.values()) == rebalances
    # Their sessions are watched there from now on
    jar.pass_ms(31_000)
    assert heartbeat(node, group, members[0].member_id, members[0].generation) == 25


# scenario 25
def test_a_rebalance_that_was_open_is_forgotten_and_begins_anew(jar: SharedJar) -> None:
    group = key_of(jar, 1)
    first, second = a_stable_group(jar, group)
    generation = first.generation
    second.join(b"new")
    jar.loop.settle()
    assert heartbeat(jar[1], group, first.member_id, generation) == 27
    node = move_group(jar, group)
    (described,) = node.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group])).groups
    assert described.group_state == "Stable"
    assert heartbeat(node, group, first.member_id, generation) == 0
    second.client.new_answers()
    for member in (first, second):
        member.client = node.connect()
        member.join()
        jar.loop.settle()
    assert first.joined().generation_id == second.joined().generation_id == generation + 1


# scenario 26
def test_while_its_shard_loads_a_group_has_to_wait(jar: SharedJar, monkeypatch: pytest.MonkeyPatch) -> None:
    group = key_of(jar, 1)
    assert commit(jar[1], group, 5) == 0
    number = shard_of(group)
    with monkeypatch.context() as patch:
        patch.setattr(jar[2].services.groups, "load", lambda _: None)  # as if its turn never came
        jar.move(OFFSETS_TOPIC, number, 2)
    node = jar[2]
    shard = node.services.groups.shards.by_partition[number]
    assert find(node, group).node_id == 2
    assert heartbeat(node, group, "m", 1) == 0
    asked: list[tuple[JarClient, Callable[[Any], int]]] = []

    def ask(api_key: ApiKey, version: int, request: Any, error_code: Callable[[Any], int]) -> None:
        client = node.connect()
        client.send(api_key, version, request)
        asked.append((client, error_code))

    ask(ApiKey.JOIN_GROUP, 3, a_join(group), attrgetter("error_code"))
    ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, [MemberIdentity("m")]), attrgetter("error_code"))
    ask(ApiKey.OFFSET_COMMIT, 8, a_commit(group, 6), lambda it: it.topics[0].partitions[0].error_code)
    ask(ApiKey.OFFSET_FETCH, 8, an_offset_fetch(group), lambda it: it.groups[0].error_code)
    ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), lambda it: it.groups[0].error_code)
    ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), lambda it: it.results[0].error_code)
    ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest(), lambda it: it.error_code if not it.groups else -1)
    jar.pass_ms(999)
    assert all(not client.new_answers() for client, _ in asked)
    jar.pass_ms(2)
    assert [error_code(client.new_answers()[0]) for client, error_code in asked] == [14] * len(asked)
    # Who asks shortly before it is loaded does not notice
    late = node.connect()
    late.send(ApiKey.OFFSET_COMMIT, 8, a_commit(group, 7))
    jar.pass_ms(500)
    assert not late.new_answers()
    node.services.groups.load(shard)
    jar.pass_ms(20)
    (answer,) = late.new_answers()
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed(node, group) == (0, 7)


# scenario 27
def test_a_partition_moves_a_hundred_times_under_load(jar: SharedJar) -> None:
    random = Random(7)
    acknowledged: dict[int, int] = {}
    for sequence in range(100):
        leader = jar.state("t", 0).leader_id
        jar[leader].disk.delay_ms = random.choice((0, 1, 5))
        client = jar[leader].connect()
        batch = a_batch(jar[leader], value=str(sequence).encode(), producer_id=5, base_sequence=sequence)
        client.send(ApiKey.PRODUCE, 9, a_produce(jar[leader], batch))
        jar.pass_ms(random.choice((1, 3, 8)))
        jar.move("t", 0, leader % 3 + 1)
        jar.pass_ms(10)
        (answer,) = client.new_answers()
        line = answer.responses[0].partition_responses[0]
        if line.error_code == 6:
            line = produce(jar[leader % 3 + 1], batch=batch, version=9)
            jar.pass_ms(10)
        assert line.error_code == 0
        acknowledged[sequence] = line.base_offset
        assert jar.state("t", 0).leader_epoch == sequence + 1
    assert list(acknowledged.values()) == list(range(100)), "no loss, nothing twice, no gap"
    leader = jar.state("t", 0).leader_id
    data = fetch(jar[leader]).responses[0].partitions[0]
    epochs = [header.leader_epoch for _, header in iter_headers(bytes(data.records))]
    assert len(epochs) == 100
    assert epochs == sorted(epochs)


# scenario 32
def test_a_producer_with_several_batches_in_flight_has_each_of_them_once(jar: SharedJar) -> None:
    jar[1].disk.delay_ms = 20
    batches = [a_batch(jar[1], producer_id=4, base_sequence=sequence) for sequence in range(5)]
    client = jar[1].connect()
    for batch in batches:
        client.send(ApiKey.PRODUCE, 9, a_produce(jar[1], batch))
    jar.loop.settle()
    jar[1].disk.delay_ms = 0
    jar.move("t", 0, 2)
    assert len(client.new_answers()) == 5
    for offset, batch in enumerate(batches):
        line = produce(jar[2], batch=batch)
        assert (line.error_code, line.base_offset) == (0, offset)
    gap = a_batch(jar[2], producer_id=4, base_sequence=6)
    assert produce(jar[2], batch=gap).error_code == 45


# scenario 35
def test_only_the_partitions_of_a_dead_broker_move(jar: SharedJar) -> None:
    before = {
        (topic, each.partition): each
        for topic, states in jar.cluster.topics().items()
        for each in states.partitions
    }
    assert produce(jar[1]).base_offset == 0
    jar.kill(1)
    for (topic, number), state in before.items():
        now = jar.state(topic, number)
        if state.leader_id == 1:
            assert now.leader_id in (2, 3)
            assert now.leader_epoch == state.leader_epoch + 1
        else:
            assert now == state
    leader = jar[jar.state("t", 0).leader_id]
    assert produce(leader).base_offset == 1


# scenario 36
def test_commits_that_were_acknowledged_before_a_death_are_served_after_it(jar: SharedJar) -> None:
    groups = [key_of(jar, 1, number=number) for number in range(20)]
    jar[1].disk.delay_ms = 3
    client = jar[1].connect()
    for number, group in enumerate(groups):
        client.send(ApiKey.OFFSET_COMMIT, 8, a_commit(group, number + 1))
        if number == 10:
            jar.pass_ms(8)
    answers = client.new_answers()
    assert 0 < len(answers) < len(groups)
    jar.kill(1)
    jar.pass_ms(50)
    for number, group in enumerate(groups[: len(answers)]):
        assert answers[number].topics[0].partitions[0].error_code == 0
        assert committed(jar[coordinator_id(jar, group)], group) == (0, number + 1)


# scenario 37
def test_members_that_waited_in_a_join_at_a_dead_coordinator_join_again(jar: SharedJar) -> None:
    group = key_of(jar, 1)
    first, second = a_stable_group(jar, group)
    second.join(b"new")
    jar.loop.settle()
    jar.kill(1)
    jar.pass_ms(50)
    assert second.client.is_closed
    node = jar[coordinator_id(jar, group)]
    assert heartbeat(node, group, first.member_id, first.generation) == 0
    generation = first.generation
    for member in (first, second):
        member.client = node.connect()
        member.join()
        jar.loop.settle()
    assert first.joined().generation_id == second.joined().generation_id == generation + 1


def test_events_of_every_broker_are_written_to_one_topic(jar: SharedJar) -> None:
    for node_id in (1, 2, 3):
        a_stable_group(jar, key_of(jar, node_id))
    jar.pass_ms(2_000)
    jar.spread()
    jar.pass_ms(2_000)
    (state,) = jar.cluster.topics()[EVENTS_TOPIC].partitions
    data = fetch(jar[state.leader_id], topic=EVENTS_TOPIC).responses[0].partitions[0]
    records = bytes(data.records)
    for node_id in (1, 2, 3):
        assert key_of(jar, node_id).encode() in records


def test_moves_and_deaths_leave_an_event_and_are_counted(jar: SharedJar) -> None:
    jar.move("t", 0, 2)
    jar.kill(1)
    jar.pass_ms(2_000)
    jar.spread()
    jar.pass_ms(2_000)
    (state,) = jar.cluster.topics()[EVENTS_TOPIC].partitions
    data = fetch(jar[state.leader_id], topic=EVENTS_TOPIC).responses[0].partitions[0]
    events = [
        json.loads(record.value or b"{}")
        for position, header in iter_headers(bytes(data.records))
        for record in decode_records(bytes(data.records)[position : position + header.batch_length + 12])
    ]
    moved = [each for each in events if each["type"] == "leader_changed"]
    assert [
        (each["former_leader"], each["leader"], each["leader_epoch"], each["cause"])
        for each in moved
        if (each["topic"], each["partition"]) == ("t", 0)
    ] == [(1, 2, 1, "its leader handed it over")]
    gone = [each for each in moved if each["cause"] == "its leader stopped or died"]
    assert gone
    assert {each["former_leader"] for each in gone} == {1}
    page = render(partition_families(jar[2].services))
    assert b'klamm_leader_changes_total{cause="handed_over"} 1' in page


def test_a_death_is_the_cause_of_every_move_that_it_leads_to(jar: SharedJar) -> None:
    # More partitions than are opened in one turn of the event loop.
    jar.create_topic("many", [1] * 40)
    jar.kill(1)
    told = [events for node in jar.nodes.values() if (events := node.services.leader_events) is not None]
    assert sum(each.counts[LeaderEventCause.LEADER_GONE] for each in told) > 40
    assert sum(each.counts[LeaderEventCause.HANDED_OVER] for each in told) == 0
