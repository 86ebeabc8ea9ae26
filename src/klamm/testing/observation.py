"""What tests look at: records of a topic, a group, its story; and what they expect of them."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import MemberDescription, NewTopic
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.diagnosis.lag import lag_of
from klamm.clock import Clock, SystemClock, clients_on, event_on
from klamm.coordinator.runtime.events import Event
from klamm.durations import nanoseconds
from klamm.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError
from klamm.groups.lag import PartitionLag, TotalLag, are_members_hidden, total_lag
from klamm.protocol.types import TopicPartition

T = TypeVar("T")

ANYTHING_TRUE: Final = object()  # what conditions wait for, unless a value is given
CLIENT_ID: Final = "klamm-testing"  # of the clients that look, and are not looked at
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST_SHOWN: Final = 10


class NotKnownError(AssertionError):
    """A test asks for something that is not known, as the lag of a group that does not exist.

    `wait_until` goes on waiting when its condition raises this or any other AssertionError.
    """


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group at one moment."""

    group_id: str
    state: str  # Kafka's: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
    assignment: Mapping[str, tuple[TopicPartition, ...]]  # by client id
    committed: Mapping[TopicPartition, int]  # the next offsets to read
    partitions: tuple[PartitionLag, ...]  # all that it has committed, owns or subscribes to
    other_groups: tuple[str, ...] = ()  # if this one does not exist: those that do

    @property
    def members(self) -> tuple[str, ...]:
        """The client ids of its members, sorted; of static members their group.instance.id."""
        return tuple(self.assignment)

    @property
    def lag(self) -> Mapping[TopicPartition, int | None]:
        """Records after the committed offsets; None where that is not known, see `partitions` for why.

        Raises NotKnownError for a group that has no partitions at all.
        """
        __tracebackhide__ = True
        if not self.partitions:
            raise NotKnownError(f"the lag of {self}")
        return {row.partition: row.lag for row in self.partitions}

    @property
    def total_lag(self) -> int:
        """The sum over all partitions. Raises NotKnownError if the lag of one of them is not known."""
        __tracebackhide__ = True
        total = total_of(self).lag
        if total is None:
            raise NotKnownError(f"the lag of {self}")
        return total

    def __str__(self) -> str:
        return f"group {self.group_id} {self._in_words()}"

    def _in_words(self) -> str:
        if self.state == "Dead" and not self.partitions:
            others = shown(sorted(self.other_groups)) if self.other_groups else "none"
            return f"is not known: there is no such group; existing groups: {others}"
        who = f"{self.state}, members: {', '.join(self.members) or 'none'}"
        if not self.partitions:
            return f"is not known: it has committed nothing and owns no partition ({who})"
        rows = shown([_row_in_words(row) for row in self.partitions])
        if are_members_hidden(self.state):
            return f"is not known during a rebalance, where nobody tells what members read ({who}): {rows}"
        total = total_of(self).lag
        return f"is {total if total is not None else 'not known'} ({who}): {rows}"


def total_of(group: Group) -> TotalLag:
    """The lag of all partitions; its `lag` is None where `Group.total_lag` raises."""
    return total_lag(group.partitions, is_complete=not are_members_hidden(group.state))


def _name_of(member: MemberDescription) -> str:
    return member.group_instance_id or member.client_id


def _row_in_words(row: PartitionLag) -> str:
    if row.lag is not None:
        return f"{row.partition} {row.lag}"
    log = "" if row.log is None else f", the log has offsets {row.log.start} to {row.log.end}"
    committed = "" if row.committed is None else f" (committed {row.committed})"
    return f"{row.partition} not known: {row.status.value}{committed}{log}"


Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
Seen: TypeAlias = dict[str, str]  # what was looked at last, in words: for what waits in vain


