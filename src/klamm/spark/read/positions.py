"""Offsets as Spark keeps them: `{"topic": {"0": 23, "1": 7}}`, the next offset to read of each partition.

The shape is that of Spark's own Kafka connector, so that a checkpoint can be carried over. Spark compares
offsets as text: topics are sorted, partitions are sorted as numbers, and nothing else decides the order.

The start of the very first batch rides along under `$initial` (`$` is illegal in topic names), because
Spark requests it again after a crash in that batch, when `latest` would be another offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.config import LONG_MAX, ConfigError
from klamm.protocol.types import TopicPartition

Positions = dict[TopicPartition, int]
OffsetJson = dict[str, Any]

EARLIEST: Final = -2
LATEST: Final = -1
INITIAL: Final = "$initial"


def to_json(
    positions: Mapping[TopicPartition, int], initial: Mapping[TopicPartition, int] | None = None
) -> OffsetJson:
    """Positions in canonical order."""
    written: OffsetJson = {}
    if initial is not None:
        written[INITIAL] = to_json(initial)
    for partition in sorted(positions):
        written.setdefault(partition.topic, {})[str(partition.partition)] = positions[partition]
    return written


def from_json(written: Mapping[str, Any]) -> Positions:
    """The positions in Spark's checkpoint, without other keys."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in written.items()
        if topic != INITIAL
        for number, offset in partitions.items()
    }


def initial_of(written: Mapping[str, Any]) -> Positions | None:
    """The start of the first batch, when this offset carries it."""
    initial = written.get(INITIAL)
    return None if initial is None else from_json(initial)


def is_initial(written: Mapping[str, Any]) -> bool:
    """Whether this offset is the very start: nothing was read before it."""
    return initial_of(written) == from_json(written) and INITIAL in written


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topic": [0, 1]}`, as option `assign` has it."""
    example = 'as in {"orders": [0, 1]}'
    tree = _object(option, text, example)
    found: set[TopicPartition] = set()
    for topic, numbers in tree.items():
        if not isinstance(numbers, list):
            raise ConfigError(option, f"{option}: {topic} needs a list of partitions, {example}")
        for number in numbers:
            found.add(TopicPartition(topic, _partition(option, topic, number)))
    return tuple(sorted(found))


def parse_positions(option: str, text: str) -> Positions:
    """`{"topic": {"0": 23, "1": -1}}`: an offset, -2 for earliest, -1 for latest."""
    example = 'as in {"orders": {"0": 23, "1": -2}}'
    found = _numbers(option, text, example)
    for partition, offset in found.items():
        if offset < EARLIEST:
            raise ConfigError(
                option,
                f"{option}: invalid {offset} for {partition}: expected an offset, -2 or -1",
            )
    return found


def parse_times(option: str, text: str) -> Positions:
    """`{"topic": {"0": 1700000000000}}`: milliseconds since 1970; -2 for earliest, -1 for latest."""
    example = 'as in {"orders": {"0": 1700000000000}}'
    found = _numbers(option, text, example)
    for partition, time_ms in found.items():
        if time_ms < EARLIEST:
            raise ConfigError(
                option,
                f"{option}: invalid {time_ms} for {partition}: expected milliseconds since 1970, -2 or -1",
            )
    return found


def _numbers(option: str, text: str, example: str) -> Positions:
    found: Positions = {}
    for topic, partitions in _object(option, text, example).items():
        if not isinstance(partitions, dict):
            raise ConfigError(option, f"{option}: {topic} needs its partitions, {example}")
        for number, value in partitions.items():
            if type(value) is not int or abs(value) > LONG_MAX:
                raise ConfigError(
                    option,
                    f"{option}: {topic}-{number} is {json.dumps(value)}: expected a whole number, {example}",
                )
            found[TopicPartition(topic, _partition(option, topic, number))] = value
    return found


def _object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ConfigError(option, f"{option} is not JSON ({error}): expected JSON {example}") from None
    if not isinstance(tree, dict):
        raise ConfigError(option, f"invalid value {text} for {option}: expected JSON {example}")
    for topic in tree:
        if not topic or topic.startswith("$"):
            raise ConfigError(option, f"{option}: {topic!r} is not a topic name")
    return tree


def _partition(option: str, topic: str, number: object) -> int:
    text = str(number)
    if isinstance(number, bool | float) or not (text.isascii() and text.isdigit()) or int(text) >= 1 << 31:
        raise ConfigError(option, f"{option}: {topic} has no partition {number!r}: expected 0 or more")
    return int(text)


def check_same_partitions(
    option: str, given: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> None:
    """An option by partition must name exactly the partitions that are read."""
    named, wanted = set(given), set(assigned)
    if named == wanted:
        return
    missing, extra = listed(wanted - named), listed(named - wanted)
    parts = [f"{missing} missing"] if missing else []
    if extra:
        parts.append(f"{extra} not read by this query")
    raise ConfigError(
        option,
        f"{option} must name every partition that is read and no other ({'; '.join(parts)}): "
        "for offsets, -2 is earliest and -1 is latest",
    )


def listed(partitions: Iterable[TopicPartition], limit: int = 10) -> str:
    """Partitions in a message, the first few of many."""
    ordered = sorted(partitions)
    shown = ", ".join(map(str, ordered[:limit]))
    return shown if len(ordered) <= limit else f"{shown} and {len(ordered) - limit} more"
