"""Commits and members: the generation that a commit carries, and what its refusal means."""

from __future__ import annotations

from typing import Final

from klamm.client.consumer.group.generation import NO_GENERATION, Generation, MemberState
from klamm.client.consumer.group.heartbeating import HeartbeatingMember
from klamm.client.consumer.group.membership import ConsumerMembership
from klamm.client.consumer.group.roles import GroupMembership
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.errors import (
    BrokerError,
    CommitFailedError,
    KlammError,
    RebalanceInProgressError,
    StaleMemberEpochError,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition

FORMER_MEMBER: Final = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation)


class ClassicFencing:
    """Commits of a member that joins: refused during a rebalance."""

    def __init__(
        self, settings: ConsumerSettings, state: SubscriptionState, membership: ConsumerMembership
    ) -> None:
        self._settings = settings
        self._state = state
        self._membership = membership

    def generation(self) -> Generation:
        if not self._state.is_auto:
            return NO_GENERATION
        membership = self._membership
        if membership.state is MemberState.STABLE:
            return membership.generation
        if membership.is_rebalancing:
            raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
        raise not_a_member(self._settings, membership, "this consumer is not a member of its group now")

    def reader(self) -> Generation | None:
        if self._membership.state is MemberState.PREPARING:
            # It would wait behind the JoinGroup on the same connection.
            raise LaterError("a join is under way")
        return None

    def refused(self, code: int, error: KlammError, partition: TopicPartition, sent: Generation) -> None:
        membership = self._membership
        is_current = membership.generation == sent
        if code == ErrorCode.rebalance_in_progress:
            if is_current:
                membership.request_rejoin("a commit was refused: the group is rebalancing")
            raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
        if code in FORMER_MEMBER or code == ErrorCode.fenced_instance_id:
            if not is_current:
                if membership.state is MemberState.PREPARING:
                    raise RebalanceInProgressError("the group is rebalancing: poll, then commit again")
                # Kafka would reset the new, healthy generation here.
                what = f"committing {partition}: the generation has changed"
                raise not_a_member(self._settings, membership, what)
            if code in FORMER_MEMBER:
                if self._state.is_auto:
                    membership.reset(str(error), keeps_id=code == ErrorCode.illegal_generation)
                raise not_a_member(self._settings, membership, str(error))


class EpochFencing:
    """Commits of a member of the consumer protocol: accepted at any time, with the current epoch."""

    def __init__(
        self, settings: ConsumerSettings, state: SubscriptionState, membership: HeartbeatingMember
    ) -> None:
        self._settings = settings
        self._state = state
        self._membership = membership

    def generation(self) -> Generation:
        if not self._state.is_auto:
            return NO_GENERATION
        generation = self._membership.generation
        if generation.is_valid:
            return generation
        what = "this consumer is not a member of its group now"
        raise not_a_member(self._settings, self._membership, what)

    def reader(self) -> Generation | None:
        if not self._state.is_auto or not self._membership.generation.is_valid:
            return None
        return self._membership.generation

    def refused(self, code: int, error: KlammError, partition: TopicPartition, sent: Generation) -> None:
        if code == ErrorCode.stale_member_epoch:
            raise StaleMemberEpochError(f"{error}: the epoch of this member has changed")
        if code in FORMER_MEMBER or code == ErrorCode.fenced_member_epoch:
            # The next heartbeat hears it too, and joins again.
            raise not_a_member(self._settings, self._membership, str(error))


class LaterError(BrokerError):
    """Not now; soon."""

    default_code = ErrorCode.rebalance_in_progress
    retriable = True


def not_a_member(settings: ConsumerSettings, membership: GroupMembership, what: str) -> CommitFailedError:
    """The error of a commit that comes too late."""
    why = f" ({membership.overdue})" if membership.overdue else ""
    return CommitFailedError(
        f"{what}{why}; its partitions are reassigned. If processing takes long, increase "
        f"max.poll.interval.ms (now {settings.max_poll_interval_ms}) or lower max.poll.records "
        f"(now {settings.max_poll_records})"
    )
