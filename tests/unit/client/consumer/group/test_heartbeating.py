"""A member of the consumer protocol: what its heartbeats say, and what their answers make of it."""

from __future__ import annotations

import logging

import pytest

from klamm import SubscriptionPattern
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.group.heartbeating import PREVIOUS, HeartbeatState
from klamm.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalStateError,
    RebalanceListenerError,
    RetriableCommitFailedError,
    TopicAuthorizationError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.group.fake_coordinator import INTERVAL_MS, FakeCoordinator
from unit.client.consumer.world import Heard, World

ALL = partitions("t", [0, 1])


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


@pytest.fixture
def group(world: World) -> FakeCoordinator:
    group = FakeCoordinator(world.cluster)
    group.free = {"t": [0, 1]}
    return group


def a_member(world: World, **settings: object) -> tuple[Consumer, Heard]:
    heard = Heard()
    consumer = world.consumer(group_id="g", group_protocol="consumer", **settings)
    consumer.subscribe(["t"], heard)
    return consumer, heard


def a_stable_member(world: World, **settings: object) -> tuple[Consumer, Heard]:
    consumer, heard = a_member(world, **settings)
    consumer.poll(0.2)
    world.pass_time(10)
    heard.take()
    assert state_of(consumer) == "stable"
    return consumer, heard


def state_of(consumer: Consumer) -> str:
    return consumer.health().member_state


def test_the_first_heartbeat_says_everything_and_later_ones_what_has_changed(
    world: World, group: FakeCoordinator
) -> None:
    a_stable_member(world, max_poll_interval_ms=70_000, client_rack="r1", group_remote_assignor="range")
    first, acknowledged = group.heartbeats()
    assert (first.member_epoch, first.rebalance_timeout_ms) == (0, 70_000)
    assert (first.rack_id, first.server_assignor) == ("r1", "range")
    assert (list(first.subscribed_topic_names or ()), first.topic_partitions) == (["t"], [])
    assert len(first.member_id) == 22
    assert acknowledged.member_id == first.member_id
    assert acknowledged.member_epoch == 1
    assert group.owned(acknowledged) == {"t": [0, 1]}
    world.pass_time(INTERVAL_MS)
    kept_alive = group.heartbeats()[-1]
    assert kept_alive == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=first.member_id,
        member_epoch=1,
        topic_partitions=None,
        makes_member_id=True,
    )


def test_a_member_reads_what_it_is_granted(world: World, group: FakeCoordinator) -> None:
    world.cluster.produce(ALL[0], b"1", b"2")
    consumer, heard = a_member(world)
    assert [record.value for record in consumer.poll(5)] == [b"1", b"2"]
    assert heard.calls == [("assigned", ALL)]
    assert consumer.group_metadata().generation == 1


def test_the_interval_is_the_coordinators(world: World, group: FakeCoordinator) -> None:
    a_stable_member(world)
    before = len(group.heartbeats())
    world.pass_time(10 * INTERVAL_MS)
    assert len(group.heartbeats()) - before == 10


def test_a_partition_is_given_up_only_after_on_revoked_has_returned(
    world: World, group: FakeCoordinator
) -> None:
    # scenario 82 of consumer groups
    consumer, heard = a_stable_member(world)
    before = len(group.heartbeats())
    heard.do["revoked"] = lambda _partitions: world.pass_time(20_000)
    group.grant({"t": [0]})
    world.pass_time(INTERVAL_MS)
    consumer.poll(0.1)
    world.pass_time(10)
    told = [group.owned(request) for request in group.heartbeats()[before:]]
    assert told[:-1] == [None] * (len(told) - 1)
    assert len(told) > 20  # the session goes on meanwhile
    assert told[-1] == {"t": [0]}
    assert heard.take() == [("revoked", [ALL[1]]), ("assigned", [])]
    assert consumer.assignment() == {ALL[0]}


def test_what_goes_is_committed_before_it_goes(world: World, group: FakeCoordinator) -> None:
    world.cluster.produce(ALL[0], b"1", b"2", b"3")
    world.cluster.produce(ALL[1], b"1")
    consumer, heard = a_stable_member(world, auto_commit_interval_ms=10**6)
    world.settle(consumer, rounds=5)
    committed: list[dict[tuple[str, int], int]] = []
    heard.do["revoked"] = lambda _partitions: committed.append(dict(group.offsets))
    group.grant({"t": [1]})
    world.pass_time(INTERVAL_MS)
    consumer.poll(0.1)
    assert committed == [{("t", 0): 3}]


