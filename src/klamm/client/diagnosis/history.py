"""What groups have committed lately, and which generations they had: read from `__consumer_offsets`.

Every Kafka cluster keeps this log, and shows it to those who may read the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.client.admin.admin import Admin
from klamm.client.admin.offsets import EARLIEST
from klamm.client.consumer.consumer import Consumer
from klamm.client.diagnosis.reading import begin_at, read_range
from klamm.groups.coordinator_log import (
    GROUP_KEY,
    OFFSET_KEYS,
    decode_group,
    decode_offset,
    group_key,
    offset_key,
)
from klamm.groups.snapshot import Commit, RegisteredGeneration
from klamm.protocol.errors import DecodeError
from klamm.protocol.placement import partition_for
from klamm.protocol.primitives import Reader
from klamm.protocol.types import TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_RECORDS: Final = 50_000  # read at most, of all partitions together
_MANY_GROUPS: Final = 500  # of more groups less is read: the answer is to come within seconds
_MAX_OF_MANY: Final = 10_000
_ALL_OF: Final = 5_000  # a partition with fewer records is read from its start


@dataclass(slots=True)
class GroupHistory:
    """Of one group, oldest first."""

    commits: dict[TopicPartition, list[Commit]] = field(default_factory=dict)
    generations: list[RegisteredGeneration] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OffsetsHistory:
    """Of the groups that were asked for."""

    groups: Mapping[str, GroupHistory]
    since_ms: int  # it has everything from here on


def read_history(
    admin: Admin, reader: Consumer, group_ids: Iterable[str], since_ms: int, timeout: float
) -> OffsetsHistory | None:
    """What these groups did since then; None if the topic is not there. Raises KlammError."""
    topic = admin.describe_topics([OFFSETS_TOPIC], raise_errors=False).successes.get(OFFSETS_TOPIC)
    if topic is None:
        return None
    wanted = set(group_ids)
    numbers = {partition_for(group_id, len(topic.partitions)) for group_id in wanted}
    partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in sorted(numbers)]
    if not partitions:
        return OffsetsHistory({}, since_ms)
    ends = {
        key: item.offset for key, item in admin.list_offsets(partitions, read_committed=True).unwrap().items()
    }
    starts = begin_at(admin, ends, since_ms)
    oldest = begin_at(admin, ends, EARLIEST)
    most = (_MAX_OF_MANY if len(wanted) > _MANY_GROUPS else MAX_RECORDS) // len(partitions)
    begin = {
        key: oldest[key] if end - oldest[key] <= min(_ALL_OF, most) else max(starts[key], end - most)
        for key, end in ends.items()
    }
    is_cut = any(begin[key] > starts[key] for key in ends)
    found: dict[str, GroupHistory] = {}
    first_ms: int | None = None
    for record in read_range(reader, begin, ends, timeout, "commits"):
        if first_ms is None or record.timestamp_ms < first_ms:
            first_ms = record.timestamp_ms
        if record.key is not None:
            _add(found, wanted, record.key, record.value, record.timestamp_ms)
    return OffsetsHistory(found, max(since_ms, first_ms or since_ms) if is_cut else since_ms)


def _add(
    found: dict[str, GroupHistory], wanted: set[str], key: bytes, value: bytes | None, timestamp_ms: int
) -> None:
    """One record; of another kind, or of a later version, it is left out."""
    try:
        kind = Reader(key).int16()
        if kind in OFFSET_KEYS:
            group_id, topic, number = offset_key(key)
            if group_id in wanted:
                commits = found.setdefault(group_id, GroupHistory()).commits
                place = TopicPartition(topic, number)
                if value is None:
                    commits.pop(place, None)  # removed: what was before says nothing any more
                else:
                    commits.setdefault(place, []).append(Commit(timestamp_ms, decode_offset(value).offset))
        elif kind == GROUP_KEY:
            group_id = group_key(key)
            if group_id in wanted and value is not None:
                registration = decode_group(value)
                found.setdefault(group_id, GroupHistory()).generations.append(
                    RegisteredGeneration(
                        timestamp_ms=registration.state_ms if registration.state_ms >= 0 else timestamp_ms,
                        generation=registration.generation,
                        clients=frozenset(member.client_id for member in registration.members),
                        members=frozenset(member.member_id for member in registration.members),
                    )
                )
    except DecodeError:
        return
