"""Since when records have been waiting: the timestamps of the first ones that groups have not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final

from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition

MAX_PLACES: Final = 5_000  # more are not looked at: the answer is to come within seconds
_NEAR: Final = 1_000  # records between two places: fewer are read, more are skipped


def unread_since(
    reader: Consumer,
    places: Iterable[tuple[TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
    timeout: float,
) -> dict[TopicPartition, dict[int, int]]:
    """For each partition the timestamp of the first record at or after an offset, by that offset.

    Each partition is read once, however many places of it are wanted. What does not come in time is left out.
    """
    until = monotonic() + timeout
    wanted: dict[TopicPartition, list[int]] = {}  # the last first
    for key, offset in reversed(sorted(places)[:MAX_PLACES]):
        wanted.setdefault(key, []).append(offset)
    found: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    reader.assign(list(wanted))
    for key, offsets in wanted.items():
        reader.seek(key, offsets[-1])
    while wanted and (left := until - monotonic()) > 0:
        for record in reader.poll(left):
            key = TopicPartition(record.topic, record.partition)
            offsets = wanted.get(key, [])
            while offsets and offsets[-1] <= record.offset:
                found[key][offsets.pop()] = record.timestamp_ms
        for key in list(wanted):
            offsets, position = wanted[key], reader.position(key)
            # At an end there may be markers, which are no records.
            if not offsets or (position is not None and position >= ends.get(key, position)):
                del wanted[key]
                reader.pause(key)
            elif position is not None and offsets[-1] > position + _NEAR:
                reader.seek(key, offsets[-1])
    reader.unsubscribe()
    return dict(found)
