"""InspectGroups: what the coordinator knows of a living group, and that asking changes nothing."""

from __future__ import annotations

import json
from typing import Any

from klamm.coordinator.group.classic.phases import Phase
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.inspect_groups import (
    InspectedGroup,
    InspectGroupsRequest,
    InspectGroupsResponse,
)
from unit.coordinator.driver import World


def inspected(world: World, group: str = "g") -> dict[str, Any]:
    (answer,) = world.ask(InspectGroupsRequest([group])).response.groups
    assert answer.error_code == ErrorCode.none
    found: dict[str, Any] = json.loads(answer.content)
    return found


def test_a_stable_group_shows_its_members_with_their_deadlines() -> None:
    world = World()
    leader_id, follower_id = world.stable(2, session_ms=30_000)
    world.pass_ms(4_000)
    world.heartbeat(leader_id, 1)
    world.pass_ms(1_000)
    found = inspected(world)
    assert (found["state"], found["generation"], found["leader"]) == ("Stable", 1, leader_id)
    leader, follower = found["members"]
    assert (leader["member_id"], leader["is_leader"], leader["parked"]) == (leader_id, True, None)
    assert (leader["silent_ms"], leader["session_left_ms"]) == (1_000, 29_000)
    assert (follower["member_id"], follower["silent_ms"]) == (follower_id, 5_000)
    assert found["votes"] == {leader["protocols"][0]["name"]: 2}
    assert found["rebalance"] is None


def test_a_join_phase_shows_who_has_joined_for_how_long_and_who_is_waited_for() -> None:
    world = World()
    leader_id, follower_id = world.stable(2)
    world.join(leader_id)
    world.pass_ms(2_500)
    found = inspected(world)
    assert found["state"] == "PreparingRebalance"
    members = {item["member_id"]: item for item in found["members"]}
    assert (members[leader_id]["has_joined"], members[leader_id]["parked"]) == (True, "JoinGroup")
    assert members[leader_id]["parked_ms"] == 2_500
    assert (members[follower_id]["has_joined"], members[follower_id]["parked"]) == (False, None)
    rebalance = found["rebalance"]
    assert (rebalance["cause"], rebalance["member_id"]) == ("the leader rejoined", leader_id)
    assert rebalance["started_ms"] == 2_500
    assert rebalance["left_ms"] > 0
    assert found["awaiting_join"] == 1


def test_a_sync_phase_shows_who_has_not_synced() -> None:
    world = World()
    leader_id, follower_id = world.stable(2)
    world.join(leader_id)
    world.join(follower_id)
    assert world.phase() is Phase.COMPLETING
    world.sync(follower_id, 2)
    world.pass_ms(700)
    found = inspected(world)
    assert found["awaiting_sync"] == [leader_id]
    members = {item["member_id"]: item for item in found["members"]}
    assert (members[follower_id]["parked"], members[follower_id]["parked_ms"]) == ("SyncGroup", 700)
    assert (members[leader_id]["has_synced"], members[follower_id]["has_synced"]) == (False, True)


def test_an_id_that_was_given_out_and_offsets_pending_in_a_transaction_are_shown() -> None:
    world = World()
    world.stable(1)
    world.join(version=4)
    world.commit({("t", 0): 7}, group="other")
    world.txn_commit({("t", 1): 9}, group="other")
    found = inspected(world)
    assert len(found["pending_ids"]) == 1
    assert found["pending_ids"][0]["left_ms"] > 0
    other = inspected(world, "other")
    assert [(item["topic"], item["partition"], item["offset"]) for item in other["offsets"]] == [("t", 0, 7)]
    assert [(item["partition"], item["offset"]) for item in other["pending_offsets"]] == [(1, 9)]
    assert "members" not in other, "it has never had any"


def test_a_group_that_does_not_exist_is_an_error_and_asking_makes_none() -> None:
    world = World()
    (answer,) = world.ask(InspectGroupsRequest(["nobody"])).response.groups
    assert answer.error_code == ErrorCode.group_id_not_found
    assert "nobody" not in world.state.groups


def test_the_messages_come_back_as_they_were_sent() -> None:
    key = ApiKey.INSPECT_GROUPS
    request = InspectGroupsRequest(["a", "b"])
    encoded = b"".join(request_encoder(key, 0)(request))
    assert request_decoder(key, 0)(encoded, 0) == request
    response = InspectGroupsResponse(3, [InspectedGroup(0, None, "a", b"{}")])
    encoded = b"".join(response_encoder(key, 0)(response))
    assert response_decoder(key, 0)(encoded, 0) == response
