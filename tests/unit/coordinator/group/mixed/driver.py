"""Groups with members of both protocols, one line each: `world.rejoin("a", owned="t-0 t-1")`."""

from __future__ import annotations

from typing import Any

from klamm.coordinator.group.config import GroupConfig
from klamm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.types import TopicPartition
from unit.coordinator.asking import DELAY_MS, SESSION_MS, Call
from unit.coordinator.group.consumer.driver import GroupWorld
from unit.coordinator.group.consumer.names import numbers, shown

CLASSIC_SESSION_MS = SESSION_MS
CLASSIC_REVOKE_MS = 60_000


def partitions(names: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, each in numbers(names).items() for number in each)


def metadata(topics: str = "t", owned: str = "", *, rack: str | None = None, version: int = 3) -> bytes:
    return encode_subscription(
        Subscription(tuple(topics.split()), None, partitions(owned), None, rack), version
    )


def assigned(names: str, user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(partitions(names), user_data))


class MixedWorld(GroupWorld):
    """A coordinator whose groups members of both protocols join."""

    def __init__(self, config: GroupConfig | None = None, **settings: Any) -> None:
        super().__init__(config or GroupConfig(**settings))

    def classics(
        self, *given: str, user_data: bytes | None = None, owned: tuple[str, ...] = (), **arguments: Any
    ) -> list[str]:
        """A stable group of the classic protocol, one member for each assignment; its generation is 1."""
        subscriptions = [metadata(owned=each) for each in owned] or [metadata()] * len(given)
        calls = [self.join(protocols={"range": subscription}, **arguments) for subscription in subscriptions]
        self.pass_ms(2 * DELAY_MS)
        members = [call.response.member_id for call in calls]
        assignments = {
            member_id: assigned(names, user_data) for member_id, names in zip(members, given, strict=True)
        }
        for member_id in members:
            is_leader = member_id == self.live().leader_id
            assert self.sync(member_id, 1, assignments if is_leader else None).error is ErrorCode.none
        return members

    def rejoin(
        self, member_id: str = "", owned: str = "", *, topics: str = "t", version: int = 9, **arguments: Any
    ) -> Call[JoinGroupResponse]:
        arguments.setdefault("protocols", {"range": metadata(topics, owned)})
        return self.join(member_id, version=version, **arguments)

    def fetched(self, member_id: str, generation: int, **arguments: Any) -> str | ErrorCode:
        """What SyncGroup answers."""
        call = self.sync(member_id, generation, **arguments)
        if call.error is not ErrorCode.none:
            return call.error
        found: dict[str, list[int]] = {}
        for each in decode_assignment(call.response.assignment).partitions:
            found.setdefault(each.topic, []).append(each.partition)
        return shown(found)

    def is_mixed(self) -> bool:
        return self.group().memory.consumer is not None

    def follow(self, member_id: str, owned: str) -> str:
        """A cooperative member does what it is told, until it is told nothing more; what it has then."""
        generation = self.current(member_id).epoch
        classic = self.members().memory.members[member_id].classic
        assert classic is not None
        for _ in range(6):
            if self.heartbeat(member_id, generation) is ErrorCode.none:
                return owned
            joined = self.rejoin(member_id, owned, session_ms=classic.session_timeout_ms)
            assert joined.error is ErrorCode.none
            generation = joined.response.generation_id
            fetched = self.fetched(member_id, generation)
            assert isinstance(fetched, str)
            owned = fetched
        return owned
