"""Groups and their members as both brokers see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from interop.differential.world import World
from klamm.protocol.api import ApiKey

PROTOCOLS: Final = ("range", "roundrobin", "sticky")
TOPICS: Final = {"ga": 2, "gb": 1, "gc": 20}


@dataclass(slots=True)
class Member:
    """Somebody who is, was or wants to be in a group."""

    group: Group
    connection: int
    instance_id: str | None = None
    member_id: str = ""  # a stand-in; "" until one was given
    protocols: list[tuple[str, bytes]] = field(default_factory=list)
    generation: int = -1
    is_pending: bool = False  # has an id, and has not joined with it
    is_in: bool = False  # joined, and has not left
    has_synced: bool = False
    waits_for: ApiKey | None = None


@dataclass(slots=True)
class Group:
    """One group; retired once the brokers may rightly disagree about it."""

    group_id: str
    members: list[Member] = field(default_factory=list)
    generation: int = 0
    leader: str = ""
    protocol: str | None = None
    protocol_type: str = "consumer"
    is_retired: bool = False

    def present(self) -> list[Member]:
        return [member for member in self.members if member.is_in]


@dataclass(slots=True)
class Asked:
    """A request on its way."""

    number: int
    api_key: ApiKey
    version: int
    request: Any
    connection: int
    member: Member | None = None
    group: Group | None = None
    says: str = ""
    frame_change: Callable[[bytes], bytes] | None = None
    cuts: int | None = None  # a connection that breaks before

    def __str__(self) -> str:
        return f"{self.api_key.name} {self.version} {self.says}"


@dataclass(slots=True)
class GroupWorld:
    """What the steps choose from."""

    random: Random
    topics: World
    groups: list[Group]
    connections: int = 100
    joins: int = 0

    def group(self) -> Group:
        return self.random.choice([group for group in self.groups if not group.is_retired])

    def next_connection(self) -> int:
        self.connections += 1
        return self.connections

    def any_member(self, group: Group) -> Member | None:
        return self.random.choice(group.members) if group.members else None

    def any_member_id(self, group: Group) -> str:
        chance = self.random.random()
        if chance < 0.8 and group.members:
            return self.random.choice(group.members).member_id
        return self.random.choice(("", "nobody", "differential-0"))

    def any_generation(self, group: Group, *, right: float = 0.8) -> int:
        if self.random.random() < right:
            return group.generation
        return self.random.choice((-1, 0, group.generation - 1, group.generation + 1, -2, 2**31 - 1))
