"""Consumer-group members of any library, and somebody who watches them all."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interop.harness import ClientProcess
from interop.processes import ProcessEndedError

SETTLE_S = 45


class Member(ClientProcess):
    """One consumer in a group, in a process of its own; it tells what it gets and then commits it."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        *,
        group: str,
        topic: str,
        stderr_path: Path,
        assignor: str = "range",
        instance_id: str | None = None,
        session_timeout_ms: int = 6_000,
        protocol: str = "classic",
        joins_at_once: bool = True,
    ) -> None:
        super().__init__(name, bootstrap, stderr_path=stderr_path)
        self.partitions: frozenset[int] = frozenset()
        self.assignments = 0  # how often it was assigned anything, or nothing
        self.records: list[tuple[int, int]] = []
        self.errors: list[str] = []  # that its library showed to its user
        self.left = False
        self._cooperative = assignor == "cooperative-sticky" or protocol == "consumer"
        self._command = {
            "do": "member",
            "group": group,
            "topic": topic,
            "assignor": assignor,
            "instance_id": instance_id,
            "session_timeout_ms": session_timeout_ms,
            "protocol": protocol,
        }
        if joins_at_once:
            self.enter()

    def enter(self) -> None:
        """Join the group; for those who were started only to be ready."""
        self.write_line(json.dumps(self._command))

    def catch_up(self) -> None:
        """Take in all that the member has told since last time."""
        while True:
            try:
                event = json.loads(self.read_line(0.005))
            except (TimeoutError, ProcessEndedError):
                return
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assigned":
                self.assignments += 1
                kept = self.partitions if self._cooperative else frozenset()
                self.partitions = kept | frozenset(event["partitions"])
            case "revoked":
                revoked = event["partitions"]  # kafkajs does not say which: it gives up all
                self.partitions -= self.partitions if revoked is None else frozenset(revoked)
            case "record":
                self.records.append((event["partition"], event["offset"]))
            case "error" | "commit_failed":
                self.errors.append(f"{self.name}: {event['message']}")
            case "left":
                self.left = True
                self.partitions = frozenset()

    def stop(self) -> None:
        """Ask it to leave, and wait until it has."""
        self.write_line(json.dumps({"do": "stop"}))
        deadline = time.monotonic() + SETTLE_S
        while not self.left:
            assert time.monotonic() < deadline, self.what_it_said()
            self.catch_up()
        self.close()

    def kill(self) -> None:
        """SIGKILL; what it had told until then still counts."""
        super().kill()
        self.catch_up()
        self.partitions = frozenset()


class Watch:
    """Watches a group from outside: who has which partitions, which records were read, and how often."""

    def __init__(self, start_member: Callable[..., Member]) -> None:
        self._start_member = start_member
        self.members: list[Member] = []

    def join(self, name: str, **settings: Any) -> Member:
        """Start one more member."""
        member = self._start_member(name, **settings)
        self.members.append(member)
        return member

    def wait_until(self, what: Callable[[], bool], waiting_for: str) -> None:
        """Read what the members tell until it is so."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            for member in self.members:
                member.catch_up()
            if what():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited for {waiting_for}; {self.describe()}")

    def settle(
        self, members: Sequence[Member], partition_count: int, *, everyone: bool = True, evenly: bool = False
    ) -> None:
        """Wait until exactly these members share all partitions, each (if `everyone`) with at least one.

        Cooperative members come there in several rebalances, and all partitions may have an owner before the
        last of them: only shares that are as even as can be (`evenly`) are the end.
        """
        self.wait_until(
            lambda: shares_all(members, partition_count, everyone=everyone, evenly=evenly),
            f"{[member.name for member in members]} to share {partition_count} partitions",
        )

    def times_read(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was read by anybody, the dead included."""
        return Counter(record for member in self.members for record in member.records)

    def wait_for_records(self, expected: set[tuple[int, int]]) -> None:
        """Wait until each of these was read at least once."""

        def unread() -> set[tuple[int, int]]:
            return expected - self.times_read().keys()

        self.wait_until(lambda: not unread(), f"{len(expected)} records")

    def describe(self) -> str:
        """Everybody's state, for a failing test."""
        lines = [
            f"{member.name}: {sorted(member.partitions)}, {len(member.records)} records, "
            f"{member.assignments} assignments; {member.what_it_said()[-1500:]}"
            for member in self.members
        ]
        return "\n".join(lines)

    def close(self) -> None:
        """End everybody who is still there."""
        for member in self.members:
            if member.process.poll() is None:
                member.kill()
            else:
                member.close()


def shares_all(
    members: Sequence[Member], partition_count: int, *, everyone: bool = True, evenly: bool = False
) -> bool:
    """Whether these members have every partition once, and each has its share."""
    fewest = partition_count // len(members) if evenly else int(everyone)
    most = -(-partition_count // len(members)) if evenly else partition_count
    owned = [partition for member in members for partition in member.partitions]
    shared = sorted(owned) == list(range(partition_count))
    return shared and all(fewest <= len(member.partitions) <= most for member in members)


@contextmanager
def group_on(bootstrap: str, topic: str, folder: Path, group: str | None = None) -> Iterator[Watch]:
    """A group of its own for a topic, watched; whoever still lives at the end is stopped."""
    numbers = itertools.count()

    def start_member(name: str, **settings: object) -> Member:
        return Member(
            name,
            bootstrap,
            group=group or f"group-of-{topic}",
            topic=topic,
            stderr_path=folder / f"{name}-{next(numbers)}.log",
            **settings,  # type: ignore[arg-type]  # tests give what Member takes
        )

    watch = Watch(start_member)
    try:
        yield watch
    finally:
        watch.close()
