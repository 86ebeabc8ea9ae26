"""Joining a group: JoinGroup, SyncGroup, and everything that they may answer."""

from __future__ import annotations

import pytest

from klamm.assignors import COOPERATIVE, Assignment, Assignor, ClusterView, GroupView
from klamm.client.consumer.consumer import Consumer
from klamm.config import ConfigError
from klamm.errors import (
    BrokerError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KlammError,
    UnsupportedVersionError,
    WakeupError,
)
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import decode_subscription, encode_assignment
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import Heard, World

ALL = partitions("t", [0, 1])
COOPERATIVELY = {"partition_assignment_strategy": "cooperative-sticky"}


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    return world


def a_member(world: World, **settings: object) -> tuple[Consumer, Heard]:
    heard = Heard()
    consumer = world.consumer(group_id="g", **settings)
    consumer.subscribe(["t"], heard)
    return consumer, heard


def joins(world: World) -> list[JoinGroupRequest]:
    return world.cluster.requests(ApiKey.JOIN_GROUP)


def refuse_sync(world: World, code: int) -> None:
    """The next SyncGroup is refused, as if the group had moved on."""
    world.cluster.answer_once(ApiKey.SYNC_GROUP, SyncGroupResponse(error_code=code))


def test_one_long_poll_joins_and_reads_and_waits_for_no_heartbeat(world: World) -> None:
    world.cluster.produce(ALL[0], b"1", b"2", b"3")
    consumer, _ = a_member(world)
    began_at_ms = world.clock.now_ms()
    assert len(consumer.poll(60)) == 3
    assert world.cluster.requests(ApiKey.HEARTBEAT) == []
    assert world.clock.now_ms() - began_at_ms < 1_000


def test_the_first_join_asks_for_an_id_and_joins_with_it(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1)
    first, second = joins(world)
    assert (first.member_id, second.member_id) == ("", "member-1")
    assert heard.calls == [("assigned", ALL)]
    assert consumer.group_metadata().member_id == "member-1"


def test_the_outcome_of_a_join_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "klamm")
    consumer, _ = a_member(world)
    consumer.poll(1)
    consumer.poll(1)
    lines = [line for line in caplog.messages if "assigned" in line]
    assert len(lines) == 1
    assert lines[0].startswith("group g: generation 1 joined in ")
    assert lines[0].endswith(": assigned t-0, t-1")
    assert caplog.messages.count("joining group g: first join") == 1
    a_member(world)[0].poll(1)
    consumer.poll(1)
    assert any(line.endswith(": assigned t-0, revoked t-1") for line in caplog.messages), caplog.messages


def test_a_clean_end_logs_no_failure(world: World, caplog: pytest.LogCaptureFixture) -> None:
    consumer, _ = a_member(world)
    consumer.poll(1)
    caplog.set_level("INFO", "klamm")
    caplog.clear()
    consumer.close()
    assert [line for line in caplog.messages if "closed" in line or "failed" in line] == []


def test_a_join_says_what_it_wants_and_why(world: World) -> None:
    consumer, _ = a_member(world, session_timeout_ms=20_000, max_poll_interval_ms=70_000)
    consumer.poll(1)
    request = joins(world)[-1]
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (20_000, 70_000)
    assert request.protocol_type == "consumer"
    assert [item.name for item in request.protocols] == ["range", "cooperative-sticky"]
    assert request.reason == "first join"
    consumer.enforce_rebalance("x" * 300)
    consumer.poll(1)
    assert joins(world)[-1].reason == "x" * 255


def test_a_static_member_has_its_id_at_once(world: World) -> None:
    consumer, _ = a_member(world, group_instance_id="one")
    consumer.poll(1)
    (request,) = joins(world)
    assert (request.member_id, request.group_instance_id) == ("", "one")
    assert consumer.group_metadata().group_instance_id == "one"


def test_a_join_may_take_as_long_as_the_rebalance_timeout_and_a_little_more(world: World) -> None:
    world.cluster.hold(ApiKey.JOIN_GROUP)
    consumer, _ = a_member(world, max_poll_interval_ms=120_000, request_timeout_ms=30_000)
    consumer.poll(120)
    assert len(joins(world)) == 1
    consumer.poll(10)
    assert len(joins(world)) == 2  # the coordinator was given up and asked again


