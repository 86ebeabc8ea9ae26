"""What callers may pass, checked before anything changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.client.callables import takes
from klamm.client.committed import Committed
from klamm.client.topic_names import check_topic_name
from klamm.protocol.types import TopicPartition

_LONGEST_S: Final = 1e9  # thirty years


def topic_names(topics: Any) -> list[str]:
    """A list of topic names."""
    if topics is None or isinstance(topics, str | bytes):
        raise TypeError(f"topics is a list of names, as in subscribe(['orders']), not {topics!r}")
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a topic's name is text, not {name!r}")
        check_topic_name(name)
    return names


def split_pattern(topics: Any, pattern: Any) -> tuple[Any, Any]:
    """Topics and pattern, where names that begin with ^ are patterns of the beginning of names.

    No topic can have such a name, so it cannot be meant otherwise.
    """
    if pattern is not None or topics is None or isinstance(topics, str | bytes):
        return topics, pattern
    names = list(topics)
    if not any(isinstance(name, str) and name.startswith("^") for name in names):
        return names, None
    parts = []
    for name in names:
        if isinstance(name, str) and name.startswith("^"):
            parts.append(f"(?:{name}).*")
        else:
            topic_names([name])
            parts.append(re.escape(name))
    return None, "|".join(parts)


def compiled_pattern(pattern: Any) -> re.Pattern[str]:
    """A regular expression that is to match whole names."""
    if isinstance(pattern, re.Pattern):
        pattern_text = pattern.pattern
        compiled: re.Pattern[Any] = pattern
    elif isinstance(pattern, str):
        pattern_text = pattern
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"pattern {pattern!r} is not a regular expression: {error}") from error
    else:
        raise TypeError(f"pattern is text or a compiled pattern, not {pattern!r}")
    if not isinstance(pattern_text, str):
        raise TypeError("pattern must be of text, not of bytes")
    if not pattern_text:
        raise ValueError("pattern must not be empty: it would match no topic")
    return compiled


def partitions_of(partitions: Any) -> list[TopicPartition]:
    """A list of partitions; a single one may be given without a list."""
    if isinstance(partitions, TopicPartition):
        return [a_partition(partitions)]
    if partitions is None or isinstance(partitions, str | bytes):
        raise TypeError(f"partitions is a list of TopicPartition, not {partitions!r}")
    return [a_partition(item) for item in partitions]


def a_partition(partition: Any) -> TopicPartition:
    if not isinstance(partition, tuple) or len(partition) != 2:
        raise TypeError(f"a partition is a TopicPartition(topic, partition), not {partition!r}")
    topic, number = partition
    if not isinstance(topic, str) or not isinstance(number, int):
        raise TypeError(f"a partition is a TopicPartition(topic, partition), not {partition!r}")
    if not topic.strip():
        check_topic_name(topic)
    if number < 0:
        raise ValueError(f"partition {number} of {topic}: expected 0 or more")
    return TopicPartition(topic, number)


def due_at(now_ms: int, timeout: float | None) -> int | None:
    """The instant at which a timeout in seconds ends."""
    return None if timeout is None else now_ms + timeout_ms(timeout, 0)


def timeout_ms(timeout: float | None, default_ms: int) -> int:
    if timeout is None:
        return default_ms
    if not timeout >= 0:  # nor NaN
        raise ValueError(f"timeout={timeout}: expected seconds from 0 on, or None")
    return round(min(timeout, _LONGEST_S) * 1000)


def an_offset(offset: Any) -> int:
    if not isinstance(offset, int):
        raise TypeError(f"an offset is a number, not {offset!r}")
    if offset < 0:
        raise ValueError(f"offset {offset}: expected 0 or more; seek_to_beginning and seek_to_end exist too")
    return offset


def timestamps_of(timestamps: Any) -> dict[TopicPartition, int]:
    """Times to look up, in milliseconds."""
    if not isinstance(timestamps, Mapping):
        raise TypeError("offsets_for_times takes a mapping of TopicPartition to milliseconds")
    wanted = {a_partition(key): value for key, value in timestamps.items()}
    for partition, timestamp_ms in wanted.items():
        if not isinstance(timestamp_ms, int):
            raise TypeError(f"{partition}: a timestamp is a number of milliseconds, not {timestamp_ms!r}")
        if timestamp_ms < 0:
            raise ValueError(f"{partition}: timestamp {timestamp_ms} is negative")
    return wanted


def after(message: Any, offsets: Any) -> Any:
    """What to commit once a record is processed; `offsets` where no record is given."""
    if message is None:
        return offsets
    if offsets is not None:
        raise ValueError("give a message or offsets to commit, not both")
    try:
        return {TopicPartition(message.topic, message.partition): message.offset + 1}
    except (AttributeError, TypeError):
        raise TypeError(f"message is a record that poll() returned, not {message!r}") from None


def a_commit_callback(callback: Any) -> Any:
    if callback is not None and not (callable(callback) and takes(callback, 2)):
        raise TypeError(f"a callback is a function of (offsets, error), not {callback!r}")
    return callback


def committable(offsets: Any) -> dict[TopicPartition, Committed]:
    """Offsets to commit: numbers, (offset, metadata), or what `committed` and other clients' classes have."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets is a mapping of TopicPartition to offset, not {offsets!r}")
    found = {}
    for partition, value in offsets.items():
        if isinstance(value, Committed):
            item = value
        elif isinstance(value, int):
            item = Committed(value)
        elif hasattr(value, "offset") and hasattr(value, "metadata"):  # another client's OffsetAndMetadata
            epoch = getattr(value, "leader_epoch", None)
            item = Committed(value.offset, -1 if epoch is None else epoch, value.metadata or "")
        elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
            item = Committed(*value)
        else:
            raise TypeError(f"an offset is a number or OffsetAndMetadata(offset, metadata), not {value!r}")
        if not isinstance(item.leader_epoch, int) or not isinstance(item.metadata, str):
            raise TypeError(f"a leader epoch is a number, metadata is text: not as in {value!r}")
        an_offset(item.offset)
        found[a_partition(partition)] = item
    return found
