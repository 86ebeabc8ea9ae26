"""TraceGroups: the requests of one group as they come in, and nothing at all while no group is traced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klamm.coordinator.group.tracing import LEASE_MS, MOST_GROUPS, GroupTracing
from klamm.groups.sequence import Actors, Diagram, mermaid, text_lines
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.trace_groups import TracedGroup, TraceGroupsRequest, TraceGroupsResponse
from unit.coordinator.driver import World


class TracedWorld(World):
    """Whose coordinator can trace groups."""

    def __init__(self) -> None:
        super().__init__()
        clock = self.clock
        self.tracing = GroupTracing(self.coordinator, self.topics, clock.now_ms, clock.timestamp_ms)

    def read(self, after: int = -1, group: str = "g") -> Any:
        (answer,) = self.tracing.read(TraceGroupsRequest([group], after)).groups
        assert answer.error_code == ErrorCode.none
        return json.loads(answer.content)

    def entries(self, group: str = "g") -> list[Any]:
        found: list[Any] = self.read(0, group)["entries"]
        return found


@pytest.fixture
def world() -> TracedWorld:
    world = TracedWorld()
    world.read()
    return world


def told(world: TracedWorld) -> list[tuple[str, str, str, str]]:
    """Of each entry: the API, its error or an arrow, and how the state changed."""
    return [
        (each["api"], each.get("error", "->"), each["state_before"], each["state_after"])
        for each in world.entries()
    ]


def test_a_join_is_seen_with_its_refusal_and_how_the_state_changes(world: TracedWorld) -> None:
    call = world.join(version=4)
    member_id = call.response.member_id
    call = world.join(member_id, version=4)
    world.pass_ms(3_000)
    world.sync(member_id, 1, {member_id: b""})
    assert told(world) == [
        ("JoinGroup", "->", "none", "Empty"),
        ("JoinGroup", "MEMBER_ID_REQUIRED", "Empty", "Empty"),
        ("JoinGroup", "->", "Empty", "PreparingRebalance"),
        ("JoinGroup", "NONE", "PreparingRebalance", "CompletingRebalance"),
        ("SyncGroup", "->", "CompletingRebalance", "Stable"),
        ("SyncGroup", "NONE", "Stable", "Stable"),
    ]
    refusal, joined = world.entries()[1], world.entries()[3]
    assert refusal["facts"] == {"member_id": member_id}
    assert (joined["took_ms"], joined["facts"]["leader"]) == (3_000, member_id)


def test_heartbeats_commits_and_departures_are_seen_with_what_they_carry(world: TracedWorld) -> None:
    (member_id,) = world.stable(1)
    after = world.entries()[-1]["number"]
    world.heartbeat(member_id, 1)
    world.commit({("t", 0): 7}, member_id=member_id, generation=1)
    world.txn_commit({("t", 1): 9})
    world.commit({("t", 0): 8}, member_id="stranger", generation=1)
    world.leave(member_id)
    seen = world.read(after)["entries"]
    facts = [(each["api"], each["facts"]) for each in seen if each["kind"] == "request"]
    assert facts[0] == ("Heartbeat", {"generation": 1})
    assert facts[1] == ("OffsetCommit", {"generation": 1, "offsets": {"t-0": 7}})
    assert facts[2][1]["offsets"] == {"t-1": 9}
    assert facts[4] == ("LeaveGroup", {"members": [member_id]})
    errors = [each["error"] for each in seen if each["kind"] == "answer"]
    assert errors == ["NONE", "NONE", "NONE", "UNKNOWN_MEMBER_ID", "NONE"]
    assert seen[-1]["state_after"] == "Empty"


def test_answers_are_those_that_are_given_without_a_trace() -> None:
    plain, traced = World(), TracedWorld()
    traced.read()
    for world in (plain, traced):
        world.stable(2)
        world.commit({("t", 0): 7}, member_id="")
    assert plain.state.remembered() == traced.state.remembered()
    assert plain.log.batches == traced.log.batches


def test_other_groups_are_not_seen(world: TracedWorld) -> None:
    world.stable(1, group="other")
    assert world.entries() == []


def test_what_is_not_traced_costs_nothing_and_the_trace_ends_when_nobody_reads_it() -> None:
    world = TracedWorld()
    usual = dict(world.coordinator.handlers)
    world.read()
    assert world.coordinator.handlers != usual
    (member_id,) = world.stable(1, session_ms=1_800_000)
    world.pass_ms(LEASE_MS + 1)
    world.heartbeat(member_id, 1)
    assert world.coordinator.handlers == usual
    assert world.read()["entries"] == []


def test_entries_are_told_once_and_what_was_dropped_is_counted(
    world: TracedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.coordinator.group.tracing.MOST_AT_ONCE", 3)
    (member_id,) = world.stable(1)
    first = world.read(0)
    assert [each["number"] for each in first["entries"]] == [1, 2, 3]
    second = world.read(first["after"])
    assert [each["number"] for each in second["entries"]] == [4, 5, 6][: len(second["entries"])]
    for _ in range(5_100):
        world.heartbeat(member_id, 1)
    assert world.read(second["after"])["lost"] > 100


def test_a_shard_of_another_broker_and_too_many_groups_are_refused(world: TracedWorld) -> None:
    for number in range(MOST_GROUPS - 1):
        world.read(group=f"g{number}")
    (answer,) = world.tracing.read(TraceGroupsRequest(["one more"])).groups
    assert answer.error_code == ErrorCode.throttling_quota_exceeded
    world.coordinator.shards.resign(0, 2)
    (answer,) = world.tracing.read(TraceGroupsRequest(["g"])).groups
    assert answer.error_code == ErrorCode.not_coordinator


def test_the_diagram_has_a_column_for_each_member_and_mermaid_an_arrow_for_each_message(
    world: TracedWorld,
) -> None:
    world.stable(2)
    entries, actors = world.entries(), Actors()
    actors.learn(entries)
    heading, first, *_ = list(Diagram(actors, str).lines(entries))
    assert heading.split()[0] == "coordinator"
    assert len(heading.split()) == 3
    assert "◀─" in first
    assert "JoinGroup" in first
    drawn = mermaid(entries, actors)
    assert drawn.startswith("sequenceDiagram\n    participant c as coordinator\n")
    assert drawn.count("->>c: ") == sum(each["kind"] == "request" for each in entries)
    assert drawn.count("c-->>") == sum(each["kind"] == "answer" for each in entries)
    assert "Note over c: CompletingRebalance → Stable" in drawn
    assert sum("→ JoinGroup" in line for line in text_lines(entries, actors, str)) == 2


@pytest.mark.parametrize(
    ("name", "drawn_as"),
    [
        ("app;1", "app#59;1"),
        ("a#b", "a#35;b"),
        ("%%{init}%%", "#37;#37;{init}#37;#37;"),
        ("x -->> y", "x --#62;#62; y"),
        ("two\n lines", "two lines"),
    ],
)
def test_mermaid_shows_each_name_as_it_is(world: TracedWorld, name: str, drawn_as: str) -> None:
    # Its parser ends a line at `;`, and takes `#59;` for that character
    world.join(client_id=name)
    entries, actors = world.entries(), Actors()
    actors.learn(entries)
    assert f"    participant m1 as {drawn_as}\n" in mermaid(entries, actors)


def test_the_messages_come_back_as_they_were_sent() -> None:
    key = ApiKey.TRACE_GROUPS
    request = TraceGroupsRequest(["a", "b"], 17)
    encoded = b"".join(request_encoder(key, 0)(request))
    assert request_decoder(key, 0)(encoded, 0) == request
    response = TraceGroupsResponse(3, [TracedGroup(0, None, "a", b"{}")])
    encoded = b"".join(response_encoder(key, 0)(response))
    assert response_decoder(key, 0)(encoded, 0) == response