def test_heartbeats_are_sent_while_the_sync_is_pending(world: World) -> None:
    world.cluster.hold(ApiKey.SYNC_GROUP)
    consumer, _ = a_member(world)
    consumer.poll(1)
    assert world.cluster.requests(ApiKey.HEARTBEAT) == []
    world.pass_time(10_000)
    # One: its answer waits behind that of the sync, on the same connection.
    assert len(world.cluster.requests(ApiKey.HEARTBEAT)) == 1


def test_a_sync_into_a_rebalance_joins_again_without_telling_the_listener_twice(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1)
    heard.take()
    refuse_sync(world, ErrorCode.rebalance_in_progress)
    consumer.enforce_rebalance()
    consumer.poll(2)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]
    assert {request.member_id for request in joins(world)[1:]} == {"member-1"}


def test_a_sync_of_an_old_generation_loses_what_was_owned_but_keeps_the_id(world: World) -> None:
    consumer, heard = a_member(world, **COOPERATIVELY)
    consumer.poll(1)
    heard.take()
    refuse_sync(world, ErrorCode.illegal_generation)
    consumer.enforce_rebalance()
    consumer.poll(2)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert joins(world)[-1].member_id == "member-1"


def test_a_sync_of_an_unknown_member_begins_with_a_new_id(world: World) -> None:
    consumer, heard = a_member(world, **COOPERATIVELY)
    consumer.poll(1)
    heard.take()

    def expelled(_request: SyncGroupRequest) -> SyncGroupResponse:
        world.cluster.group.expel("member-1")
        return SyncGroupResponse(error_code=ErrorCode.unknown_member_id)

    world.cluster.answer_once(ApiKey.SYNC_GROUP, expelled)
    consumer.enforce_rebalance()
    consumer.poll(2)
    assert heard.take() == [("lost", ALL), ("assigned", ALL)]
    assert consumer.group_metadata().member_id == "member-2"


@pytest.mark.parametrize("api_key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    ],
)
def test_a_coordinator_that_moves_or_loads_is_asked_again_after_a_pause(
    world: World, api_key: ApiKey, code: ErrorCode
) -> None:
    kind = JoinGroupResponse if api_key is ApiKey.JOIN_GROUP else SyncGroupResponse
    world.cluster.answer_once(api_key, kind(error_code=code))
    consumer, heard = a_member(world)
    began_ms = world.clock.now_ms()
    consumer.poll(2)
    assert heard.take() == [("assigned", ALL)]
    assert world.clock.now_ms() - began_ms >= 80
    is_forgotten = code != ErrorCode.coordinator_load_in_progress
    assert len(world.cluster.requests(ApiKey.FIND_COORDINATOR)) == (2 if is_forgotten else 1)


def test_a_join_of_an_unknown_member_joins_anew_at_once(world: World) -> None:
    consumer, heard = a_member(world, enable_auto_commit=False)
    consumer.poll(1)
    heard.take()
    world.cluster.group.expel("member-1")
    consumer.enforce_rebalance()
    consumer.poll(2)
    assert joins(world)[-2].member_id == ""
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.fenced_instance_id, FencedInstanceIdError),
        (ErrorCode.inconsistent_group_protocol, InconsistentGroupProtocolError),
        (ErrorCode.group_max_size_reached, GroupMaxSizeReachedError),
        (ErrorCode.invalid_group_id, BrokerError),
        (ErrorCode.unsupported_version, UnsupportedVersionError),
        (ErrorCode.unknown_server_error, KlammError),
    ],
)
def test_a_join_that_is_refused_is_raised_and_the_next_poll_joins_again(
    world: World, code: ErrorCode, error: type[Exception]
) -> None:
    world.cluster.answer_once(ApiKey.JOIN_GROUP, JoinGroupResponse(error_code=code))
    consumer, heard = a_member(world)
    with pytest.raises(error, match="joining group g"):
        consumer.poll(1)
    consumer.poll(1)
    assert heard.take() == [("assigned", ALL)]


