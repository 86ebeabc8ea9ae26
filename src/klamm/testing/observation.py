"""What tests look at: records of a topic, a group, its story; and what they expect of them."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import NewTopic
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.clock import Clock, SystemClock, event_on
from klamm.coordinator.runtime.events import Event
from klamm.durations import nanoseconds
from klamm.errors import GroupIdNotFoundError
from klamm.protocol.types import TopicPartition

T = TypeVar("T")

ANYTHING_TRUE: Final = object()  # what conditions wait for, unless a value is given
CLIENT_ID: Final = "klamm-testing"  # of the clients that look, and are not looked at
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group at one moment."""

    group_id: str
    state: str  # Kafka's: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
    assignment: Mapping[str, tuple[TopicPartition, ...]]  # by client id
    committed: Mapping[TopicPartition, int]  # the next offsets to read
    lag: Mapping[
        TopicPartition, int
    ]  # records behind committed offsets; all of those that members have without

    @property
    def members(self) -> tuple[str, ...]:
        """The client ids of its members."""
        return tuple(self.assignment)

    @property
    def total_lag(self) -> int:
        return sum(self.lag.values())


class Observer:
    """Looks at a broker as any client does, on real time: looking does not move the broker's clock."""

    def __init__(self, bootstrap: str) -> None:
        clock = SystemClock()
        self._clock = clock
        self._bootstrap = bootstrap
        self._admin = Admin(bootstrap_servers=bootstrap, client_id=CLIENT_ID, clock=clock)
        self._readers: dict[str, Consumer[bytes | None, bytes | None]] = {}

    def close(self) -> None:
        self._admin.close()
        for reader in self._readers.values():
            reader.close()

    def records(self, topic: str, isolation: str) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        reader = self._readers.get(isolation)
        if reader is None:
            reader = self._readers[isolation] = Consumer(
                bootstrap_servers=self._bootstrap,
                client_id=CLIENT_ID,
                isolation_level=isolation,
                # A Fetch waits for records on the broker's clock, which may stand still. One that was sent
                # ahead at the end of a topic would hold up the next topic until the request times out.
                fetch_max_wait_ms=0,
                clock=self._clock,
            )
        described = self._admin.describe_topics([topic], raise_errors=False).successes.get(topic)
        if described is None:
            return []
        partitions = [TopicPartition(topic, each.partition) for each in described.partitions]
        ends = reader.end_offsets(partitions)
        starts = reader.beginning_offsets(partitions)
        left = [each for each in partitions if ends[each] > starts[each]]
        found: list[ConsumerRecord[bytes | None, bytes | None]] = []
        try:
            reader.assign(left)
            reader.seek_to_beginning(*left)
            while any(reader.position(each) < ends[each] for each in left):
                found += reader.poll(10)
        finally:
            reader.assign([])
        return sorted(found, key=lambda record: (record.timestamp_ms, record.partition, record.offset))

    def topics(self) -> dict[str, int]:
        described = self._admin.describe_topics(self._admin.list_topics(), raise_errors=False).successes
        return {name: len(topic.partitions) for name, topic in described.items()}

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(name, partitions, configs=configs)])

    def group(self, group_id: str) -> Group:
        try:
            described = self._admin.describe_groups([group_id])[group_id]
        except GroupIdNotFoundError:
            return Group(group_id, "Dead", {}, {}, {})
        committed = {each: found.offset for each, found in self._admin.list_group_offsets(group_id).items()}
        assignment: dict[str, tuple[TopicPartition, ...]] = {}
        for member in described.members:
            name = member.group_instance_id or member.client_id
            while name in assignment:
                name += "'"
            assignment[name] = tuple(sorted(member.assignment or ()))
        assigned = {each for owned in assignment.values() for each in owned}
        starts = committed | self._offsets(assigned - committed.keys(), "earliest")
        ends = self._offsets(starts, "latest")
        lag = {each: max(0, end - starts[each]) for each, end in ends.items()}
        return Group(group_id, described.state, assignment, committed, lag)

    def _offsets(
        self, partitions: Collection[TopicPartition], at: Literal["earliest", "latest"]
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        found = self._admin.list_offsets(list(partitions), at, raise_errors=False).successes
        return {each: listed.offset for each, listed in found.items()}


class Story:
    """What coordinators and faults did, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    @property
    def count(self) -> int:
        """How much has happened so far."""
        return len(self._events)

    def text(self, key: str | None, has_times: bool, since: int = 0) -> str:
        """Lines of one group or transactional id, or of all, from the beginning or since a `count`.

        Random parts of member ids are numbered. Times, if wanted, count from the first line.
        """
        with self._lock:
            events = [each for each in self._events[since:] if key is None or each.key == key]
        if not events:
            return ""
        first_ms = events[0].timestamp_ms
        numbers: dict[str, str] = {}
        lines = []
        for event in events:
            line = _UUID.sub(lambda found: numbers.setdefault(found[0], str(len(numbers) + 1)), event.line())
            lines.append(f"{(event.timestamp_ms - first_ms) / 1000:10.3f}  {line}" if has_times else line)
        return "\n".join(lines)


class Activity:
    """Wakes tests that wait for something to happen in a broker."""

    def __init__(self, clock: Clock, *, look_every_s: float | None = None) -> None:
        self._clock = clock
        self._look_every_s = look_every_s  # where nothing reports what happens
        self._waiting: set[threading.Event] = set()

    def happened(self) -> None:
        for event in tuple(self._waiting):
            event.set()

    def wait_until(
        self, is_so: Callable[[], Any], timeout: str, describe: Callable[[], str], equals: object
    ) -> Any:
        """What `is_so` returns, as soon as that is as wanted; AssertionError after the time-out."""
        limit_ns = nanoseconds(timeout)
        event = event_on(self._clock)
        self._waiting.add(event)
        patience = getattr(self._clock, "patience", self._clock)
        due_ms = patience.now_ms() + limit_ns // 1_000_000
        try:
            while True:
                event.clear()
                result = is_so()
                if result == equals if equals is not ANYTHING_TRUE else result:
                    return result
                left_s = (due_ms - patience.now_ms()) / 1000
                if left_s <= 0:
                    wanted = "" if equals is ANYTHING_TRUE else f", expected {equals!r}"
                    raise AssertionError(f"still {result!r} after {timeout}{wanted}\n{describe()}".rstrip())
                event.wait(left_s if self._look_every_s is None else min(left_s, self._look_every_s))
        finally:
            self._waiting.discard(event)


def wait_until(
    is_so: Callable[[], T],
    timeout: str = "30s",
    *,
    equals: object = ANYTHING_TRUE,
    every: str = "20ms",
    describe: Callable[[], str] = lambda: "",
) -> T:
    """Wait until a condition holds, or has this value, and return its value; checked on real time.

    For other processes and clusters; a `klamm.testing.Broker` has its own. AssertionError, with the last
    value and what `describe` returns, when the time is over.
    """
    activity = Activity(SystemClock(), look_every_s=nanoseconds(every) / 1_000_000_000)
    return cast("T", activity.wait_until(is_so, timeout, describe, equals))


def assert_consumed_exactly_once(
    produced: Iterable[Any], consumed: Iterable[Any], *, key: Callable[[Any], Any] | None = None
) -> None:
    """Fail unless both have the same records, each once. The message lists what is missing or repeated.

    Records are compared by topic, partition and offset, other things as they are; `key` replaces that.
    """
    identify = key or _identity
    wanted = Counter(map(identify, produced))
    found = Counter(map(identify, consumed))
    problems = [
        ("never consumed", [each for each in wanted if each not in found]),
        ("consumed more than once", [each for each, count in found.items() if count > max(1, wanted[each])]),
        ("consumed, but never produced", [each for each in found if each not in wanted]),
    ]
    lines = [f"{len(each)} {what}: {_shown(each)}" for what, each in problems if each]
    if lines:
        raise AssertionError("not consumed exactly once\n" + "\n".join(lines))


def _identity(record: Any) -> Any:
    if not hasattr(record, "offset") or not hasattr(record, "partition"):
        return record
    parts = (getattr(record, name) for name in ("topic", "partition", "offset"))
    return tuple(part() if callable(part) else part for part in parts)  # confluent-kafka's are methods


def _shown(items: list[Any]) -> str:
    shown = ", ".join(map(str, items[:_MOST_SHOWN]))
    return shown if len(items) <= _MOST_SHOWN else f"{shown}, and {len(items) - _MOST_SHOWN} more"
