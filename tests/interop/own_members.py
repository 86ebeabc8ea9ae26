"""Members of a group as threads of this process, each with its own consumer, and one story of them all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from interop.own import PATIENCE_S
from klamm import Consumer, TopicPartition
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.errors import CommitFailedError, RebalanceInProgressError
from klamm.testing import wait_until


class Event(NamedTuple):
    """Something that happened to a member."""

    member: str
    what: str  # assigned, revoked, lost
    partitions: tuple[TopicPartition, ...]


class OwnMember(threading.Thread):
    """Polls, notes what it gets, commits, until it is told to stop."""

    def __init__(self, party: Party, name: str, topics: Sequence[str], settings: dict[str, Any]) -> None:
        super().__init__(name=name, daemon=True)
        self._party = party
        self._topics = topics
        self._settings = settings
        self._has_enough = threading.Event()
        self.consumer: Consumer | None = None
        self.records: list[tuple[str, int, int]] = []
        self.owned: frozenset[TopicPartition] = frozenset()
        self.failure: BaseException | None = None
        self.pause_s = 0.0  # how long it works on what a poll gave
        self.polls = 0

    def run(self) -> None:
        try:
            with Consumer(self._settings) as self.consumer:
                self.consumer.subscribe(list(self._topics), listener=_Listener(self, self._party))
                while not self._has_enough.is_set():
                    self._poll(self.consumer)
        except BaseException as error:
            self.failure = error

    def _poll(self, consumer: Consumer) -> None:
        records = consumer.poll(0.05)
        self.polls += 1
        self.records += [(record.topic, record.partition, record.offset) for record in records]
        if self.pause_s:
            self._has_enough.wait(self.pause_s)
        if records:
            try:
                consumer.commit_sync()
            except (RebalanceInProgressError, CommitFailedError):
                self._party.failed_commits += 1

    def tell_to_stop(self) -> None:
        self._has_enough.set()

    def stop(self) -> None:
        """Leave the group in good order."""
        self._has_enough.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), f"{self.name} does not stop"
        if self.failure is not None:
            raise self.failure


class _Listener(RebalanceListener):
    def __init__(self, member: OwnMember, party: Party) -> None:
        self._member = member
        self._party = party

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._member.owned |= frozenset(partitions)
        self._tell("assigned", partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._member.owned -= frozenset(partitions)
        self._tell("revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self._member.owned -= frozenset(partitions)
        self._tell("lost", partitions)

    def _tell(self, what: str, partitions: list[TopicPartition]) -> None:
        self._party.story.append(Event(self._member.name, what, tuple(partitions)))


class Party:
    """A group of such members."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **settings: Any) -> None:
        self._topics = topics
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.members: list[OwnMember] = []
        self.story: list[Event] = []
        self.failed_commits = 0

    def join(self, name: str, **settings: Any) -> OwnMember:
        """One more member."""
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        member = OwnMember(self, name, self._topics, self._settings | dotted)
        self.members.append(member)
        member.start()
        return member

    def wait_until(self, what: Callable[[], bool], waiting_for: str) -> None:
        def is_so() -> bool:
            for member in self.members:
                if member.failure is not None:
                    raise member.failure
            return what()

        wait_until(is_so, f"{PATIENCE_S}s", describe=lambda: f"waited for {waiting_for}; {self._describe()}")

    def settle(self, members: Sequence[OwnMember], partitions: Sequence[TopicPartition]) -> None:
        """Wait until exactly these members share all partitions, evenly."""

        def is_settled() -> bool:
            owned = sorted(item for member in members for item in member.owned)
            sizes = [len(member.owned) for member in members]
            return owned == sorted(partitions) and max(sizes) - min(sizes) <= 1

        self.wait_until(is_settled, f"{[member.name for member in members]} to share {len(partitions)}")

    def wait_for_records(self, expected: set[tuple[str, int, int]]) -> None:
        self.wait_until(lambda: expected <= self.times_read().keys(), f"{len(expected)} records")

    def times_read(self) -> Counter[tuple[str, int, int]]:
        """How often each record was read, by whomever."""
        return Counter(record for member in self.members for record in list(member.records))

    def of(self, member: OwnMember) -> list[tuple[str, tuple[int, ...]]]:
        """What happened to one member, in short."""
        return [
            (event.what, tuple(item.partition for item in event.partitions))
            for event in list(self.story)
            if event.member == member.name
        ]

    def check_hand_overs(self) -> None:
        """Nobody was given a partition that somebody else had not given up before."""
        owners: dict[TopicPartition, str] = {}
        for member, what, partitions in self.story:
            for partition in partitions:
                if what == "assigned":
                    assert partition not in owners, f"{partition} has two owners: {self.story}"
                    owners[partition] = member
                else:
                    assert owners.pop(partition, None) == member, f"{partition}: {self.story}"

    def _describe(self) -> str:
        return "; ".join(
            f"{member.name}: {sorted(member.owned)}, {len(member.records)} records, "
            f"{member.consumer.health() if member.consumer else None}"
            for member in self.members
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.tell_to_stop()
        for member in self.members:
            member.join(PATIENCE_S)
        if error is None:
            failures = [member.failure for member in self.members if member.failure is not None]
            if failures:
                raise failures[0]