def test_a_newer_assignment_waits_for_the_one_that_is_reconciled(
    world: World, group: FakeCoordinator
) -> None:
    consumer, heard = a_stable_member(world)

    def meanwhile(_partitions: list[TopicPartition]) -> None:
        heard.do.clear()
        group.grant({"t": [1]})
        world.pass_time(2 * INTERVAL_MS)

    heard.do["revoked"] = meanwhile
    group.grant({"t": [0]})
    world.pass_time(INTERVAL_MS)
    consumer.poll(1)
    world.settle(consumer, rounds=3)
    assert heard.take() == [
        ("revoked", [ALL[1]]),
        ("assigned", []),
        ("revoked", [ALL[0]]),
        ("assigned", [ALL[1]]),
    ]
    assert state_of(consumer) == "stable"
    assert group.owned(group.heartbeats()[-1]) in ({"t": [1]}, None)


def test_a_callback_that_fails_is_raised_and_nothing_is_acknowledged(
    world: World, group: FakeCoordinator
) -> None:
    # scenario 83 of consumer groups
    consumer, heard = a_stable_member(world)
    before = len(group.heartbeats())

    def fails(_partitions: list[TopicPartition]) -> None:
        raise ValueError("not now")

    heard.do["revoked"] = fails
    group.grant({"t": [0]})
    world.pass_time(INTERVAL_MS)
    with pytest.raises(RebalanceListenerError, match="on_revoked"):
        consumer.poll(1)
    world.settle(consumer, rounds=50)
    assert {str(group.owned(request)) for request in group.heartbeats()[before:]} == {"None"}
    # The coordinator's rebalance timer removes the member in the end: it joins again.
    heard.do.clear()
    heard.take()
    group.fence()
    world.settle(consumer, rounds=30)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert state_of(consumer) == "stable"


def test_a_topic_that_is_unknown_yet_does_not_hold_up_the_others(
    world: World, group: FakeCoordinator
) -> None:
    # scenario 84 of consumer groups
    world.cluster.create("u", 1)
    consumer, heard = a_member(world)
    hidden = world.cluster.topics.pop("u")
    group.free = {"t": [0]}
    consumer.poll(0.1)
    (member,) = group.members.values()
    world.cluster.topics["u"] = hidden
    consumer.subscribe(["t", "u"], heard)
    world.cluster.hold(ApiKey.METADATA)
    member.assignment, member.is_news = {"t": [0], "u": [0]}, True
    world.settle(consumer, rounds=20)
    assert state_of(consumer) == "reconciling"
    assert consumer.assignment() == {ALL[0]}
    world.cluster.release(ApiKey.METADATA)
    world.settle(consumer, rounds=30)
    assert heard.take() == [("assigned", [ALL[0]]), ("assigned", partitions("u", [0]))]
    assert state_of(consumer) == "stable"


@pytest.mark.parametrize(
    "code", [ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found]
)
def test_a_fenced_member_loses_what_it_had_and_joins_again_with_its_id(
    world: World, group: FakeCoordinator, code: ErrorCode
) -> None:
    # scenario 85 of consumer groups
    consumer, heard = a_stable_member(world)
    member_id = consumer.group_metadata().member_id
    group.refuse(code)
    world.pass_time(INTERVAL_MS)
    assert state_of(consumer) == "fenced"
    before = len(group.heartbeats())
    world.pass_time(5 * INTERVAL_MS)
    assert len(group.heartbeats()) == before  # not before the listener knows
    consumer.poll(1)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    joined = group.heartbeats()[before]
    assert (joined.member_id, joined.member_epoch, joined.topic_partitions) == (member_id, 0, [])