class Observer:
    """Looks at a broker as any client does, on real time: looking does not move the broker's clock."""

    def __init__(self, settings: Mapping[str, Any], seen: Seen) -> None:
        clock = SystemClock()
        self._seen = seen
        self._clock = clock
        self._settings = settings
        with clients_on(clock):
            self._admin = Admin(settings, client_id=CLIENT_ID)
        self._readers: dict[str, Consumer[bytes | None, bytes | None]] = {}

    def close(self) -> None:
        self._admin.close()
        for reader in self._readers.values():
            reader.close()

    def records(self, topic: str, isolation: Isolation) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        reader = self._readers.get(isolation)
        if reader is None:
            with clients_on(self._clock):
                reader = self._readers[isolation] = Consumer(
                    self._settings,
                    client_id=CLIENT_ID,
                    isolation_level=isolation,
                    # A Fetch waits for records on the broker's clock, which may stand still. One that was
                    # sent ahead at the end of a topic would hold up the next topic until it times out.
                    fetch_max_wait_ms=0,
                )
        __tracebackhide__ = True
        partitions = self._partitions([topic])
        if not partitions:
            there_are = shown(sorted(self.topics())) or "none"
            self._seen[f"topic {topic}"] = missing = (
                f"topic {topic} does not exist; existing topics: {there_are}"
            )
            raise NotKnownError(missing)
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
        self._seen[f"topic {topic}"] = f"topic {topic} has {len(found)} records"
        return sorted(found, key=lambda record: (record.timestamp_ms, record.partition, record.offset))

    def topics(self) -> dict[str, int]:
        counts = Counter(each.topic for each in self._partitions(self._admin.list_topics()))
        self._seen["topics"] = f"the topics are {shown(sorted(counts)) or 'none'}"
        return dict(counts)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._admin.create_topics([NewTopic(name, partitions, configs=configs)])

    def group(self, group_id: str) -> Group:
        group = self._group(group_id)
        self._seen[f"group {group_id}"] = f"the lag of {group}"
        return group

    def _group(self, group_id: str) -> Group:
        try:
            described = self._admin.describe_groups([group_id])[group_id]
        except GroupIdNotFoundError:
            return Group(
                group_id, "Dead", {}, {}, (), tuple(each.group_id for each in self._admin.list_groups())
            )
        assignment: dict[str, tuple[TopicPartition, ...]] = {}
        names: dict[str, str] = {}
        for member in sorted(described.members, key=_name_of):
            name = _name_of(member)
            while name in assignment:
                name += "'"
            assignment[name] = tuple(sorted(member.assignment or ()))
            names[member.member_id] = name
        found = lag_of(self._admin, described)
        for error in found.hidden.values():
            raise error
        rows = found.partitions
        return Group(
            group_id,
            described.state,
            assignment,
            {row.partition: row.committed for row in rows if row.committed is not None},
            tuple(replace(row, owner=None if row.owner is None else names[row.owner]) for row in rows),
        )

    def _partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """All partitions of these topics; a topic that does not exist has none."""
        if not topics:
            return []
        results = self._admin.describe_topics(topics, raise_errors=False)
        for error in results.errors.values():
            if not isinstance(error, UnknownTopicOrPartitionError):
                raise error
        return [
            TopicPartition(name, each.partition)
            for name, topic in results.successes.items()
            for each in topic.partitions
        ]


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
        self,
        is_so: Callable[[], Any],
        timeout: str,
        describe: Callable[[], str],
        equals: object,
        seen: Seen | None = None,
    ) -> Any:
        """What `is_so` returns, as soon as that is as wanted; AssertionError after the time-out."""
        __tracebackhide__ = True
        limit_ns = nanoseconds(timeout)
        event = event_on(self._clock)
        self._waiting.add(event)
        patience = getattr(self._clock, "patience", self._clock)
        due_ms = patience.now_ms() + limit_ns // 1_000_000
        try:
            while True:
                event.clear()
                if seen is not None:
                    seen.clear()
                try:
                    result = is_so()
                except AssertionError as failed:
                    found = f"not so after {timeout}: {failed}"
                else:
                    if result == equals if equals is not ANYTHING_TRUE else result:
                        return result
                    wanted = "" if equals is ANYTHING_TRUE else f", expected {equals!r}"
                    found = f"still {result!r} after {timeout}{wanted}"
                left_s = (due_ms - patience.now_ms()) / 1000
                if left_s <= 0:
                    looks = [f"last seen: {each}" for each in (seen or {}).values() if each not in found]
                    raise AssertionError("\n".join([found, *looks, describe()]).rstrip())
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
    seen: Seen | None = None,
) -> T:
    """Wait until a condition holds, or has this value, and return its value; checked on real time.

    For other processes and clusters; a `klamm.testing.Broker` has its own. AssertionError, with the last
    value and what `describe` returns, when the time is over. A condition may fail with
    one: it is tried again.
    """
    __tracebackhide__ = True
    activity = Activity(SystemClock(), look_every_s=nanoseconds(every) / 1_000_000_000)
    return cast("T", activity.wait_until(is_so, timeout, describe, equals, seen))


def assert_consumed_exactly_once(
    produced: Iterable[Any], consumed: Iterable[Any], *, key: Callable[[Any], Any] | None = None
) -> None:
    """Fail unless both have the same records, each once. The message lists what is missing or repeated.

    Records are compared by topic, partition and offset, other things as they are; `key` replaces that.
    """
    __tracebackhide__ = True
    identify = key or _identity
    wanted = Counter(map(identify, produced))
    found = Counter(map(identify, consumed))
    problems = [
        ("never consumed", [each for each in wanted if each not in found]),
        ("consumed more than once", [each for each, count in found.items() if count > max(1, wanted[each])]),
        ("consumed, but never produced", [each for each in found if each not in wanted]),
    ]
    lines = [f"{len(each)} {what}: {shown(each)}" for what, each in problems if each]
    if lines:
        raise AssertionError("not consumed exactly once\n" + "\n".join(lines))


def _identity(record: Any) -> Any:
    if not hasattr(record, "offset") or not hasattr(record, "partition"):
        return record
    parts = (getattr(record, name) for name in ("topic", "partition", "offset"))
    return tuple(part() if callable(part) else part for part in parts)  # confluent-kafka's are methods


def shown(items: Sequence[Any]) -> str:
    """The first of them, and how many there are beside."""
    shown = ", ".join(map(str, items[:_MOST_SHOWN]))
    return shown if len(items) <= _MOST_SHOWN else f"{shown}, and {len(items) - _MOST_SHOWN} more"
