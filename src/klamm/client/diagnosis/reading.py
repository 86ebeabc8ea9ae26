"""Reading ranges of topics for those who look back: events, commits, single records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from klamm.client.admin.admin import Admin
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.errors import KlammTimeoutError
from klamm.protocol.types import TopicPartition

Found: TypeAlias = ConsumerRecord[bytes | None, bytes | None]

EVENTS_TOPIC: Final = "__klamm_events"


def read_range(
    consumer: Consumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    timeout: float,
    what: str,
) -> Iterator[Found]:
    """The records of partitions from start to end; KlammTimeoutError if none come in time."""
    left = {key: end for key, end in ends.items() if end > starts[key]}
    if not left:
        return
    consumer.assign(list(left))
    at = {key: starts[key] for key in left}
    for key, start in at.items():
        consumer.seek(key, start)
    while left:
        records = consumer.poll(timeout)
        for record in records:
            at[TopicPartition(record.topic, record.partition)] = record.offset + 1
        yield from records
        # At an end there may be markers, which are no records: the position is behind them.
        now = {key: position for key in left if (position := consumer.position(key)) is not None}
        if not records and now == at:
            raise KlammTimeoutError(
                f"the cluster gave no {what} for {timeout:g} s; --timeout SECONDS waits longer"
            )
        at = now
        left = {key: end for key, end in left.items() if now.get(key, end) < end}
        at = {key: at[key] for key in left}


def begin_at(admin: Admin, ends: Mapping[TopicPartition, int], since_ms: int) -> dict[TopicPartition, int]:
    """The first offset at or after a time (or EARLIEST) in each partition; its end where there is none."""
    found = admin.list_offsets(dict.fromkeys(ends, since_ms)).unwrap()
    return {key: found[key].offset if found[key].offset >= 0 else end for key, end in ends.items()}


def events_since(
    admin: Admin, consumer: Consumer, since_ms: int, timeout: float
) -> list[dict[str, Any]] | None:
    """The events from a time on, or from EARLIEST; None where the broker records none."""
    topic = admin.describe_topics([EVENTS_TOPIC], raise_errors=False).successes.get(EVENTS_TOPIC)
    if topic is None:
        return None
    partitions = [TopicPartition(EVENTS_TOPIC, item.partition) for item in topic.partitions]
    ends = {key: item.offset for key, item in admin.list_offsets(partitions).unwrap().items()}
    records = read_range(consumer, begin_at(admin, ends, since_ms), ends, timeout, "events")
    return [json.loads(record.value) for record in records if record.value is not None]
