"""What happened in a group: its generations, who owned what, what listeners were told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from klamm.coordinator.group.events import RebalanceCompleted
from klamm.coordinator.runtime.events import Event
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.types import TopicPartition

CallbackKind = Literal["assigned", "revoked", "lost"]


@dataclass(frozen=True, slots=True)
class Callback:
    """One call of a member's rebalance listener."""

    member: str
    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]
    generation: int  # of the member, at that moment; -1: it has none any more
    at_ms: int  # since the group began

    def __str__(self) -> str:
        return f"{self.member}: on_{self.kind}({_listed(self.partitions)})"


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of the group: the result of a rebalance."""

    number: int
    at_ms: int  # since the group began
    cause: str
    leader: str
    assignor: str
    assignment: Mapping[str, tuple[TopicPartition, ...]]
    moved: Mapping[TopicPartition, tuple[str, str]]  # from one member of the group to another
    kept: int  # partitions that stayed with their owner

    @property
    def stickiness(self) -> float:
        """The share of partitions that stayed, among those whose last owner is still in the group."""
        known = self.kept + len(self.moved)
        return self.kept / known if known else 1.0

    def __str__(self) -> str:
        owned = "; ".join(f"{name}: {_listed(given)}" for name, given in self.assignment.items())
        return f"generation {self.number} by {self.leader} with {self.assignor} ({self.cause}): {owned}"


@dataclass(slots=True)
class History:
    """Written as things happen. Times are of the script's clock."""

    generations: list[Generation] = field(default_factory=list)
    callbacks: list[Callback] = field(default_factory=list)
    lines: list[tuple[int, object]] = field(default_factory=list)  # put into words when they are read
    last_owners: dict[TopicPartition, str] = field(default_factory=dict)

    def note(self, at_ms: int, what: object) -> None:
        self.lines.append((at_ms, what))

    def called(self, callback: Callback) -> None:
        self.callbacks.append(callback)
        self.note(callback.at_ms, callback)

    def happened(self, event: Event, at_ms: int) -> None:
        """An event of the coordinator."""
        if isinstance(event, RebalanceCompleted):
            generation = self._generation(event, at_ms)
            self.generations.append(generation)
            self.note(at_ms, generation)
        else:
            self.note(at_ms, event)

    def _generation(self, event: RebalanceCompleted, at_ms: int) -> Generation:
        assignment = {
            member_name(member_id): decode_assignment(raw).partitions if raw else ()
            for member_id, raw in sorted(event.after.items())
        }
        moved: dict[TopicPartition, tuple[str, str]] = {}
        kept = 0
        for name, partitions in assignment.items():
            for partition in partitions:
                before = self.last_owners.get(partition, "")
                if before == name:
                    kept += 1
                elif before in assignment and partition not in assignment[before]:
                    moved[partition] = (before, name)
                self.last_owners[partition] = name
        return Generation(
            number=event.generation_after,
            at_ms=at_ms,
            cause=f"{event.cause}: {event.reason}" if event.reason else str(event.cause),
            leader=member_name(event.leader_id),
            assignor=event.protocol_name,
            assignment=assignment,
            moved=moved,
            kept=kept,
        )

    def story(self, most: int | None = None) -> str:
        """All of it or the last lines, with times."""
        left_out = 0 if most is None else max(0, len(self.lines) - most)
        told = [f"{at_ms / 1000:>10.3f} s  {_in_words(what)}" for at_ms, what in self.lines[left_out:]]
        return "\n".join([f"({left_out} lines before)", *told] if left_out else told)


def _in_words(what: object) -> str:
    if isinstance(what, str):  # a step, or an error
        return what
    return f"  {what}" if isinstance(what, Callback | Generation) else f"  coordinator: {what.line()}"  # type: ignore[attr-defined]  # an Event


def member_name(member_id: str) -> str:
    """The name of a member; ids are a name and what the coordinator adds."""
    return member_id.rpartition("-")[0]


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"
