"""Arguments of admin operations, checked and converted; an error names the argument and what to write.

Nothing past this module meets a value that does not fit its field on the wire.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from klamm.client.admin.model import AlterOp, CommittedOffset, ConfigValue, NewTopic, Resource
from klamm.client.admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from klamm.config import as_text
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from klamm.protocol.types import TopicPartition

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

Partition: TypeAlias = TopicPartition | tuple[str, int]
OffsetSpec: TypeAlias = int | str | datetime
NewTopics: TypeAlias = str | NewTopic | Iterable[str | NewTopic] | Mapping[str, int | NewTopic]
ConfigResources: TypeAlias = Iterable[tuple[Resource | str, str | int]]
Change: TypeAlias = tuple[str, AlterOp | str, ConfigValue]
Changes: TypeAlias = Mapping[str, ConfigValue] | Iterable[Change]
# A mapping's keys are invariant to a type checker: each kind of key is spelled out.
ConfigChanges: TypeAlias = (
    Mapping[tuple[Resource, str], Changes]
    | Mapping[tuple[str, str], Changes]
    | Mapping[tuple[str, int], Changes]
)
ByPartition: TypeAlias = Mapping[TopicPartition, T] | Mapping[tuple[str, int], T]
CheckedChange: TypeAlias = tuple[str, AlterOp, str | None]

MAX_TEXT_BYTES: Final = 32_767  # an int16 length
MAX_TIMEOUT_S: Final = 2_147_483  # milliseconds in an int32
OFFSET_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST, "max_timestamp": MAX_TIMESTAMP}


def text(value: object, what: str) -> str:
    """A string that fits the protocol."""
    if not isinstance(value, str):
        raise TypeError(f"invalid {what} {_shown(value)}: expected a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"invalid {what} {_shown(value)}: not valid Unicode") from None
    if size > MAX_TEXT_BYTES:
        raise ValueError(f"invalid {what} {_shown(value)}: {size} bytes, the limit is {MAX_TEXT_BYTES}")
    return str(value)


def texts(values: object, what: str) -> list[str]:
    """Several strings; one alone stands for itself."""
    if isinstance(values, str):
        return [text(values, what)]
    return [text(value, what) for value in _items(values, what, "str")]


def integer(value: object, what: str, bits: int = 32, least: int | None = None) -> int:
    """An integer that fits the field; a bool is not one."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # raises TypeError where it is none
    except TypeError:
        raise TypeError(f"invalid {what} {_shown(value)}: expected an int") from None
    low = -(1 << (bits - 1)) if least is None else least
    high = (1 << (bits - 1)) - 1
    if not low <= number <= high:
        raise ValueError(f"invalid {what} {_shown(number)}: expected {low} to {high}")
    return number


def integers(values: object, what: str, bits: int = 32) -> list[int]:
    return [integer(value, what, bits) for value in _items(values, what, "int")]


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"invalid {what} {_shown(value)}: expected True or False")
    return value


def milliseconds(value: object, what: str = "timeout") -> int | None:
    """Seconds as milliseconds; None stays None."""
    return None if value is None else some_milliseconds(value, what)


def some_milliseconds(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"invalid {what} {_shown(value)}: expected a number of seconds")
    if math.isnan(value) or not 0 <= value <= MAX_TIMEOUT_S:
        raise ValueError(f"invalid {what} {_shown(value)}: expected 0 to {MAX_TIMEOUT_S} seconds")
    return round(value * 1000)


def word(value: object, kind: type[E], what: str) -> E:
    """A member of an enumeration, or its word in any case."""
    if isinstance(value, str):
        for member in kind:
            if member.value == value.lower().replace("-", "_"):
                return member
    expected = ", ".join(repr(member.value) for member in kind)
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"invalid {what} {_shown(value)}: expected one of {expected}")


def partition(value: object) -> TopicPartition:
    """A TopicPartition, a tuple (topic, number), or another object with `topic` and `partition`."""
    if isinstance(value, tuple) and len(value) == 2:
        topic, number = value
    elif hasattr(value, "topic") and hasattr(value, "partition"):
        topic, number = value.topic, value.partition
    else:
        raise TypeError(f"invalid partition {_shown(value)}: expected TopicPartition('orders', 0)")
    return TopicPartition(text(topic, "topic"), integer(number, "partition number", least=0))


