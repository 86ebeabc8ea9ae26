"""Groups step by step: what counts as a rebalance, what stayed where it was, and what caused it."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.groups.causes import RecordedCauses, inferred_cause
from klamm.spark.audit.causes import explained
from klamm.spark.audit.steps import GroupSteps
from klamm.spark.decode.rows import LogPlace
from unit.spark.audit.histories import Row

MINUTE_US = 60_000_000


def member(
    member_id: str, assigned: str = "", *, topics: tuple[str, ...] = ("t",), instance_id: str | None = None
) -> Row:
    return {
        "group_id": "g",
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": f"client of {member_id}",
        "subscribed_topics": topics,
        "assigned": [{"topic": "t", "partition": int(number)} for number in assigned.split()],
    }


class Log:
    """Records of group g, one a minute, and what becomes of them."""

    def __init__(self) -> None:
        self.steps = GroupSteps(4)
        self.rows: list[tuple[str, Row]] = []
        self._offset = 0

    def _add(self, rows: list[tuple[str, Row]]) -> None:
        self._offset += 1
        self.rows += self.steps.add(LogPlace(self._offset, self._offset * MINUTE_US), rows)

    def generation(self, number: int, *members: Row, leader: str = "a", protocol: str = "range") -> None:
        row = {
            "group_id": "g",
            "generation": number,
            "leader": leader if members else None,
            "protocol": protocol if members else None,
            "member_count": len(members),
            "state_ts": None,
            "is_tombstone": False,
        }
        named = [("group_members", {**item, "generation": number}) for item in members]
        self._add([("group_registrations", row), *named])

    def removed(self) -> None:
        nothing = dict.fromkeys(("generation", "leader", "protocol", "member_count", "state_ts"))
        self._add([("group_registrations", {"group_id": "g", **nothing, "is_tombstone": True})])

    def consumer(self, member_id: str, *topics: str, left: bool = False) -> None:
        row = {"group_id": "g", "member_id": member_id, "is_tombstone": left}
        row |= {"subscribed_topics": None if left else topics, "subscribed_regex": None}
        self._add([("consumer_members", row)])

    def epoch(self, number: int | None) -> None:
        row = {"group_id": "g", "kind": "group", "epoch": number, "is_tombstone": number is None}
        self._add([("consumer_groups", row)])
        self._add([("consumer_groups", {**row, "kind": "target"})])

    def table(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in columns) for table, row in self.rows if table == name]

    def causes(self) -> list[str]:
        return [inferred_cause(row) for name, row in self.rows if name == "rebalances"]


def test_members_that_come_and_go_make_rebalances() -> None:
    log = Log()
    log.generation(0)  # as Kafka writes a new group before a member has joined
    log.generation(1, member("a", "0 1"))
    log.generation(2, member("a", "0"), member("b", "1"))
    log.generation(3, member("b", "0 1"), leader="b")
    log.generation(4)
    columns = ("from_generation", "to_generation", "members_before", "members_after", "joined", "left")
    assert log.table("rebalances", *columns) == [
        (0, 1, 0, 1, ["a"], []),
        (1, 2, 1, 2, ["b"], []),
        (2, 3, 2, 1, [], ["a"]),
        (3, 4, 1, 0, [], ["b"]),
    ]
    assert log.causes() == [
        "the first member joined",
        "a member joined",
        "a member left or its session expired",
        "the last member left",
    ]
    (first, *_, last) = log.table("rebalances", "at", "since_previous_ms", "log_offset", "from_log_offset")
    assert first == (2 * MINUTE_US, 60_000, 2, 1)
    assert last == (5 * MINUTE_US, 60_000, 5, 4)
    assert log.table("rebalances", "leader_changed", "protocol_changed") == [
        (True, True),
        (False, False),
        (True, False),
        (True, True),
    ]


def test_a_group_that_is_written_again_unchanged_does_not_rebalance() -> None:
    log = Log()
    log.generation(1, member("a"), member("b"))
    log.generation(1, member("b"), member("a"))
    assert len(log.table("rebalances", "to_generation")) == 1


def test_a_static_member_that_restarts_is_the_same_member() -> None:
    log = Log()
    log.generation(1, member("a-1", instance_id="a"), member("b"))
    log.generation(2, member("a-2", instance_id="a"), member("b"))
    assert log.table("rebalances", "joined", "left")[1] == ([], [])
    assert log.causes()[1] == "a member rejoined"


def test_a_group_that_was_removed_begins_anew() -> None:
    log = Log()
    log.generation(7, member("a"))
    log.removed()
    assert log.steps.standings["g"].is_tombstone
    log.generation(1, member("b"))
    assert (
        log.table("rebalances", "from_generation", "members_before", "since_previous_ms")
        == [(None, 0, None)] * 2
    )
    assert not log.steps.standings["g"].is_tombstone


@pytest.mark.parametrize(
    ("generation", "members", "protocol", "cause"),
    [
        (2, (member("a"), member("c")), "range", "members joined and left"),
        (5, (member("a"), member("b"), member("c")), "range", "several rebalances in a row"),
        (2, (member("a", topics=("t", "u")), member("b")), "range", "a subscription changed"),
        (2, (member("a"), member("b")), "sticky", "the assignor changed"),
        (2, (member("a"), member("b")), "range", "a member rejoined"),
    ],
)
def test_a_cause_is_inferred_from_what_changed(
    generation: int, members: tuple[Row, ...], protocol: str, cause: str
) -> None:
    log = Log()
    log.generation(1, member("a"), member("b"))
    log.generation(generation, *members, protocol=protocol)
    assert log.causes()[1] == cause


def test_moves_that_could_not_be_avoided_are_told_apart() -> None:
    log = Log()
    log.generation(1, member("a", "0 1 2 3"), member("b", "4 5"))
    # a had one more than its share of two, and gave two; b has gone.
    log.generation(2, member("a", "0 1 5"), member("c", "2 3 6"))
    columns = ("common", "kept", "moved", "added", "removed", "forced_moves", "excess_moves", "stickiness")
    assert log.table("stickiness", *columns) == [(5, 2, 3, 1, 1, 2, 1, 0.4)]
    assert log.table("assignments", "generation", "topic", "partition", "member_id", "client_id")[-1] == (
        2,
        "t",
        6,
        "c",
        "client of c",
    )


def test_generations_without_partitions_have_no_stickiness() -> None:
    log = Log()
    log.generation(1, member("a"))
    log.generation(2, member("a"), member("b"))
    assert log.table("stickiness", "common") == []


def test_epochs_of_the_consumer_protocol_are_rebalances() -> None:
    log = Log()
    log.consumer("a", "t")
    log.epoch(1)
    log.consumer("b", "t")
    log.consumer("b", "t")
    log.epoch(2)
    log.consumer("b", "t", "u")
    log.epoch(3)
    log.consumer("b", left=True)
    log.consumer("a", left=True)
    log.epoch(5)
    log.epoch(6)
    log.epoch(None)
    assert log.table("rebalances", "to_generation", "members_before", "members_after", "joined", "left") == [
        (1, 0, 1, ["a"], []),
        (2, 1, 2, ["b"], []),
        (3, 2, 2, [], []),
        (5, 2, 0, [], ["a", "b"]),
        (6, 0, 0, [], []),
    ]
    assert log.table("rebalances", "subscriptions_changed") == [
        (False,),
        (False,),
        (True,),
        (False,),
        (False,),
    ]
    assert log.causes()[2] == "a subscription changed"
    assert log.steps.standings["g"].is_tombstone


def an_event(**changes: Any) -> Row:
    event: Row = {
        "type": "rebalance_completed",
        "group_id": "g",
        "timestamp_ms": 120_500,
        "cause": "a member joined",
        "client_id": "c",
        "reason": "why",
        "generation_after": 2,
        "join_phase_ms": 20,
        "sync_phase_ms": None,
        "moved_count": 3,
    }
    return event | changes


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([an_event()], ("a member joined", False, "c", "why", 20, 3)),
        (
            [an_event(timestamp_ms=100_000, cause="other"), an_event(), an_event(timestamp_ms=200_000)],
            ("a member joined", False, "c", "why", 20, 3),
        ),
        ([an_event(sync_phase_ms=5)], ("a member joined", False, "c", "why", 25, 3)),
        ([an_event(cause=None)], ("a member rejoined", False, "c", "why", 20, 3)),
        ([an_event(timestamp_ms=120_000 + 300_000)], ("a member rejoined", True, None, None, None, None)),
        ([an_event(type="member_left")], ("a member rejoined", True, None, None, None, None)),
        ([an_event(group_id="h")], ("a member rejoined", True, None, None, None, None)),
        ([an_event(generation_after=3)], ("a member rejoined", True, None, None, None, None)),
    ],
)
def test_the_event_with_the_same_generation_and_the_nearest_time_is_the_cause(
    events: list[Row], found: tuple[Any, ...]
) -> None:
    log = Log()
    log.generation(1, member("a"))
    log.generation(2, member("a"))
    _, rebalance = (row for name, row in log.rows if name == "rebalances")
    row = explained(rebalance, RecordedCauses(events))
    columns = ("cause", "is_inferred", "caused_by", "reason", "duration_ms", "moved_count")
    assert tuple(row[name] for name in columns) == found