def test_a_position_survives_an_answer_that_repeats_the_assignment(
    world: World, group: FakeCoordinator
) -> None:
    # scenario 87 of consumer groups
    world.cluster.produce(ALL[0], b"1", b"2", b"3")
    consumer, heard = a_stable_member(world)
    consumer.seek(ALL[0], 2)
    (member,) = group.members.values()
    member.assignment, member.is_news = {"t": [0, 1, 1, 0]}, True
    world.settle(consumer, rounds=15)
    assert consumer.position(ALL[0]) == 3
    assert heard.take() == []


def test_a_topic_that_is_created_again_is_revoked_and_assigned_anew(
    world: World, group: FakeCoordinator
) -> None:
    world.cluster.produce(ALL[0], b"old")
    consumer, heard = a_stable_member(world)
    world.settle(consumer, rounds=5)
    world.cluster.topics.pop("t")
    world.cluster.create("t", 2)
    world.cluster.produce(ALL[0], b"new")
    group.offsets.clear()
    group.grant({"t": [0, 1]})
    got = world.settle(consumer, rounds=60)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]
    assert got == {0: [b"new"]}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.fenced_instance_id, FencedInstanceIdError),
        (ErrorCode.group_max_size_reached, GroupMaxSizeReachedError),
        (ErrorCode.invalid_regular_expression, BrokerError),
        (ErrorCode.unsupported_assignor, BrokerError),
        (ErrorCode.unsupported_version, BrokerError),
    ],
)
def test_what_cannot_be_mended_is_raised_by_every_poll(
    world: World, group: FakeCoordinator, code: ErrorCode, kind: type[BrokerError]
) -> None:
    consumer, heard = a_stable_member(world)
    group.refuse(code)
    world.pass_time(INTERVAL_MS)
    for _ in range(3):
        with pytest.raises(kind) as raised:
            consumer.poll(1)
        assert raised.value.error_code == code
    assert heard.take() == [("lost", ALL)]
    before = len(group.heartbeats())
    world.pass_time(10 * INTERVAL_MS)
    assert len(group.heartbeats()) == before
    consumer.unsubscribe()
    consumer.subscribe(["t"], heard)
    consumer.poll(1)
    assert heard.take() == [("assigned", ALL)]


def test_a_topic_without_permission_is_raised_and_tried_again(world: World, group: FakeCoordinator) -> None:
    consumer, heard = a_member(world)
    group.refuse(ErrorCode.topic_authorization_failed)
    with pytest.raises(TopicAuthorizationError):
        consumer.poll(1)
    consumer.poll(2)
    assert heard.take() == [("assigned", ALL)]