def partitions(values: object) -> list[TopicPartition]:
    """Several partitions without repetition; one alone stands for itself."""
    if isinstance(values, TopicPartition):
        return [partition(values)]
    return list(dict.fromkeys(partition(value) for value in _items(values, "partitions", "TopicPartition")))


def some_partitions(values: object) -> list[TopicPartition] | None:
    """As `partitions`; None (all) stays None."""
    return None if values is None else partitions(values)


def by_partition(values: object, what: str, convert: Callable[[object], T]) -> dict[TopicPartition, T]:
    """A mapping from partitions to something."""
    if not isinstance(values, Mapping):
        raise TypeError(f"invalid {what} {_shown(values)}: expected a mapping from TopicPartition")
    return {partition(key): convert(value) for key, value in values.items()}


def offset(value: object) -> int:
    return integer(value, "offset", 64)


def offset_spec(value: object) -> int:
    """What ListOffsets is asked for: a word, a time in milliseconds, or a datetime with a time zone."""
    if isinstance(value, str):
        found = OFFSET_WORDS.get(value.lower().replace("-", "_"))
        if found is None:
            raise ValueError(
                f"invalid offset {_shown(value)}: expected 'earliest', 'latest', 'max_timestamp', "
                "milliseconds or a datetime"
            )
        return found
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"invalid time {value}: expected a datetime with a time zone")
        return max(0, round(value.timestamp() * 1000))
    return integer(value, "timestamp", 64)


def offset_specs(wanted: object, at: object) -> dict[TopicPartition, int]:
    """A mapping from partitions to what is wanted of each, or partitions that `at` holds for."""
    if isinstance(wanted, Mapping):
        return by_partition(wanted, "offsets", offset_spec)
    spec = offset_spec(at)
    return dict.fromkeys(partitions(wanted), spec)


def committed(value: object) -> CommittedOffset:
    """An offset, or an object with `offset`, `leader_epoch` and `metadata`."""
    if not hasattr(value, "offset"):
        return CommittedOffset(integer(value, "offset", 64, least=0))
    epoch = getattr(value, "leader_epoch", None)
    note = getattr(value, "metadata", None)
    return CommittedOffset(
        integer(value.offset, "offset", 64, least=0),
        -1 if epoch is None else integer(epoch, "leader epoch"),
        "" if note is None else text(note, "metadata"),
    )


def new_topics(topics: object) -> list[CreatableTopic]:
    """Names, NewTopic objects, or a mapping from a name to a number of partitions."""
    if isinstance(topics, str | NewTopic):
        topics = [topics]
    if isinstance(topics, Mapping):
        topics = [_sized_topic(name, value) for name, value in topics.items()]
    return [_new_topic(item) for item in _items(topics, "topics", "str or NewTopic")]


def _sized_topic(name: object, value: object) -> NewTopic:
    if isinstance(value, NewTopic):
        return value
    return NewTopic(text(name, "topic"), integer(value, f"number of partitions of {name}"))


def _new_topic(item: object) -> CreatableTopic:
    if isinstance(item, str):
        item = NewTopic(item)
    if not isinstance(item, NewTopic):
        raise TypeError(f"invalid topic {_shown(item)}: expected a name or klamm.NewTopic")
    name = text(item.name, "topic")
    replicas: Any = item.assignments
    if not isinstance(replicas, Mapping):
        replicas = dict(enumerate(_items(replicas, f"assignments of {name}", "list of broker ids")))
    number = integer(item.partitions, f"partitions of {name}")
    factor = integer(item.replication_factor, f"replication_factor of {name}", 16)
    return CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else number,
        replication_factor=-1 if replicas else factor,
        assignments=[
            CreatableReplicaAssignment(integer(index, "partition number"), integers(brokers, "broker id"))
            for index, brokers in replicas.items()
        ],
        configs=[
            CreatableTopicConfig(key, value)
            for key, value in settings(item.configs, f"configs of {name}").items()
        ],
    )


