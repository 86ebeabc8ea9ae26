"""Since when records have been waiting: the timestamps of the first ones that groups have not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from time import monotonic
from typing import Final

from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition

MAX_PLACES: Final = 500  # more are not looked at: the answer is to come within seconds


def unread_since(
    reader: Consumer, places: Iterable[tuple[TopicPartition, int]], timeout: float
) -> dict[TopicPartition, dict[int, int]]:
    """For each partition the timestamp of the first record at or after an offset, by that offset.

    What does not come in time is left out.
    """
    found: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    until = monotonic() + timeout
    waiting = sorted(places)[:MAX_PLACES]
    while waiting and monotonic() < until:
        # Several groups may stand at different offsets of one partition: one of each at a time.
        chosen: dict[TopicPartition, int] = {}
        for key, offset in waiting:
            chosen.setdefault(key, offset)
        reader.assign(list(chosen))
        for key, offset in chosen.items():
            reader.seek(key, offset)
        missing = dict(chosen)
        while missing and (left := until - monotonic()) > 0:
            for record in reader.poll(left):
                key = TopicPartition(record.topic, record.partition)
                if key in missing and record.offset >= missing[key]:
                    found[key][missing.pop(key)] = record.timestamp_ms
            reader.pause(*(key for key in chosen if key not in missing))
        waiting = [place for place in waiting if chosen.get(place[0]) != place[1]]
    reader.unsubscribe()
    return dict(found)
