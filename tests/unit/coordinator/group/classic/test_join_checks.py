"""Which joins are refused, and in which order the reasons are looked for."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.membership import ClassicMembership
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.notes import GroupDropped, GroupOpened
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import response_decoder, response_encoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from unit.coordinator.asking import DELAY_MS, commit_errors, subscription
from unit.coordinator.driver import World


def test_a_group_without_a_name_is_refused_to_members_but_not_to_offsets() -> None:
    world = World()
    assert world.join(group="").error is ErrorCode.invalid_group_id
    assert world.commit_error(group="") is ErrorCode.none
    assert world.fetch(("t", 0), group="") == {("t", 0): (1, ErrorCode.none)}


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused_with_the_id_echoed(session_ms: int) -> None:
    call = World().join("mine", session_ms=session_ms)
    assert call.error is ErrorCode.invalid_session_timeout
    assert call.response.member_id == "mine"


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed_with_any_rebalance_timeout(session_ms: int) -> None:
    world = World()
    call = world.join(session_ms=session_ms, rebalance_ms=1)
    world.pass_ms(3_000)
    assert call.error is ErrorCode.none


def test_a_member_of_a_group_that_is_not_there_is_unknown_and_creates_nothing() -> None:
    world = World()
    assert world.join("x").error is ErrorCode.unknown_member_id
    assert world.listed() == {}


@pytest.mark.parametrize(("protocols", "protocol_type"), [((), "consumer"), (("range",), "")])
def test_a_join_without_protocols_or_without_a_type_is_inconsistent_and_yet_opens_the_group(
    protocols: tuple[str, ...], protocol_type: str
) -> None:
    world = World()
    call = world.join(protocols=protocols, protocol_type=protocol_type)
    assert call.error is ErrorCode.inconsistent_group_protocol
    assert world.describe().group_state == "Empty"
    assert world.delete("g") == {"g": ErrorCode.none}
    assert world.listed() == {}


def test_a_group_takes_another_protocol_type_only_when_it_is_empty() -> None:
    world = World()
    (member_id,) = world.stable(1)
    assert world.join(protocol_type="connect").error is ErrorCode.inconsistent_group_protocol
    world.leave(member_id)
    call = world.join(protocol_type="connect")
    world.pass_ms(3_000)
    assert call.error is ErrorCode.none
    assert world.live().protocol_type == "connect"


def test_a_joiner_without_a_common_protocol_is_refused_and_the_group_stays_as_it_is() -> None:
    world = World()
    world.stable(1)
    assert world.join(protocols=("sticky",)).error is ErrorCode.inconsistent_group_protocol
    assert world.phase() is Phase.STABLE
    assert len(world.live().members) == 1


def test_everybody_asks_elsewhere_when_this_broker_does_not_own_the_group() -> None:
    world = World(elect=False)
    not_here = ErrorCode.not_coordinator
    assert world.join("m").response == JoinGroupResponse(error_code=not_here, member_id="")
    assert world.heartbeat("m", 1) is not_here
    assert world.sync("m", 1).error is not_here
    assert world.leave("m").error_code == not_here
    assert world.commit_error() is not_here
    assert world.fetch_response(("t", 0)).error_code == not_here
    assert world.describe().error_code == not_here
    assert world.delete("g") == {"g": not_here}
    assert world.delete_offsets(("t", 0)).error_code == not_here
    assert (world.list_groups().error_code, world.listed()) == (ErrorCode.none, {})


def test_a_stopped_coordinator_is_not_available_to_anybody() -> None:
    world = World()
    waiting = world.join()
    world.coordinator.shards.stop()
    stopped = ErrorCode.coordinator_not_available
    assert waiting.error is stopped
    assert world.join().error is stopped
    assert world.heartbeat("m", 1) is stopped
    assert world.sync("m", 1).error is stopped
    assert world.leave("m").error_code == stopped
    assert world.commit_error() is stopped
    assert world.fetch_response(("t", 0)).error_code == stopped
    assert world.describe().error_code == stopped
    assert world.delete("g") == {"g": stopped}
    assert world.delete_offsets(("t", 0)).error_code == stopped
    assert world.list_groups().error_code == stopped
    assert not world.elect(0)


def test_while_a_partition_loads_its_groups_wait_and_other_groups_work() -> None:
    world = World(partition_count=50, elect=False)
    world.elect(27)  # testgroup
    world.elect(47)  # group
    loading = world.loading.pop(0)
    world.load_all()
    assert loading.name == "__consumer_offsets-27"
    wait = ErrorCode.coordinator_load_in_progress
    assert world.join(group="testgroup").error is wait
    assert world.leave("m", group="testgroup").error_code == wait
    assert world.commit_error(group="testgroup") is wait
    assert world.fetch_response(("t", 0), group="testgroup").error_code == wait
    assert world.describe("testgroup").error_code == wait
    assert world.describe("testgroup").group_state == ""
    assert world.delete("testgroup") == {"testgroup": wait}
    assert world.list_groups().error_code == wait
    assert world.sync("m", 1, group="testgroup").error is ErrorCode.rebalance_in_progress
    assert world.heartbeat("m", 1, group="testgroup") is ErrorCode.none
    assert world.commit_error(group="group") is ErrorCode.none
    assert not world.list_groups().groups, "part of a list could be mistaken for all of it"


def test_nobody_joins_a_dead_group() -> None:
    world = World()
    world.shard.machine.apply(GroupOpened("g", ClassicMembership("g", phase=Phase.DEAD)))
    gone = ErrorCode.coordinator_not_available
    assert world.join().error is gone
    assert world.heartbeat("m", 1) is gone
    assert world.sync("m", 1).error is gone
    assert world.leave("m").error_code == gone
    assert world.commit_error() is gone
    assert world.fetch(("t", 0)) == {("t", 0): (-1, ErrorCode.none)}
    assert world.describe().group_state == "Dead"
    assert world.delete("g") == {"g": ErrorCode.group_id_not_found}
    assert world.delete_offsets(("t", 0)).error_code == ErrorCode.group_id_not_found
    world.shard.machine.apply(GroupDropped("g"))
    assert world.listed() == {}


def test_a_pending_id_comes_back_without_an_instance_id() -> None:
    world = World()
    member_id = world.join(version=4).response.member_id
    call = world.join(member_id, version=5, instance="i")
    assert call.error is ErrorCode.unknown_server_error
    assert call.response.member_id == ""


def test_a_once_valid_id_is_unknown_to_an_empty_group() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.leave(member_id)
    assert world.phase() is Phase.EMPTY
    assert world.join(member_id).error is ErrorCode.unknown_member_id


def test_an_id_is_not_accepted_when_its_instance_is_unknown() -> None:
    world = World()
    (member_id,) = world.stable(1)
    unknown = ErrorCode.unknown_member_id
    assert world.join(member_id, instance="i").error is unknown
    assert world.heartbeat(member_id, 1, instance="i") is unknown
    assert world.sync(member_id, 1, instance="i").error is unknown


@pytest.mark.parametrize(("version", "protocol_name"), [(6, ""), (7, None)])
def test_an_error_names_no_protocol(version: int, protocol_name: str | None) -> None:
    response = World().join("x").response
    decoded = _over_the_wire(response, version)
    assert (decoded.protocol_name, decoded.protocol_type) == (protocol_name, None)
    assert (decoded.generation_id, decoded.leader, list(decoded.members)) == (-1, "", [])


def test_a_success_names_the_protocol_type_from_version_seven_on() -> None:
    world = World()
    call = world.join(version=7, instance="i")
    world.pass_ms(3_000)
    assert _over_the_wire(call.response, 7).protocol_type == "consumer"
    assert _over_the_wire(call.response, 6).protocol_type is None


def _over_the_wire(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    encoded = b"".join(response_encoder(ApiKey.JOIN_GROUP, version)(response))
    decoded = response_decoder(ApiKey.JOIN_GROUP, version)(encoded, 0)
    assert isinstance(decoded, JoinGroupResponse)
    return decoded


def test_without_a_rebalance_timeout_the_session_timeout_counts() -> None:
    world = World()
    call = world.join(version=0, session_ms=10_000, rebalance_ms=-1)
    world.pass_ms(3_000)
    world.settle([call.response.member_id])
    registration = world.group().memory.registration
    assert registration is not None
    assert registration.members[0].rebalance_timeout_ms == 10_000


def test_names_too_long_for_the_log_are_refused_and_harm_nobody() -> None:
    world = World()
    world.stable(1, group="other")
    long_name = "x" * 40_000
    assert world.commit_error(group=long_name) is ErrorCode.invalid_commit_offset_size
    (member_id,) = world.joined(1, protocols={long_name: subscription("t")})
    assert world.sync(member_id, 1).error is ErrorCode.unknown_server_error
    assert world.phase("other") is Phase.STABLE


def test_group_ids_of_any_script_work_like_others() -> None:
    world = World(partition_count=50)
    for group in ("g😀", "消费者组", "polygenelubricants"):
        (member_id,) = world.stable_of(group)
        commit = world.commit({("t", 0): 3}, group=group, member_id=member_id, generation=1)
        assert set(commit_errors(commit).values()) == {ErrorCode.none}
        assert world.fetch(("t", 0), group=group) == {("t", 0): (3, ErrorCode.none)}
    assert set(world.listed()) == {"g😀", "消费者组", "polygenelubricants"}


def test_a_protocol_without_a_name_is_told_as_none() -> None:
    world = World()
    call = world.join(protocols=("",), version=7, instance="i")
    world.pass_ms(DELAY_MS)
    assert call.response.error_code == ErrorCode.none
    assert call.response.protocol_name is None
