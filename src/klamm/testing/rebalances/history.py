"""What happened in a group: its generations, who owned what, what listeners were told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from klamm.coordinator.group.events import RebalanceCompleted
from klamm.groups.causes import why
from klamm.groups.sequence import Actors, Entry, text_lines
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.types import TopicPartition

COORDINATOR: Final = "the coordinator"  # in place of a leader, where it assigns
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
class GroupGeneration:
    """One generation of the group: the result of a rebalance, or a new target of the coordinator."""

    number: int
    at_ms: int  # since the group began
    cause: str
    leader: str
    assignor: str
    assignment: Mapping[str, tuple[TopicPartition, ...]]
    moved: Mapping[TopicPartition, tuple[str, str]]  # from one member of the group to another
    kept: int  # partitions that stayed with their owner

    @property
    def stickiness(self) -> float | None:
        """The share of partitions that stayed, among those whose last owner is still in the group.

        None if there are none.
        """
        known = self.kept + len(self.moved)
        return self.kept / known if known else None

    def __str__(self) -> str:
        owned = "; ".join(f"{name}: {_listed(given)}" for name, given in self.assignment.items())
        return f"generation {self.number} by {self.leader} with {self.assignor} ({self.cause}): {owned}"


class History:
    """Written as things happen, put into words when they are read. Times are of the script's clock."""

    def __init__(self) -> None:
        self.callbacks: list[Callback] = []
        self._generations: list[GroupGeneration] = []  # as far as somebody has looked
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
    def generations(self) -> list[GroupGeneration]:
        """All generations so far."""
        for at_ms, what in zip(self._times[self._seen :], self._lines[self._seen :], strict=True):
            if isinstance(what, RebalanceCompleted):
                self._generations.append(self._generation(what, at_ms))
            elif isinstance(what, GroupGeneration):
                self._generations.append(what)
        self._seen = len(self._lines)
        return self._generations

    def _generation(self, event: RebalanceCompleted, at_ms: int) -> GroupGeneration:
        return self._made(
            at_ms,
            number=event.generation_after,
            cause=why({"cause": event.cause, "reason": event.reason}),
            leader=member_name(event.leader_id),
            assignor=event.protocol_name,
            assignment={
                member_name(member_id): decode_assignment(raw).partitions if raw else ()
                for member_id, raw in sorted(event.after.items())
            },
        )

    def retargeted(
        self,
        at_ms: int,
        epoch: int,
        cause: str,
        assignor: str,
        assignment: Mapping[str, tuple[TopicPartition, ...]],
    ) -> None:
        """A group of the consumer protocol has a new target."""
        generation = self._made(
            at_ms, number=epoch, cause=cause, leader=COORDINATOR, assignor=assignor, assignment=assignment
        )
        self.note(at_ms, generation)

    def _made(
        self, at_ms: int, *, number: int, cause: str, leader: str, assignor: str,
        assignment: Mapping[str, tuple[TopicPartition, ...]],
    ) -> GroupGeneration:  # fmt: skip
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
        return GroupGeneration(
            number=number,
            at_ms=at_ms,
            cause=cause,
            leader=leader,
            assignor=assignor,
            assignment=assignment,
            moved=moved,
            kept=kept,
        )

    @property
    def line_count(self) -> int:
        return len(self._lines)

    def story_with(self, requests: Iterable[tuple[int, Entry]]) -> str:
        """All of it, with requests between the lines."""
        told = self._told(0)
        listed = [
            (line, entry) for line, entry in requests if entry["kind"] != "event"
        ]  # the lines have them
        actors = Actors()
        actors.learn(entry for _, entry in listed)
        by_line: dict[int, list[str]] = {}
        for line, entry in listed:
            by_line.setdefault(line, []).extend(text_lines([entry], actors, _in_seconds))
        lines: list[str] = []
        for number in range(len(told) + 1):
            lines += by_line.get(number, ())
            lines += told[number : number + 1]
        return "\n".join(lines)

    def story(self, most: int | None = None) -> str:
        """All of it or the last lines, with times."""
        left_out = 0 if most is None else max(0, len(self._lines) - most)
        told = self._told(left_out)
        return "\n".join([f"({left_out} lines before)", *told] if left_out else told)

    def _told(self, left_out: int) -> list[str]:
        """The lines, but for the first ones."""
        shown = list(zip(self._times[left_out:], self._lines[left_out:], strict=True))
        # The last generations are those of the lines that are shown.
        generations = [each for each in self.generations if each.leader != COORDINATOR]
        count = sum(isinstance(what, RebalanceCompleted) for _, what in shown)
        completed = iter(generations[len(generations) - count :])
        return [f"{_in_seconds(at_ms)}  {_in_words(what, completed)}" for at_ms, what in shown]


def _in_seconds(at_ms: int) -> str:
    return f"{at_ms / 1000:>10.3f} s"


def _in_words(what: object, generations: Iterator[GroupGeneration]) -> str:
    if isinstance(what, str):  # a step, or an error
        return what
    if isinstance(what, Callback | GroupGeneration):
        return f"  {what}"
    if isinstance(what, RebalanceCompleted):
        return f"  {next(generations)}"
    return f"  coordinator: {what.line()}"  # type: ignore[attr-defined]  # an Event


def member_name(member_id: str) -> str:
    """The name of a member; ids are a name and what the coordinator adds."""
    return member_id.rpartition("-")[0]


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"
