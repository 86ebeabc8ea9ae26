"""InspectGroups of a consumer group: what each member has, has to give up and gets, and its deadlines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from unit.coordinator.group.consumer.driver import REVOKE_MS, SESSION_MS, GroupWorld
from unit.coordinator.group.consumer.names import ALL


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def inspected(world: GroupWorld) -> dict[str, Any]:
    (answer,) = world.ask(InspectGroupsRequest(["g"])).response.groups
    assert answer.error_code == ErrorCode.none
    found: dict[str, Any] = json.loads(answer.content)
    return found


def member(found: dict[str, Any], member_id: str) -> dict[str, Any]:
    return next(item for item in found["members"] if item["member_id"] == member_id)


def test_a_member_that_has_all_it_should_have_shows_its_epochs_and_its_session(world: GroupWorld) -> None:
    world.beat("A", 0, client="worker", rack="a")
    world.pass_ms(4_000)
    found = inspected(world)
    assert (found["type"], found["state"], found["generation"]) == ("consumer", "Stable", 1)
    assert (found["epoch"], found["target_epoch"], found["assignor"]) == (1, 1, "uniform")
    shown = member(found, "A")
    assert (shown["epoch"], shown["client_id"], shown["rack"]) == (1, "worker", "a")
    assert shown["protocol"] == "consumer"
    assert shown["assigned"] == shown["target"] == [f"t-{number}" for number in range(6)]
    assert (shown["to_give_up"], shown["to_get"]) == ([], [])
    assert (shown["silent_ms"], shown["session_left_ms"]) == (4_000, SESSION_MS - 4_000)
    assert shown["rebalance_timeout_ms"] == REVOKE_MS
    assert shown["give_up_left_ms"] is None
    assert shown["topics"] == ["t"]


def test_a_reconciliation_shows_who_gives_up_what_until_when_and_who_waits_for_it(
    world: GroupWorld,
) -> None:
    world.beat("A", 0)
    world.beat("B", 0)
    world.beat("A", 1, owned=ALL)  # it is told what to give up
    world.pass_ms(10_000)
    world.beat("B", 2)
    found = inspected(world)
    assert (found["state"], found["epoch"], found["target_epoch"]) == ("Reconciling", 2, 2)
    giving, waiting = member(found, "A"), member(found, "B")
    assert (giving["epoch"], giving["state"]) == (1, "gives up partitions")
    assert len(giving["to_give_up"]) == 3
    assert giving["give_up_left_ms"] == REVOKE_MS - 10_000
    assert (waiting["epoch"], waiting["assigned"]) == (2, [])
    assert waiting["to_get"] == [{"partition": name, "owner": "A"} for name in giving["to_give_up"]]


def test_a_static_member_that_went_is_awaited_until_its_session_ends(world: GroupWorld) -> None:
    world.beat("A", 0, instance="one")
    world.beat("A", -2, instance="one")
    shown = member(inspected(world), "A")
    assert shown["is_away"]
    assert shown["session_left_ms"] == SESSION_MS
    assert inspected(world)["static_members"] == {"one": "A"}


def test_an_empty_group_says_since_when(world: GroupWorld) -> None:
    world.beat("A", 0)
    world.commit({("t", 0): 1}, member_id="A", generation=1, version=9)
    world.pass_ms(5_000)
    world.beat("A", -1)
    found = inspected(world)
    assert (found["state"], found["members"]) == ("Empty", [])
    assert found["state_timestamp_ms"] == world.context().timestamp_ms
