"""What happened in a group: its generations, who owned what, what listeners were told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from klamm.coordinator.group.events import RebalanceCompleted
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.types import TopicPartition

CallbackKind = Literal["assigned", "revoked", "lost"]


class Callback(NamedTuple):
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


class History:
    """Written as things happen, put into words when they are read. Times are of the script's clock."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self._generations: list[Generation] = []  # as far as somebody has looked
        self._seen = 0  # lines
        # Not pairs: the garbage collector looks at each object that is kept, again and again.
        self._lines: list[object] = []
        self._times: list[int] = []
        self._last_owners: dict[TopicPartition, str] = {}

    def note(self, at_ms: int, what: object) -> None:
        """A step, an error, or an event of the coordinator."""
        self._times.append(at_ms)
        self._lines.append(what)

    def called(self, callback: Callback) -> None:
        self.callbacks.append(callback)
        self.note(callback.at_ms, callback)

    @property
    def generations(self) -> list[Generation]:
        """All generations so far."""
        for at_ms, what in zip(self._times[self._seen :], self._lines[self._seen :], strict=True):
            if isinstance(what, RebalanceCompleted):
                self._generations.append(self._generation(what, at_ms))
        self._seen = len(self._lines)
        return self._generations

    def _generation(self, event: RebalanceCompleted, at_ms: int) -> Generation:
        assignment = {
            member_name(member_id): decode_assignment(raw).partitions if raw else ()
            for member_id, raw in sorted(event.after.items())
        }
        moved: dict[TopicPartition, tuple[str, str]] = {}
        kept = 0
        for name, partitions in assignment.items():
            for partition in partitions:
                before = self._last_owners.get(partition, "")
                if before == name:
                    kept += 1
                elif before in assignment and partition not in assignment[before]:
                    moved[partition] = (before, name)
                self._last_owners[partition] = name
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
        left_out = 0 if most is None else max(0, len(self._lines) - most)
        shown = list(zip(self._times[left_out:], self._lines[left_out:], strict=True))
        # The last generations are those of the lines that are shown.
        generations = self.generations
        count = sum(isinstance(what, RebalanceCompleted) for _, what in shown)
        completed = iter(generations[len(generations) - count :])
        told = [f"{at_ms / 1000:>10.3f} s  {_in_words(what, completed)}" for at_ms, what in shown]
        return "\n".join([f"({left_out} lines before)", *told] if left_out else told)


def _in_words(what: object, generations: Iterator[Generation]) -> str:
    if isinstance(what, str):  # a step, or an error
        return what
    if isinstance(what, Callback):
        return f"  {what}"
    if isinstance(what, RebalanceCompleted):
        return f"  {next(generations)}"
    return f"  coordinator: {what.line()}"  # type: ignore[attr-defined]  # an Event


def member_name(member_id: str) -> str:
    """The name of a member; ids are a name and what the coordinator adds."""
    return member_id.rpartition("-")[0]


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"
