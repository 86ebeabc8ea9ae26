"""A group's story in plain words."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.coordinator.group.events import (
    CommitsMixed,
    GroupEmptied,
    GroupEventCause,
    MemberFenced,
    MemberRemoved,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceStarted,
)
from klamm.groups.story import clock_time, headline, sentence, story_entries, summary, without_repeats
from klamm.protocol.consumer_protocol import Assignment, encode_assignment
from klamm.protocol.types import TopicPartition

T = 1_700_000_000_000


def assigned(*partitions: int) -> bytes:
    return encode_assignment(Assignment(tuple(TopicPartition("orders", number) for number in partitions)))


STARTED = RebalanceStarted(
    group_id="billing",
    timestamp_ms=T,
    cause=GroupEventCause.SESSION_EXPIRED,
    member_id="app-2",
    client_id="app",
    client_host="/10.0.0.7",
    generation=4,
    member_count=3,
)
COMPLETED = RebalanceCompleted(
    group_id="billing",
    timestamp_ms=T + 3_210,
    cause=GroupEventCause.SESSION_EXPIRED,
    member_id="app-2",
    generation_before=4,
    generation_after=5,
    join_phase_ms=3_000,
    sync_phase_ms=210,
    leader_id="app-1",
    protocol_name="range",
    member_count=2,
    before={"app-1": assigned(0), "app-2": assigned(1)},
    after={"app-1": assigned(0), "app-3": assigned(1)},
)


def test_the_beginning_tells_who_and_why() -> None:
    told = sentence(STARTED.as_json())
    assert "a member was silent for its session timeout: app-2 (client app, from 10.0.0.7)" in told
    assert "generation 4 with 3 members" in told


def test_the_end_tells_how_long_each_phase_took_and_what_moved() -> None:
    told = sentence(COMPLETED.as_json())
    assert "to generation 5 is complete: 2 members, assignor range, leader app-1" in told
    assert "It took 3210 ms: 3000 ms until all members had joined, 210 ms" in told
    assert "Partitions with a new owner: orders-1." in told


def test_a_clients_own_words_are_quoted() -> None:
    event = RebalanceStarted(
        group_id="g",
        timestamp_ms=T,
        cause=GroupEventCause.MEMBER_LEFT,
        reason="closing",
        generation=1,
        member_count=2,
    )
    assert 'because a member left, saying "closing"' in sentence(event.as_json())


def test_every_other_event_has_its_sentence() -> None:
    base: dict[str, Any] = {"group_id": "g", "timestamp_ms": T}
    events = [
        GroupEmptied(
            **base,
            cause=GroupEventCause.MEMBER_LEFT,
            generation_before=1,
            generation_after=2,
            join_phase_ms=0,
        ),
        MemberRemoved(
            **base, cause=GroupEventCause.JOIN_MISSED, member_id="m", group_instance_id=None, generation=1
        ),
        MemberFenced(
            **base,
            cause=GroupEventCause.STATIC_MEMBER_RETURNED,
            member_id="old",
            new_member_id="new",
            group_instance_id="i",
            generation=1,
        ),
        OffsetsRemoved(**base, cause=GroupEventCause.TOPIC_DELETED, count=1),
        CommitsMixed(**base, cause=GroupEventCause.COMMITS_MIXED, member_id="m", generation=4),
    ]
    told = [sentence(event.as_json()) for event in events]
    assert told[0] == "The last member left the group. It is empty in generation 2; its offsets are kept."
    assert told[1] == "m was removed: a member did not rejoin in time."
    assert "rejoined as new" in told[2]
    assert told[3] == "1 committed offset removed because the topic was deleted."
    assert told[4].startswith(
        "In generation 4 offsets were committed by consumers as well as in transactions (m)."
    )


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (GroupEventCause.MEMBER_LEFT, 'The last member left the group, saying "closing": m (client c).'),
        (
            GroupEventCause.MEMBER_DISMISSED,
            'An administrator removed the last member, saying "closing": m (client c).',
        ),
        (
            GroupEventCause.SESSION_EXPIRED,
            "The last member was silent for its session timeout: m (client c).",
        ),
        (GroupEventCause.JOIN_MISSED, "The last member did not rejoin in time: m (client c)."),
        (
            GroupEventCause.SYNC_MISSED,
            "The last members did not fetch their assignments in time: m (client c).",
        ),
    ],
)
def test_an_empty_group_tells_how_its_last_member_went(cause: GroupEventCause, expected: str) -> None:
    event = GroupEmptied(
        group_id="g",
        timestamp_ms=T,
        cause=cause,
        member_id="m",
        client_id="c",
        reason="closing" if "saying" in expected else "",
        generation_before=1,
        generation_after=2,
        join_phase_ms=0,
    )
    assert sentence(event.as_json()) == f"{expected} It is empty in generation 2; its offsets are kept."


def test_a_headline_is_short() -> None:
    assert headline(STARTED.as_json()) == (
        "app: a member was silent for its session timeout; all members rejoin"
    )
    assert headline(COMPLETED.as_json()) == "generation 5: 2 members, 3210 ms, 1 partition moved"


def test_chapters_come_in_order_of_time() -> None:
    story = story_entries([COMPLETED.as_json(), STARTED.as_json()])
    assert [entry.event["type"] for entry in story] == ["rebalance_started", "rebalance_completed"]


def test_the_summary_counts_causes_and_time() -> None:
    told = summary([STARTED.as_json(), COMPLETED.as_json()])
    assert told.startswith("1 rebalance, 3210 ms spent rebalancing.")
    assert "silent for its session timeout (1)" in told
    assert summary([]) == "No rebalances recorded."


def test_times_are_told_to_the_millisecond() -> None:
    assert clock_time(T + 7) == "2023-11-14 22:13:20.007"


def test_one_departure_is_one_chapter() -> None:
    # Given the three events that the departure of the last member leaves, and an older rebalance
    departure: dict[str, Any] = {
        "timestamp_ms": T + 9_000,
        "member_id": "app-1",
        "cause": str(GroupEventCause.MEMBER_LEFT),
    }
    older = [STARTED.as_json(), COMPLETED.as_json()]
    leaving = [
        {"type": kind, **departure} for kind in ("member_removed", "rebalance_started", "group_emptied")
    ]
    # Then the last of the three stands for all
    story = without_repeats(story_entries([*older, *leaving]))
    assert [entry.event["type"] for entry in story] == [
        "rebalance_started",
        "rebalance_completed",
        "group_emptied",
    ]


def test_a_departure_that_begins_no_rebalance_is_still_a_chapter() -> None:
    removed = {
        "type": "member_removed",
        "timestamp_ms": T,
        "member_id": "app-9",
        "cause": str(GroupEventCause.MEMBER_LEFT),
    }
    assert len(without_repeats(story_entries([removed, STARTED.as_json()]))) == 2