def test_a_session_outside_the_brokers_limits_is_raised(world: World) -> None:
    consumer, _ = a_member(world, session_timeout_ms=5_000)
    with pytest.raises(InvalidSessionTimeoutError):
        consumer.poll(1)


def test_a_sync_that_is_refused_is_raised_and_the_id_kept(world: World) -> None:
    refuse_sync(world, ErrorCode.group_authorization_failed)
    consumer, heard = a_member(world)
    with pytest.raises(KlammError, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.poll(1)
    consumer.poll(1)
    assert heard.take() == [("assigned", ALL)]
    assert joins(world)[-1].member_id == "member-1"


def test_a_lost_connection_finds_the_coordinator_again_and_keeps_the_id(world: World) -> None:
    consumer, _ = a_member(world)
    consumer.poll(1)
    world.cluster.hold(ApiKey.JOIN_GROUP)
    consumer.enforce_rebalance()
    consumer.poll(0.5)
    world.cluster.held[ApiKey.JOIN_GROUP].pop().link.events.lost(None)
    world.cluster.release(ApiKey.JOIN_GROUP)
    consumer.poll(2)
    assert len(world.cluster.requests(ApiKey.FIND_COORDINATOR)) == 2
    assert joins(world)[-1].member_id == "member-1"
    assert consumer.assignment() == set(ALL)


def test_an_assignment_of_another_topic_than_subscribed_is_not_applied(world: World) -> None:
    world.cluster.create("u", 1)
    world.cluster.hold(ApiKey.SYNC_GROUP)
    consumer, heard = a_member(world)
    consumer.poll(1)
    consumer.subscribe(["u"], heard)
    world.cluster.release(ApiKey.SYNC_GROUP)
    consumer.poll(2)
    assert heard.take() == [("revoked", []), ("assigned", partitions("u", [0]))]
    assert joins(world)[-1].reason == "the subscription has changed"


@pytest.mark.parametrize("held", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_what_is_subscribed_to_during_a_join_is_joined_for_after_it(world: World, held: ApiKey) -> None:
    world.cluster.create("u", 1)
    world.cluster.hold(held)
    consumer, heard = a_member(world)
    consumer.poll(1)
    consumer.subscribe(["t", "u"], heard)
    world.cluster.release(held)
    consumer.poll(2)
    assert consumer.assignment() == {*ALL, *partitions("u", [0])}


def test_a_wakeup_inside_on_assigned_is_raised_and_the_assignment_applied_once(world: World) -> None:
    consumer, heard = a_member(world)

    def interrupted(_partitions: list[TopicPartition]) -> None:
        heard.do.clear()
        raise WakeupError("stop")

    heard.do["assigned"] = interrupted
    with pytest.raises(WakeupError):
        consumer.poll(1)
    assert consumer.assignment() == set(ALL)
    consumer.seek(ALL[0], 0)
    consumer.poll(1)
    assert heard.take() == [("assigned", ALL), ("assigned", ALL)]
    assert len(world.cluster.requests(ApiKey.SYNC_GROUP)) == 1


def test_a_generation_lost_before_its_assignment_was_applied_joins_with_a_new_id(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(0)
    world.pass_time(1)
    for _ in range(20):  # up to the answer of SyncGroup, and not one poll further
        if world.cluster.requests(ApiKey.SYNC_GROUP):
            break
        consumer.poll(0)
        world.pass_time(1)
    world.pass_time(1)
    world.cluster.group.expel("member-1")
    world.pass_time(4_000)  # a heartbeat hears of it
    consumer.poll(2)
    assert heard.take() == [("assigned", ALL)]
    assert consumer.group_metadata().member_id == "member-2"


def test_an_assignment_that_is_no_assignment_is_an_error(world: World) -> None:
    world.cluster.answer_once(
        ApiKey.SYNC_GROUP, SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"")
    )
    consumer, _ = a_member(world)
    with pytest.raises(IllegalStateError, match="without a version"):
        consumer.poll(1)


@pytest.mark.parametrize(
    "answer",
    [
        SyncGroupResponse(protocol_type="connect", protocol_name="range"),
        SyncGroupResponse(protocol_type="consumer", protocol_name="roundrobin"),
    ],
)
def test_an_answer_for_another_protocol_is_an_error(world: World, answer: SyncGroupResponse) -> None:
    world.cluster.answer_once(ApiKey.SYNC_GROUP, answer)
    consumer, _ = a_member(world)
    with pytest.raises(InconsistentGroupProtocolError):
        consumer.poll(1)


def test_an_elected_assignor_that_nobody_configured_is_an_error(world: World) -> None:
    def elected(request: JoinGroupRequest) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=1, protocol_name="weird", leader="someone", member_id=request.member_id or "m"
        )

    world.cluster.answer_once(ApiKey.JOIN_GROUP, elected)
    consumer, _ = a_member(world)
    with pytest.raises(IllegalStateError, match="weird"):
        consumer.poll(1)


class Greedy(Assignor):
    """Breaks the cooperative promise: gives everything to whoever came last."""

    name = "greedy"
    supported_protocols = (COOPERATIVE,)

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        last = sorted(group.members)[-1]
        return {last: Assignment(tuple(cluster.partitions("t")))}


def test_a_cooperative_assignor_that_gives_away_what_is_owned_is_an_error(world: World) -> None:
    first, _ = a_member(world, partition_assignment_strategy=Greedy)
    first.poll(1)
    second, _ = a_member(world, partition_assignment_strategy=Greedy)
    second.poll(1)
    world.pass_time(3_000)
    with pytest.raises(IllegalStateError, match="still owns it"):
        world.settle(first, second)


def test_the_default_assignors_together_are_eager(world: World) -> None:
    consumer, heard = a_member(world)
    consumer.poll(1)
    heard.take()
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert heard.take() == [("revoked", ALL), ("assigned", ALL)]
    for item in joins(world)[-1].protocols:
        assert decode_subscription(item.metadata).owned == ()


def test_a_cooperative_member_says_what_it_owns(world: World) -> None:
    consumer, heard = a_member(world, **COOPERATIVELY)
    consumer.poll(1)
    heard.take()
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert heard.take() == [("assigned", [])]
    subscription = decode_subscription(joins(world)[-1].protocols[0].metadata)
    assert (subscription.owned, subscription.generation) == (tuple(ALL), 1)


@pytest.mark.parametrize("strategies", [["range", "range"], [Greedy, "range"]])
def test_assignors_without_a_common_protocol_or_with_one_name_are_refused(
    world: World, strategies: list[object]
) -> None:
    with pytest.raises(ConfigError):
        world.consumer(group_id="g", partition_assignment_strategy=strategies)


def test_a_returning_static_leader_syncs_with_nothing_but_watches_metadata(world: World) -> None:
    consumer, _ = a_member(world, group_instance_id="one")
    consumer.poll(1)
    member = next(iter(world.cluster.group.members))

    def returning(request: JoinGroupRequest) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=world.cluster.group.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            leader=member,
            member_id=member,
            skip_assignment=True,
            members=[],
        )

    def kept(_request: SyncGroupRequest) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name="range",
            assignment=encode_assignment(Assignment(tuple(ALL))),
        )

    world.cluster.answer_once(ApiKey.JOIN_GROUP, returning)
    world.cluster.answer_once(ApiKey.SYNC_GROUP, kept)
    consumer.enforce_rebalance()
    consumer.poll(1)
    assert world.cluster.requests(ApiKey.SYNC_GROUP)[-1].assignments == []
    assert consumer.assignment() == set(ALL)


def test_a_broker_without_static_members_says_so(world: World) -> None:
    from klamm.protocol.messages.api_versions import ApiVersion
    from unit.client.fakes import every_version

    consumer, _ = a_member(world, group_instance_id="one")
    world.hosts[0].transport.versions = lambda: [
        ApiVersion(
            item.api_key, item.min_version, 4 if item.api_key == ApiKey.JOIN_GROUP else item.max_version
        )
        for item in every_version()
    ]
    with pytest.raises(UnsupportedVersionError, match=r"group\.instance\.id"):
        consumer.poll(1)
