"""What time does to members of groups: the same story told to both brokers, each told by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from interop.differential.comparing import Plain, differences
from interop.differential.group_sides import GroupSide, collect
from interop.differential.group_steps import subscription
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.testing import wait_until

LONG_MS: Final = 60_000
SHORT_MS: Final = 1_000
_PROTOCOLS: Final = (JoinGroupRequestProtocol("range", subscription(["ga"])),)
_PATIENCE_S: Final = 30.0
_UNKNOWN_MEMBER: Final = 25
_REBALANCE: Final = 27


class Story:
    """One group on both brokers; its members are called by the names of their connections."""

    def __init__(self, name: str, ours: str, kafkas: str) -> None:
        self.group_id = f"{name}-{time.time_ns():x}"
        self._sides = (GroupSide("klamm", ours), GroupSide("Kafka", kafkas))
        self._connections: dict[str, int] = {}
        self._asked: dict[int, tuple[str, ApiKey, int, Any]] = {}
        for side in self._sides:
            wait_until(partial(side.find_coordinator, self.group_id), "20s", equals=0, every="2ms")
            wait_until(
                partial(side.stranger_beats, self.group_id), "20s", equals=_UNKNOWN_MEMBER, every="2ms"
            )

    def close(self) -> None:
        for side in self._sides:
            side.close_all()

    def _post(self, name: str, api_key: ApiKey, version: int, request: Any) -> None:
        connection = self._connections.setdefault(name, len(self._connections) + 1)
        self._asked[connection] = (name, api_key, version, request)
        for side in self._sides:
            side.post(side.frame(api_key, version, request), connection)

    def hear(self, *names: str) -> None:
        """Wait until these are answered, and nobody else; both brokers say the same."""
        wanted = {self._connections[name] for name in names}
        heard: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        deadline = time.monotonic() + _PATIENCE_S
        while any(not wanted <= set(answers) for answers in heard):
            assert time.monotonic() < deadline, f"waited for {names}, heard {heard}"
            missing = [set(self._asked) - set(answers) for answers in heard]
            for answers, more in zip(heard, collect(self._sides, missing, 1.0), strict=True):
                answers.update(more)
        assert [set(answers) for answers in heard] == [wanted, wanted]
        for connection in sorted(wanted):
            self._compare(connection, [answers[connection] for answers in heard])

    def _compare(self, connection: int, frames: list[Any]) -> None:
        name, api_key, version, request = self._asked.pop(connection)
        plain = []
        for side, frame in zip(self._sides, frames, strict=True):
            answer = side.decoded(api_key, version, frame)
            if isinstance(answer, JoinGroupResponse) and not request.member_id:
                side.learn_member(name, answer.member_id, request.group_instance_id)
            plain.append(Plain(side).of(answer))
        found = list(differences(*plain))
        assert not found, f"{name}, {api_key.name} {version}: {found}"

    def cut(self, name: str) -> None:
        """The connection of somebody who waits breaks."""
        connection = self._connections.pop(name)
        del self._asked[connection]
        for side in self._sides:
            side.close(connection)

    # What members say

    def wants_in(
        self,
        name: str,
        *,
        known: bool = False,
        instance: str | None = None,
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
    ) -> None:
        """Ask to join; without an id in the version that gives none first, unless it is `known`."""
        version = 9 if known or instance is not None else 3
        member_id = name if known else ""
        self._post(
            name,
            ApiKey.JOIN_GROUP,
            version,
            JoinGroupRequest(
                self.group_id, session_ms, rebalance_ms, member_id, instance, "consumer", _PROTOCOLS
            ),
        )

    def is_given_an_id(self, name: str, session_ms: int) -> None:
        request = JoinGroupRequest(self.group_id, session_ms, LONG_MS, "", None, "consumer", _PROTOCOLS)
        self._post(name, ApiKey.JOIN_GROUP, 9, request)
        self.hear(name)

    def syncs(self, name: str, generation: int, *assigned: str, member: str | None = None) -> None:
        """Ask for an assignment, or bring those of these members."""
        assignments = [SyncGroupRequestAssignment(each, each.encode()) for each in assigned]
        request = SyncGroupRequest(
            self.group_id, generation, member or name, None, "consumer", "range", assignments
        )
        self._post(name, ApiKey.SYNC_GROUP, 5, request)

    def leaves(self, name: str, *, by: str) -> None:
        request = LeaveGroupRequest(self.group_id, [MemberIdentity(name)])
        self._post(by, ApiKey.LEAVE_GROUP, 5, request)

    def beats_until(self, name: str, generation: int, error_code: int) -> None:
        """Send heartbeats until both brokers answer them with this."""
        request = HeartbeatRequest(self.group_id, generation, name)
        wait_until(
            lambda: {_beat(side, request) for side in self._sides},
            f"{_PATIENCE_S}s",
            equals={error_code},
            every="2ms",
        )

    # Groups in a known state

    def begins_with(
        self,
        name: str,
        *,
        instance: str | None = None,
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
    ) -> None:
        """A stable group of one."""
        self.wants_in(name, instance=instance, session_ms=session_ms, rebalance_ms=rebalance_ms)
        self.hear(name)
        self.syncs(name, 1, name)
        self.hear(name)

    def grows_by(
        self,
        name: str,
        leader: str,
        *,
        instances: tuple[str | None, str | None] = (None, None),
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
    ) -> None:
        """A second member; the leader has still to bring assignments."""
        self.wants_in(name, instance=instances[1], session_ms=session_ms, rebalance_ms=rebalance_ms)
        self.beats_until(leader, 1, _REBALANCE)
        self.wants_in(leader, known=True, instance=instances[0], rebalance_ms=rebalance_ms)
        self.hear(name, leader)


def _beat(side: GroupSide, request: HeartbeatRequest) -> int:
    code: int = side.ask(ApiKey.HEARTBEAT, 4, request).error_code
    return code


def who_does_not_come_back_in_time_is_left_behind(story: Story) -> None:
    story.begins_with("a", rebalance_ms=SHORT_MS)
    story.wants_in("b", rebalance_ms=SHORT_MS)
    story.hear("b")
    story.beats_until("a", 1, _UNKNOWN_MEMBER)


def who_is_silent_in_the_join_phase_is_not_waited_for(story: Story) -> None:
    story.begins_with("a", session_ms=SHORT_MS)
    story.wants_in("b")
    story.hear("b")
    story.beats_until("a", 1, _UNKNOWN_MEMBER)


def who_is_silent_goes_and_the_others_rebalance(story: Story) -> None:
    story.begins_with("a")
    story.grows_by("b", "a", session_ms=2 * SHORT_MS)
    story.syncs("a", 2, "a", "b")
    story.syncs("b", 2)
    story.hear("a", "b")
    story.beats_until("a", 2, _REBALANCE)
    story.beats_until("b", 2, _UNKNOWN_MEMBER)


def a_leader_that_never_syncs_goes(story: Story) -> None:
    story.begins_with("a")
    story.grows_by("b", "a", rebalance_ms=2 * SHORT_MS)
    story.syncs("b", 2)
    story.hear("b")
    story.beats_until("a", 2, _UNKNOWN_MEMBER)
    story.wants_in("b", known=True)
    story.hear("b")


def a_follower_that_never_syncs_goes(story: Story) -> None:
    story.begins_with("a")
    story.grows_by("b", "a", rebalance_ms=2 * SHORT_MS)
    story.syncs("a", 2, "a", "b")
    story.hear("a")
    story.beats_until("a", 2, _REBALANCE)
    story.beats_until("b", 2, _UNKNOWN_MEMBER)


def an_id_that_is_not_used_is_waited_for_and_then_forgotten(story: Story) -> None:
    story.begins_with("a")
    story.is_given_an_id("p", SHORT_MS)
    story.wants_in("a", known=True)
    story.hear("a")
    story.wants_in("p", known=True)
    story.hear("p")


def a_static_member_may_miss_a_join_phase_but_no_sync(story: Story) -> None:
    story.begins_with("a", instance="A", rebalance_ms=SHORT_MS)
    story.grows_by("b", "a", instances=("A", "B"), rebalance_ms=2 * SHORT_MS)
    story.syncs("a", 2, "a", "b")
    story.syncs("b", 2)
    story.hear("a", "b")
    story.wants_in("a", known=True, instance="A", rebalance_ms=SHORT_MS)
    story.hear("a")
    story.syncs("a", 3, "a", "b")
    story.hear("a")
    story.beats_until("a", 3, _REBALANCE)
    story.beats_until("b", 3, _UNKNOWN_MEMBER)


def who_is_cut_off_while_it_waits_is_a_member_all_the_same(story: Story) -> None:
    story.begins_with("a")
    story.is_given_an_id("b", LONG_MS)
    story.wants_in("b", known=True)
    story.beats_until("a", 1, _REBALANCE)
    story.cut("b")
    story.wants_in("a", known=True)
    story.hear("a")
    story.syncs("a", 2, "a", "b")
    story.syncs("b again", 2, member="b")
    story.hear("a", "b again")


def who_leaves_while_it_waits_is_answered(story: Story) -> None:
    story.begins_with("a")
    story.is_given_an_id("b", LONG_MS)
    story.wants_in("b", known=True)
    story.beats_until("a", 1, _REBALANCE)
    story.leaves("b", by="somebody else")
    story.hear("b", "somebody else")
    story.wants_in("a", known=True)
    story.hear("a")


STORIES: Final[tuple[Callable[[Story], None], ...]] = (
    who_does_not_come_back_in_time_is_left_behind,
    who_is_silent_in_the_join_phase_is_not_waited_for,
    who_is_silent_goes_and_the_others_rebalance,
    a_leader_that_never_syncs_goes,
    a_follower_that_never_syncs_goes,
    an_id_that_is_not_used_is_waited_for_and_then_forgotten,
    a_static_member_may_miss_a_join_phase_but_no_sync,
    who_is_cut_off_while_it_waits_is_a_member_all_the_same,
    who_leaves_while_it_waits_is_answered,
)


def tell(both: tuple[str, str], make: Callable[[Story], None]) -> None:
    """One story from its beginning to its end."""
    story = Story(make.__name__, *both)
    try:
        make(story)
    finally:
        story.close()
