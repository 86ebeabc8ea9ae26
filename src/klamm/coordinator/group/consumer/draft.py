"""A decision about a group in the consumer protocol: its records, and the group as they will make it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, ConsumerSession
from klamm.coordinator.group.consumer.notes import SessionsClosed, TopicsChecked
from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemory,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    CurrentValue,
    EpochValue,
    MemberValue,
    Partitions,
    RegexValue,
    TargetEpochValue,
)
from klamm.coordinator.group.consumer.signals import HeartbeatRefused
from klamm.coordinator.group.consumer.topics_hash import topics_hash
from klamm.coordinator.group.events import GroupEpochBumped, GroupEvent, GroupEventCause, MemberRemoved
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupRecord
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.coordinator.runtime.timers import TimerChange


class Departure(NamedTuple):
    """A member leaves, or is removed."""

    member_id: str
    cause: GroupEventCause
    reason: str = ""  # as the client states it


class ConsumerDraft(Outcome):
    """An outcome that a decision fills; its fields show the group as it will be.

    The memory stays as it is: what changes is laid over it, for one member and for members that leave.
    """

    __slots__ = (
        "context",
        "epoch",
        "gone",
        "group_id",
        "heirs",
        "is_computing",
        "is_upgrade",
        "live",
        "memory",
        "resolved",
        "state",
        "target_epoch",
        "targets",
        "updated",
    )

    records: list[GroupRecord]
    notes: list[Note]
    timers: list[TimerChange]
    events: list[GroupEvent]
    replies: list[Reply]
    actions: list[Any]

    def __init__(
        self,
        state: GroupState,
        group_id: str,
        context: Context,
        memory: ConsumerMemory,
        live: ConsumerGroupMembership | None,
    ) -> None:
        super().__init__([], None, None, [], [], (), [], [], [], (), HeartbeatRefused)
        self.state = state
        self.group_id = group_id
        self.context = context
        self.memory = memory
        self.live = live  # None: the group is new
        self.epoch = memory.epoch
        self.target_epoch = memory.target_epoch
        self.updated: dict[str, MemberValue] = {}
        self.gone: dict[str, MemberValue] = {}
        self.targets: Mapping[str, Partitions] = {}  # the new target, if there is one: of all members
        self.resolved: dict[str, RegexValue] = {}  # what regular expressions match now, where it is new
        self.is_computing = live is not None and live.computing is not None  # its target: there soon
        self.is_upgrade = False  # the group was one of the classic protocol
        self.heirs: dict[str, str] = {}  # a static member's new id -> the one whose place it takes

    # --- the group as it will be -------------------------------------------------------------------------

    def members(self) -> dict[str, MemberValue]:
        members = {**self.memory.members, **self.updated}
        for member_id in self.gone:
            del members[member_id]
        return members

    def _member_count(self) -> int:
        """How many it will have; without looking at each of them, since every join asks."""
        known = self.memory.members
        return len(known) - len(self.gone) + sum(each not in known for each in self.updated)

    def _changed(self) -> list[MemberValue]:
        """The members that go, or describe themselves otherwise, as they were."""
        known = self.memory.members
        return [known[each] for each in {*self.gone, *self.updated} if each in known]

    def subscribed(self) -> set[str]:
        """The topics that it will read."""
        return self.memory.subscribed_after(self._changed(), self.updated.values(), self.resolved)

    def regexes(self) -> set[str]:
        """The regular expressions that its members will use."""
        counts = self.memory.regexes_after(self._changed(), self.updated.values())
        return {regex for regex, count in counts.items() if count > 0}

    # --- records -----------------------------------------------------------------------------------------

    def update(self, member_id: str, value: MemberValue) -> None:
        """A member is new, or describes itself otherwise."""
        if self.memory.members.get(member_id) != value:
            self.updated[member_id] = value
            self.records.append(ConsumerMember(self.group_id, member_id, value))

    def bump(self, cause: GroupEventCause, member_id: str = "", reason: str = "") -> None:
        """The epoch of the group rises."""
        self.raise_epoch()
        self.events.append(
            GroupEpochBumped(
                group_id=self.group_id,
                timestamp_ms=self.context.timestamp_ms,
                cause=cause,
                member_id=member_id,
                client_id=self.context.client_id,
                client_host=self.context.client_host,
                reason=reason,
                generation=self.epoch,
                member_count=self._member_count(),
            )
        )

    def raise_epoch(self) -> None:
        self.epoch += 1
        topics, subscribed = self.state.topics, self.subscribed()
        is_known = (
            topics is not None and self.live is not None and self.live.checked_version == topics.version
        )
        if is_known and subscribed == self.memory.subscribed():
            hashed = self.memory.metadata_hash  # another member: of a large topic it takes a millisecond
        else:
            hashed = topics_hash(topics, subscribed)
        self.records.append(ConsumerGroupEpoch(self.group_id, EpochValue(self.epoch, hashed)))
        self._check_topics()

    def _check_topics(self) -> None:
        if self.state.topics is not None:
            self.notes.append(TopicsChecked(self.group_id, self.state.topics.version))

    def have_topics_changed(self) -> bool:
        """Whether the topics that the group reads are not those that it knows; compared once per version."""
        topics = self.state.topics
        if topics is None or (self.live is not None and self.live.checked_version == topics.version):
            return False
        if topics_hash(topics, self.subscribed()) != self.memory.metadata_hash:
            return True
        self._check_topics()
        return False

    def retarget(self, targets: Mapping[str, Partitions], epoch: int | None = None) -> None:
        """The group has a new target, for all its members; of its own epoch, or of an older one."""
        self.targets = targets
        for member_id, target in targets.items():
            if self.memory.targets.get(member_id, {}) != target:
                self.records.append(ConsumerTarget(self.group_id, member_id, target))
        self.reached_target_epoch(epoch)

    def inherit(self, member_id: str, target: Partitions) -> None:
        """A static member's new id gets the target of the one before."""
        self.records.append(ConsumerTarget(self.group_id, member_id, target))

    def reached_target_epoch(self, epoch: int | None = None) -> None:
        """The target is that of the group's epoch, or of an older one."""
        self.target_epoch = self.epoch if epoch is None else epoch
        value = TargetEpochValue(self.target_epoch, self.context.timestamp_ms)
        self.records.append(ConsumerTargetEpoch(self.group_id, value))

    def grant(self, member_id: str, current: CurrentValue) -> None:
        self.records.append(ConsumerCurrent(self.group_id, member_id, current))

    def forget_unused_regexes(self) -> None:
        """Write tombstones for regular expressions that no member uses any more."""
        if not self.memory.regexes:
            return
        used = self.regexes()
        for regex in self.memory.regexes:
            if regex not in used:
                self.records.append(ConsumerRegex(self.group_id, regex, None))

    def erase(self, member_id: str) -> None:
        """Write the tombstones of one member."""
        group_id = self.group_id
        self.records += (
            ConsumerCurrent(group_id, member_id, None),
            ConsumerTarget(group_id, member_id, None),
            ConsumerMember(group_id, member_id, None),
        )
        self.gone[member_id] = self.memory.members[member_id]

    def close_sessions(self, member_ids: Sequence[str]) -> None:
        """Stop the timers of members that are gone."""
        assert self.live is not None, "a group without members has no sessions"
        for member_id in member_ids:
            session = self.live.sessions.get(member_id)
            if session is not None:
                self.timers += [(timer, None) for timer in session.timers()]
        self.notes.append(SessionsClosed(self.group_id, tuple(member_ids)))

    def remove(self, departures: Iterable[Departure]) -> None:
        """Members leave or are removed. What that means for the group is decided next."""
        for member_id, cause, reason in departures:
            member = self.memory.members[member_id]
            self.erase(member_id)
            self.events.append(
                MemberRemoved(
                    group_id=self.group_id,
                    timestamp_ms=self.context.timestamp_ms,
                    cause=cause,
                    member_id=member_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    reason=reason,
                    group_instance_id=member.instance_id,
                    generation=self.epoch,
                )
            )
        self.close_sessions(tuple(self.gone))

    def bump_after(self, departure: Departure) -> None:
        """The epoch rises, and others get the partitions of those that are gone."""
        self.forget_unused_regexes()
        self.bump(departure.cause, departure.member_id, departure.reason)
        if len(self.gone) == len(self.memory.members) and not self.updated:
            self.reached_target_epoch()  # nothing is left to assign

    def arm(self, session: ConsumerSession, current: CurrentValue | None, member: MemberValue) -> None:
        """The member has time to give up partitions while it has to, and no other timer of that kind."""
        due_at_ms = None
        if current is not None and current.state == 1:
            due_at_ms = self.context.now_ms + member.rebalance_timeout_ms
        self.timers.append((session.revocation, due_at_ms))

    def answer(self, response: object) -> None:
        self.replies.append((self.context.token, response))

    def outcome(self) -> GroupOutcome:
        """The outcome; without records its replies wait for the group's last record alone."""
        group = self.state.groups.get(self.group_id)
        self.seen_offset = None if group is None else group.memory.registered_until
        return self
