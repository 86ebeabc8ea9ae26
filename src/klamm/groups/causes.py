"""Why groups rebalance: the causes that a broker records, and what the members before and after suggest.

klamm's coordinator records a cause with each event. Where there is none, as on Apache Kafka, it is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

# An event this far from a rebalance with the same generation is of an earlier group with the same name.
NEAR_MS: Final = 300_000
EXPLAINING: Final = ("rebalance_completed", "group_emptied")


class GroupEventCause(StrEnum):
    """What caused an event."""

    MEMBER_JOINED = "a member joined"
    METADATA_CHANGED = "a member rejoined with other metadata"
    LEADER_REJOINED = "the leader rejoined"
    STATIC_MEMBER_RETURNED = "a static member returned"
    MEMBER_LEFT = "a member left"
    MEMBER_DISMISSED = "an administrator removed a member"
    SESSION_EXPIRED = "a member was silent for its session timeout"
    JOIN_MISSED = "a member did not rejoin in time"
    SYNC_MISSED = "members did not fetch their assignments in time"
    JOIN_TOO_LONG = "a new member waited too long for the others"
    ID_UNUSED = "a member id was assigned and never used"
    GROUP_FULL = "the group has as many members as it may have"
    ASSIGNMENT_NOT_WRITTEN = "the leader's assignment could not be written"
    GROUP_DELETED = "the group was deleted"
    RETENTION_OVER = "the retention time is over"
    TOPIC_DELETED = "the topic was deleted"
    SUBSCRIPTION_CHANGED = "a subscription changed"
    TOPICS_CHANGED = "topics or their partitions changed"
    REVOCATION_TOO_LONG = "a member did not give up its partitions in time"
    ASSIGNOR_FAILED = "the assignor failed"
    CONSUMER_JOINED = "a member joined that speaks the consumer protocol"
    LAST_CONSUMER_GONE = "the last member that speaks the consumer protocol is gone"
    COMMITS_MIXED = "plain and transactional commits are mixed"


def why(event: Mapping[str, Any]) -> str:
    """The cause of an event, and the reason as the client states it."""
    cause, reason = str(event.get("cause") or "unknown cause"), event.get("reason")
    return f"{cause}: {reason}" if reason else cause


class RecordedCauses:
    """Events of some groups, to be found by rebalance."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self._events: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for event in events:
            if event["type"] in EXPLAINING and event["timestamp_ms"] is not None:
                key = (event["group_id"], event["generation_after"])
                self._events.setdefault(key, []).append(event)

    def of(self, group_id: str, generation_after: int, at_ms: int) -> Mapping[str, Any] | None:
        """The event that ended this rebalance; None if none is recorded."""
        near = [
            event
            for event in self._events.get((group_id, generation_after), ())
            if abs(event["timestamp_ms"] - at_ms) < NEAR_MS
        ]
        return min(near, key=lambda each: abs(each["timestamp_ms"] - at_ms), default=None)


def inferred_cause(rebalance: Mapping[str, Any]) -> str:
    """What the members before and after say."""
    reasons = (
        (rebalance["members_after"] == 0, "the last member left"),
        (rebalance["members_before"] == 0, "the first member joined"),
        (rebalance["is_gap"], "several rebalances in a row"),
        (rebalance["joined"] and rebalance["left"], "members joined and left"),
        (rebalance["joined"], "a member joined"),
        (rebalance["left"], "a member left or its session expired"),
        (rebalance["subscriptions_changed"], "a subscription changed"),
        (rebalance["protocol_changed"], "the assignor changed"),
        (rebalance["group_type"] == "consumer", "topics or partitions changed"),
    )
    return next((text for is_it, text in reasons if is_it), "a member rejoined")
