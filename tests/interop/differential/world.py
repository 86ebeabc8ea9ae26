"""What a generator knows of both brokers alike: the topics, their partitions, how far they reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

from interop.differential.sides import MARK, stand_in
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataResponse

NAMES: Final = ("a", "b", "c.d", "c_d", "x" * 249)
BAD_NAMES: Final = ("", ".", "..", "a b", "x" * 250, "ü", "a/b", "\u2603", "a\n")
MISSING: Final = "missing"


class Question(Protocol):
    """What was asked, as far as a difference in the answers concerns it."""

    @property
    def api_key(self) -> ApiKey: ...

    @property
    def request(self) -> Any: ...

    @property
    def says(self) -> str: ...

    @property
    def frame_change(self) -> Any: ...


@dataclass(slots=True)
class Step:
    """One request to both brokers, and what to wait for before the answers are compared."""

    api_key: ApiKey
    version: int
    request: Any
    says: str = ""
    changes_cluster: bool = False
    appends_to: Sequence[tuple[str, int]] = ()  # may be behind the answer
    is_answered: bool = True
    frame_change: Any = None  # bytes -> bytes, on what goes over the wire
    asks_again: bool = False  # compare what is answered once everything has settled
    connection: int = 0

    def __str__(self) -> str:
        return f"{self.api_key.name} {self.version} {self.says}"


@dataclass(slots=True)
class Producer:
    """An idempotent producer as a client would remember it, per partition."""

    producer_id: int
    epoch: int = 0
    next_sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    sent: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The model; changed by what both brokers answered alike."""

    random: Random
    start_ms: int  # the time that records are dated about
    topics: dict[str, int] = field(default_factory=dict)  # name -> partitions
    generations: dict[str, int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)  # where raised
    rewriting: set[str] = field(default_factory=set)
    producers: list[Producer] = field(default_factory=list)
    sessions: int = 0
    session_epochs: dict[int, int] = field(default_factory=dict)  # stand-in -> next epoch

    def learn(self, metadata: MetadataResponse, generations: dict[str, int]) -> None:
        """Topics as both brokers have them now."""
        self.topics = {
            topic.name: len(topic.partitions)
            for topic in metadata.topics
            if topic.name and topic.name != MARK and not topic.name.startswith("__")
        }
        for name, generation in generations.items():
            if self.generations.get(name) != generation:
                self.generations[name] = generation
                self._forget(name)
        for name in {name for name, _ in (*self.ends, *self.starts)} - set(self.topics):
            self._forget(name)

    def _forget(self, name: str) -> None:
        for places in (self.ends, self.starts):
            for key in [key for key in places if key[0] == name]:
                del places[key]

    def topic_id(self, name: str) -> bytes:
        return stand_in(name, self.generations.get(name, 1))

    def any_name(self, *, bad: float = 0.03) -> str:
        """A topic's name: mostly of one that is there."""
        if self.random.random() < bad:
            return self.random.choice(BAD_NAMES)
        if self.topics and self.random.random() < 0.9:
            return self.random.choice(sorted(self.topics))
        return self.random.choice((*NAMES, MISSING))

    def any_partition(self, name: str) -> int:
        count = self.topics.get(name, 1)
        if self.random.random() < 0.07:
            return self.random.choice((-1, count, count + 1, 2**31 - 1, -(2**31)))
        return self.random.randrange(count) if count else 0

    def any_id(self, name: str) -> bytes:
        """The id of the topic, of one that is gone, or of none."""
        chance = self.random.random()
        if chance < 0.88:
            return self.topic_id(name)
        if chance < 0.92:
            return stand_in(name, max(1, self.generations.get(name, 1) - 1))
        return self.random.choice((bytes(16), bytes(15) + b"\1", b"\7" * 16))

    def end(self, name: str, partition: int) -> int:
        return self.ends.get((name, partition), 0)

    def any_offset(self, name: str, partition: int) -> int:
        end = self.end(name, partition)
        chance = self.random.random()
        if chance < 0.75 and end:
            return self.random.randrange(end)
        return self.random.choice((0, end, end, end + 1, end - 1, -1, -2, 2**63 - 1, -(2**63)))

    def any_epoch(self) -> int:
        return self.random.choice((-1, -1, -1, -1, 0, 0, 1, 5, -2))
