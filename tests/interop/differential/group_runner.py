"""One seed, one history of groups: members that join, sync, beat, commit and leave, on both brokers alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

from interop.differential import group_steps, offset_steps
from interop.differential.boundary_steps import at_a_boundary
from interop.differential.comparing import Plain, differences
from interop.differential.deliberate import ANOTHER_LEADER, reason
from interop.differential.group_sides import GroupSide, collect
from interop.differential.group_world import TOPICS, Asked, Group, GroupWorld, Member
from interop.differential.runner import AT_A_BOUNDARY, Difference
from interop.differential.world import World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.testing import wait_until

_ANSWERED_WITHIN_S: Final = 15.0
_QUIET_S: Final = 0.01  # both have decided, and nobody says anything for this long: whoever is silent waits
_UNKNOWN_MEMBER: Final = 25
_MEMBER_ID_REQUIRED: Final = 79
_BURSTS: Final = 5  # the connection that they come on

STEPS: Final[dict[Callable[[GroupWorld], Asked], int]] = {
    group_steps.join_new: 12,
    group_steps.join_again: 25,
    group_steps.cut_off: 3,
    group_steps.sync: 30,
    group_steps.heartbeat: 12,
    group_steps.leave: 7,
    offset_steps.commit: 14,
    offset_steps.fetch: 8,
    offset_steps.delete_offsets: 4,
    offset_steps.describe: 8,
    offset_steps.list_groups: 4,
    offset_steps.delete: 2,
    offset_steps.find_coordinator: 3,
    offset_steps.change_topic: 2,
    offset_steps.changed_frame: 4,
}
# Whose answers follow from the requests before them, and who never waits for others.
PIPELINED: Final[dict[Callable[[GroupWorld], Asked], int]] = {
    offset_steps.commit: 10,
    offset_steps.fetch: 8,
    offset_steps.delete_offsets: 4,
    offset_steps.describe: 4,
    offset_steps.list_groups: 3,
    offset_steps.delete: 3,
}


class GroupHistory:
    """Drives the members of a few groups."""

    boundaries = AT_A_BOUNDARY

    def __init__(self, ours: GroupSide, kafkas: GroupSide, seed: int) -> None:
        self._sides = (ours, kafkas)
        self._seed = seed
        random = Random(seed)
        run = f"{time.time_ns():x}"
        topics = World(random, 0)
        groups = [
            Group(f"{seed}-{run}-{number}", protocol_type=kind)
            for number, kind in enumerate(("consumer", "consumer", "connect"))
        ]
        self.world = GroupWorld(random, topics, groups)
        self._unanswered: dict[int, Asked] = {}
        self.asked: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()

    def run(self, steps: int) -> Iterator[Difference]:
        """Every difference that nobody meant."""
        self._begin()
        makers = list(STEPS)
        for number in range(steps):
            if all(group.is_retired for group in self.world.groups):
                return
            (make,) = self.world.random.choices(makers, [STEPS[each] for each in makers])
            asked = make(self.world)
            asked.number = number
            if (
                asked.frame_change is None
                and make is not offset_steps.change_topic
                and self.world.random.random() < self.boundaries
            ):
                asked.request, says = at_a_boundary(
                    self.world.random, asked.api_key, asked.version, asked.request
                )
                asked.says += says
            self.asked[f"{asked.api_key.name} {asked.version}"] += 1
            yield from self._take(asked)
            if make is offset_steps.change_topic:
                for side in self._sides:
                    side.settle()
                self._learn_topics()
        for asked in offset_steps.audit(self.world):
            asked.number = steps
            yield from self._take(asked)

    def run_in_bursts(self, steps: int) -> Iterator[Difference]:
        """The same for requests about offsets, many at a time on one connection."""
        self._begin()
        makers = list(PIPELINED)
        for number in range(steps):
            count = self.world.random.randint(2, 25)
            chosen = self.world.random.choices(makers, [PIPELINED[each] for each in makers], k=count)
            asked = [make(self.world) for make in chosen]
            frames = [
                side.exchange_all(
                    [side.frame(each.api_key, each.version, each.request) for each in asked], _BURSTS
                )
                for side in self._sides
            ]
            for each, *answers in zip(asked, *frames, strict=True):
                each.number = number
                self.asked[f"{each.api_key.name} {each.version}"] += 1
                decoded = tuple(
                    side.decoded(each.api_key, each.version, answer)
                    for side, answer in zip(self._sides, answers, strict=True)
                )
                yield from self._compare(each, decoded, set())

    def _begin(self) -> None:
        for side in self._sides:
            self._prepare(side)
        self._learn_topics()

    def _learn_topics(self) -> None:
        metadata = [side.learn() for side in self._sides][1]
        self.world.topics.learn(metadata, {name: self._sides[1].generation(name) for name in TOPICS})

    def _prepare(self, side: GroupSide) -> None:
        side.clear()
        topics = [CreatableTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
        side.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics))
        side.settle()
        side.learn()
        for group_id in (*offset_steps.STRAY_GROUPS, *(group.group_id for group in self.world.groups)):
            wait_until(partial(side.find_coordinator, group_id), "20s", equals=0, every="2ms")
            if group_id:
                wait_until(partial(side.stranger_beats, group_id), "20s", equals=_UNKNOWN_MEMBER, every="2ms")
        for group_id in offset_steps.STRAY_GROUPS:
            side.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest([group_id]))

    def _take(self, asked: Asked) -> Iterator[Difference]:
        if asked.cuts is not None:
            del self._unanswered[asked.cuts]
            for side in self._sides:
                side.close(asked.cuts)
        for side in self._sides:
            frame = side.frame(asked.api_key, asked.version, asked.request)
            side.post(frame if asked.frame_change is None else asked.frame_change(frame), asked.connection)
        self._unanswered[asked.connection] = asked
        if asked.member is not None:
            asked.member.waits_for = asked.api_key
        frames = self._collect(asked)
        ours, kafkas = (set(answers) for answers in frames)
        if ours != kafkas:
            waiting = {connection: str(self._unanswered[connection]) for connection in ours ^ kafkas}
            whole = ({waiting[each] for each in ours - kafkas}, {waiting[each] for each in kafkas - ours})
            yield Difference(self._seed, asked.number, asked, "who is answered", *whole, whole)
        answered = [self._unanswered.pop(connection) for connection in sorted(ours & kafkas)]
        decoded = [
            tuple(
                side.decoded(each.api_key, each.version, answers[each.connection])
                for side, answers in zip(self._sides, frames, strict=True)
            )
            for each in answered
        ]
        for each, answers in zip(answered, decoded, strict=True):
            self._learn_member(each, answers)
        leaders = self._disputed_leaders(answered, decoded)
        for each, answers in zip(answered, decoded, strict=True):
            yield from self._compare(each, answers, leaders)
        for each, answers in zip(answered, decoded, strict=True):
            self._note(each, Plain(self._sides[1]).of(answers[1]), answers[1])

    def _collect(self, asked: Asked) -> tuple[dict[int, Any], dict[int, Any]]:
        """Answers of both sides, once they agree on who is answered and nobody says anything more."""
        frames: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        if asked.group is not None:
            for side in self._sides:
                # A group is told one thing at a time: when it can be described, it has decided.
                side.ask(ApiKey.DESCRIBE_GROUPS, 0, DescribeGroupsRequest([asked.group.group_id]))
        deadline = time.monotonic() + _ANSWERED_WITHIN_S
        while time.monotonic() < deadline:
            missing = [set(self._unanswered) - set(answers) for answers in frames]
            if not any(missing):
                break
            agree = missing[0] == missing[1]
            found = collect(self._sides, missing, _QUIET_S)
            for answers, new in zip(frames, found, strict=True):
                answers.update(new)
            if agree and not any(found) and group_steps.OTHERS not in missing[0]:
                break
        return frames

    def _learn_member(self, asked: Asked, answers: tuple[Any, ...]) -> None:
        if asked.api_key is ApiKey.JOIN_GROUP:
            for side, answer in zip(self._sides, answers, strict=True):
                if isinstance(answer, JoinGroupResponse) and not asked.request.member_id:
                    instance_id = asked.request.group_instance_id
                    side.learn_member(f"m{asked.number}", answer.member_id, instance_id)

    def _disputed_leaders(self, answered: list[Asked], decoded: list[tuple[Any, ...]]) -> set[str]:
        """Groups that lost their leader, and whose next one the brokers choose differently: they retire."""
        disputed = set()
        for asked, (our, their) in zip(answered, decoded, strict=True):
            if not isinstance(our, JoinGroupResponse) or our.error_code or asked.group is None:
                continue
            leaders = {
                side.member_stand_in(answer.leader)
                for side, answer in zip(self._sides, (our, their), strict=True)
                if isinstance(answer, JoinGroupResponse)
            }
            if len(leaders) == 2 and asked.group.leader not in leaders:
                disputed.add(asked.group.group_id)
                asked.group.is_retired = True
        return disputed

    def _compare(self, asked: Asked, answers: tuple[Any, ...], leaders: set[str]) -> Iterator[Difference]:
        known = {group.group_id for group in self.world.groups if not group.is_retired} | set(
            offset_steps.STRAY_GROUPS
        )
        ours, kafkas = (
            Plain(side, groups=known).of(answer) for side, answer in zip(self._sides, answers, strict=True)
        )
        is_disputed = asked.group is not None and asked.group.group_id in leaders
        for path, our, their in differences(ours, kafkas):
            if is_disputed and path.startswith(("leader", "members", "skip_assignment")):
                self.excused[ANOTHER_LEADER] += 1
                continue
            why = reason(asked, path, our, their)
            if why is None:
                yield Difference(self._seed, asked.number, asked, path, our, their, (ours, kafkas))
            else:
                self.excused[why] += 1

    def _note(self, asked: Asked, plain: Any, answer: Any) -> None:
        """What the next steps may refer to."""
        member = asked.member
        if member is not None:
            member.waits_for = None
        if not isinstance(plain, dict):
            return
        if asked.api_key is ApiKey.JOIN_GROUP and member is not None:
            self._note_join(member, asked, plain)
        elif asked.api_key is ApiKey.SYNC_GROUP and member is not None:
            member.has_synced = plain["error_code"] == 0
        elif asked.api_key is ApiKey.LEAVE_GROUP and asked.group is not None:
            if not plain["members"] and plain["error_code"] == 0:
                self._gone(asked.group, asked.request.member_id, None)
            for each in plain["members"]:
                if each["error_code"] == 0:
                    self._gone(asked.group, each["member_id"], each["group_instance_id"])

    @staticmethod
    def _note_join(member: Member, asked: Asked, plain: dict[str, Any]) -> None:
        if (
            plain["error_code"] not in (0, _MEMBER_ID_REQUIRED)
            or asked.request.group_id != member.group.group_id
        ):
            return
        member.member_id = plain["member_id"]
        member.is_pending = plain["error_code"] == _MEMBER_ID_REQUIRED
        if plain["error_code"] == 0:
            group = member.group
            if asked.request.group_instance_id is not None:
                for other in group.members:
                    if other is not member and other.instance_id == member.instance_id:
                        other.is_in = False
            if plain["generation_id"] != group.generation:
                for other in group.members:
                    other.has_synced = False
            member.is_in, member.has_synced = True, False
            group.generation = member.generation = plain["generation_id"]
            group.leader, group.protocol = plain["leader"], plain["protocol_name"]

    @staticmethod
    def _gone(group: Group, member_id: str, instance_id: str | None) -> None:
        for member in group.members:
            if (member_id and member.member_id == member_id) or (
                not member_id and instance_id and member.instance_id == instance_id
            ):
                member.is_in = False