def test_a_coordinator_that_has_moved_is_looked_up_and_told_everything(
    world: World, group: FakeCoordinator
) -> None:
    consumer, heard = a_stable_member(world)
    before = len(group.heartbeats())
    group.refuse(ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
    world.settle(consumer, rounds=15)
    moved, loading, told = group.heartbeats()[before : before + 3]
    assert moved.rebalance_timeout_ms == -1
    assert (loading.rebalance_timeout_ms, told.rebalance_timeout_ms) == (300_000, 300_000)
    assert group.owned(told) == {"t": [0, 1]}
    assert told.member_epoch == 1
    assert heard.take() == []


def test_an_instance_that_died_is_waited_for_one_session(world: World, group: FakeCoordinator) -> None:
    consumer, heard = a_member(world, group_instance_id="i")
    group.refuse(*[ErrorCode.unreleased_instance_id] * 5)
    consumer.poll(30)
    assert heard.take() == [("assigned", ALL)]
    assert all(request.instance_id == "i" for request in group.heartbeats())


def test_an_instance_that_is_held_by_a_live_member_fails_after_a_session(
    world: World, group: FakeCoordinator
) -> None:
    consumer, _ = a_member(world, group_instance_id="i")
    group.refuse(*[ErrorCode.unreleased_instance_id] * 1_000)
    began_at_ms = world.clock.now_ms()
    with pytest.raises(BrokerError, match="UNRELEASED_INSTANCE_ID"):
        consumer.poll(100)
    assert 45_000 <= world.clock.now_ms() - began_at_ms < 50_000


def test_where_the_group_is_loaded_again_the_wait_for_an_instance_begins_again(
    world: World, group: FakeCoordinator
) -> None:
    consumer, heard = a_member(world, group_instance_id="i")
    group.refuse(*[ErrorCode.unreleased_instance_id] * 40, ErrorCode.not_coordinator)
    group.refuse(*[ErrorCode.unreleased_instance_id] * 30)
    began_at_ms = world.clock.now_ms()
    consumer.poll(100)
    assert heard.take() == [("assigned", ALL)]
    assert world.clock.now_ms() - began_at_ms > 50_000


def test_where_the_broker_restarts_between_two_heartbeats_the_wait_for_an_instance_begins_again(
    world: World, group: FakeCoordinator
) -> None:
    consumer, heard = a_member(world, group_instance_id="i")
    group.refuse(*[ErrorCode.unreleased_instance_id] * 70)
    consumer.poll(30)
    for link in world.hosts[0].transport.links:
        link.lose()
    consumer.poll(100)
    assert heard.take() == [("assigned", ALL)]


@pytest.mark.parametrize(
    ("instance_id", "leave", "epochs"),
    [(None, None, [-1]), (None, False, []), (None, True, [-1]), ("i", None, [-2]), ("i", True, [-1])],
)
def test_a_member_leaves_as_told(
    world: World, group: FakeCoordinator, instance_id: str | None, leave: bool | None, epochs: list[int]
) -> None:
    settings = {} if instance_id is None else {"group_instance_id": instance_id}
    consumer, heard = a_stable_member(world, **settings)
    before = len(group.heartbeats())
    consumer.close(leave=leave)
    assert [request.member_epoch for request in group.heartbeats()[before:]] == epochs
    assert heard.take() == [("revoked", ALL)]


def test_a_member_that_closes_while_it_joins_leaves_too(world: World, group: FakeCoordinator) -> None:
    world.cluster.hold(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    consumer, _ = a_member(world)
    consumer.poll(0.5)
    consumer.close(timeout=1)
    assert [request.member_epoch for request in group.heartbeats()] == [0, -1]


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_does_not_poll_leaves_and_joins_with_the_next_poll(
    world: World, group: FakeCoordinator, instance_id: str | None, epoch: int
) -> None:
    # scenario 86 of consumer groups
    settings = {} if instance_id is None else {"group_instance_id": instance_id}
    consumer, heard = a_stable_member(world, max_poll_interval_ms=60_000, **settings)
    world.pass_time(61_000)
    assert group.heartbeats()[-1].member_epoch == epoch
    assert state_of(consumer) == "stale"
    with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms is 60000"):
        consumer.commit_sync({ALL[0]: 1})
    consumer.poll(1)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert state_of(consumer) == "stable"


def test_a_changed_subscription_is_told_at_once(world: World, group: FakeCoordinator) -> None:
    world.cluster.create("u", 1)
    consumer, heard = a_stable_member(world)
    before = len(group.heartbeats())
    consumer.subscribe(["u"], heard)
    world.pass_time(10)
    (told,) = group.heartbeats()[before:]
    assert list(told.subscribed_topic_names or ()) == ["u"]
    assert told.rebalance_timeout_ms == -1


def test_a_pattern_of_python_is_matched_here_and_its_topics_are_sent(
    world: World, group: FakeCoordinator
) -> None:
    world.cluster.create("tea", 1)
    consumer = world.consumer(group_id="g", group_protocol="consumer")
    consumer.subscribe(pattern="t.*")
    consumer.poll(1)
    names = [list(request.subscribed_topic_names or ()) for request in group.heartbeats()]
    assert ["t", "tea"] in names


def test_a_subscription_pattern_is_sent_as_it_is(world: World, group: FakeCoordinator) -> None:
    heard = Heard()
    consumer = world.consumer(group_id="g", group_protocol="consumer")
    consumer.subscribe(pattern=SubscriptionPattern("t.*"), listener=heard)
    consumer.poll(1)
    first = group.heartbeats()[0]
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (None, "t.*")
    assert heard.take() == [("assigned", ALL)]


def test_a_subscription_pattern_needs_the_consumer_protocol(world: World) -> None:
    consumer = world.consumer(group_id="g")
    with pytest.raises(IllegalStateError, match=r"needs group\.protocol=consumer"):
        consumer.subscribe(pattern=SubscriptionPattern("t.*"))


def test_a_commit_with_an_old_epoch_is_repeated_with_the_new_one(
    world: World, group: FakeCoordinator
) -> None:
    consumer, _ = a_stable_member(world)
    (member,) = group.members.values()
    member.epoch += 1  # the member will hear of it with its next heartbeat
    consumer.commit_sync({ALL[0]: 7})
    assert group.offsets == {("t", 0): 7}
    commits = world.cluster.requests(ApiKey.OFFSET_COMMIT)
    epochs = [each.generation_id_or_member_epoch for each in commits]
    assert (epochs[0], epochs[-1]) == (1, 2)


def test_an_asynchronous_commit_with_an_old_epoch_may_be_repeated(
    world: World, group: FakeCoordinator
) -> None:
    consumer, _ = a_stable_member(world)
    (member,) = group.members.values()
    member.epoch += 1
    errors: list[object] = []
    consumer.commit_async({ALL[0]: 7}, lambda _offsets, error: errors.append(error))
    consumer.poll(0.1)
    assert [type(error) for error in errors] == [RetriableCommitFailedError]


def test_a_commit_of_a_removed_member_fails(world: World, group: FakeCoordinator) -> None:
    consumer, _ = a_stable_member(world)
    group.fence()
    with pytest.raises(CommitFailedError, match="UNKNOWN_MEMBER_ID"):
        consumer.commit_sync({ALL[0]: 7})


def test_committed_offsets_are_read_with_the_newest_epoch_and_never_reset(
    world: World, group: FakeCoordinator
) -> None:
    # scenario 88 of consumer groups
    world.cluster.produce(ALL[0], b"1", b"2", b"3")
    group.offsets["t", 0] = 2
    consumer, _ = a_member(world)
    world.cluster.hold(ApiKey.OFFSET_FETCH)
    consumer.poll(0.2)
    (member,) = group.members.values()
    member.epoch += 1  # while the request is under way
    world.cluster.release(ApiKey.OFFSET_FETCH)
    assert world.settle(consumer, rounds=30) == {0: [b"3"]}
    epochs = [each.groups[0].member_epoch for each in world.cluster.requests(ApiKey.OFFSET_FETCH)]
    assert (epochs[0], epochs[-1]) == (1, 2)


@pytest.mark.parametrize(
    ("setting", "value", "instead"),
    [
        ("session_timeout_ms", 10_000, "group.consumer.session.timeout.ms"),
        ("heartbeat_interval_ms", 1_000, "group.consumer.heartbeat.interval.ms"),
        ("partition_assignment_strategy", "range", "group.remote.assignor"),
    ],
)
def test_a_setting_that_the_coordinator_decides_is_told_of(
    world: World, caplog: pytest.LogCaptureFixture, setting: str, value: object, instead: str
) -> None:
    # scenario 89 of consumer groups
    with caplog.at_level(logging.WARNING):
        world.consumer(group_id="g", group_protocol="consumer", **{setting: value})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{setting.replace('_', '.')} has no effect with group.protocol=consumer" in warning
    assert instead in warning


def test_a_remote_assignor_is_told_of_where_members_assign(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.consumer(group_id="g", group_remote_assignor="range")
    assert "group.remote.assignor has no effect with group.protocol=classic" in caplog.text


def test_a_rebalance_cannot_be_enforced(world: World, group: FakeCoordinator) -> None:
    consumer, _ = a_stable_member(world)
    with pytest.raises(IllegalStateError, match="the coordinator decides"):
        consumer.enforce_rebalance()


def test_every_state_can_be_reached_and_left() -> None:
    assert set(PREVIOUS) == set(HeartbeatState)
    left = frozenset[HeartbeatState]().union(*PREVIOUS.values())
    assert left == set(HeartbeatState)


def test_a_member_that_leaves_during_a_reconciliation_abandons_it(
    world: World, group: FakeCoordinator
) -> None:
    consumer, heard = a_stable_member(world, max_poll_interval_ms=30_000)
    world.cluster.produce(ALL[1], b"1")
    group.grant({"t": [0]})
    world.pass_time(31_000)  # the assignment arrives, and nobody polls
    assert state_of(consumer) == "stale"
    world.settle(consumer, rounds=10)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert state_of(consumer) == "stable"