def totals(values: object) -> dict[str, int]:
    """Numbers of partitions by topic; also objects with `total_count` or `new_total_count`."""
    if not isinstance(values, Mapping):
        raise TypeError(f"invalid totals {_shown(values)}: expected a mapping, as in {{'orders': 6}}")
    return {
        text(name, "topic"): integer(getattr(value, "total_count", value), f"number of partitions of {name}")
        for name, value in values.items()
    }


def placements(values: object) -> dict[str, list[list[int]]]:
    """The brokers of new partitions, by topic."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(
            f"invalid assignments {_shown(values)}: expected a mapping, as in {{'orders': [[1]]}}"
        )
    return {
        text(name, "topic"): [integers(item, "broker id") for item in _items(rows, "assignments", "list")]
        for name, rows in values.items()
    }


def replicas(value: object) -> list[int] | None:
    return None if value is None else integers(value, "broker id")


def levels(values: object) -> dict[str, int]:
    if not isinstance(values, Mapping):
        raise TypeError(
            f"invalid levels {_shown(values)}: expected a mapping, as in {{'transaction.version': 2}}"
        )
    return {text(name, "feature"): integer(level, "feature level", 16) for name, level in values.items()}


def settings(values: object, what: str) -> dict[str, str | None]:
    """Settings as Kafka spells them: True is `true`, a list is joined by commas, None leaves the default."""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"invalid {what} {_shown(values)}: expected a mapping, as in {{'retention.ms': 60000}}"
        )
    return {text(name, "setting"): setting(value, str(name)) for name, value in values.items()}


def setting(value: object, name: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"invalid {name} {value}: expected a finite number")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(integer(value, name, 64))
    if isinstance(value, bool | float | str):
        return text(as_text(value), name)
    return ",".join(texts(value, name))


def resource(kind: object, name: object) -> tuple[Resource, str]:
    return word(kind, Resource, "resource"), text(str(name) if type(name) is int else name, "resource name")


def resources(kind: object, name: object) -> list[tuple[Resource, str]]:
    """Either one resource as two arguments, or pairs in the first."""
    if name is not None:
        return [resource(kind, name)]
    if isinstance(kind, str):
        raise TypeError(f"no name given for {kind!r}: write describe_configs('topic', 'orders')")
    found = []
    for item in _items(kind, "resources", "(kind, name)"):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TypeError(f"invalid resource {_shown(item)}: expected a pair, as in ('topic', 'orders')")
        found.append(resource(*item))
    return list(dict.fromkeys(found))


def config_changes(
    kind: object, name: object, wanted: object
) -> dict[tuple[Resource, str], list[CheckedChange]]:
    """Either one resource as three arguments, or a mapping from resources to their changes."""
    if isinstance(kind, Mapping):
        if name is not None or wanted is not None:
            raise TypeError("give either a mapping, or a kind, a name and settings")
        return {resources([key], None)[0]: changes(value) for key, value in kind.items()}
    if name is None or wanted is None:
        raise TypeError("write alter_configs('topic', 'orders', {'retention.ms': 60000})")
    return {resource(kind, name): changes(wanted)}


def changes(values: object) -> list[CheckedChange]:
    """Settings to set (None: reset to the default), or triples of name, operation and value."""
    if isinstance(values, Mapping):
        checked = settings(values, "settings").items()
        return [(name, AlterOp.DELETE if value is None else AlterOp.SET, value) for name, value in checked]
    found: list[CheckedChange] = []
    for item in _items(values, "changes", "(name, operation, value)"):
        if not isinstance(item, tuple | list) or len(item) != 3:
            raise TypeError(f"invalid change {_shown(item)}: expected (name, operation, value)")
        name, op, value = item
        found.append((text(name, "setting"), word(op, AlterOp, "operation"), setting(value, str(name))))
    return found


def _items(values: object, what: str, kind: str) -> Sequence[object]:
    if isinstance(values, str | bytes | bytearray | memoryview) or not isinstance(values, Iterable):
        raise TypeError(f"invalid {what} {_shown(values)}: expected a list of {kind}")
    return list(values)


def _shown(value: object) -> str:
    """A value in an error message, cut to a length that can be read."""
    try:
        shown = repr(value)
    except ValueError:  # an int of more digits than Python converts
        shown = f"of type {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
