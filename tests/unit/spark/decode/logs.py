"""Logs of a coordinator made by hand, and the rows that they become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from klamm.client.ranges import Fetch
from klamm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import Record, encode_batch
from klamm.spark.decode.rows import TableRows, table_rows
from klamm.spark.decode.tables import CONSUMER_OFFSETS, table_schema
from klamm.spark.read.splitting import OffsetRange

TIME_MS = 1_700_000_000_000
KEY = bytes.fromhex("0001 00026731 000174 0000001e".replace(" ", ""))  # group g1, topic t, partition 30
GROUP_KEY = bytes.fromhex("000200026731")
COMMIT = bytes.fromhex("0003 0000000000000852 00000007 00016d 000001664a32b222".replace(" ", ""))
Pair = tuple[bytes | None, bytes | None]


def log_of(*parts: Sequence[Pair] | tuple[Sequence[Pair] | ControlType, int]) -> bytes:
    """Batches one after the other: plain pairs, pairs of a producer's transaction, markers of a producer."""
    batches: list[bytes] = []
    offset = 0
    for part in parts:
        pairs, producer_id = (part[0], part[1]) if isinstance(part, tuple) else (part, -1)
        if isinstance(pairs, ControlType):
            batches.append(
                encode_marker(
                    pairs,
                    producer_id=producer_id,
                    producer_epoch=3,
                    coordinator_epoch=0,
                    timestamp_ms=TIME_MS,
                    base_offset=offset,
                )
            )
            offset += 1
            continue
        records = [Record(offset + index, TIME_MS, *pair) for index, pair in enumerate(pairs)]
        batches.append(
            encode_batch(
                records,
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=3 if producer_id >= 0 else -1,
                base_sequence=0,
                transactional=producer_id >= 0,
            )
        )
        offset += len(pairs)
    return b"".join(batches)


def reader_of(table: str, format_name: str = CONSUMER_OFFSETS, until: int = 1 << 40) -> TableRows:
    wanted = OffsetRange(TopicPartition("__log", 4), 0, until)
    return table_rows(
        table_schema(format_name, table), wanted, check_crcs=True, format_name=format_name, table=table
    )


def rows_in(log: bytes, table: str, format_name: str = CONSUMER_OFFSETS) -> list[dict[str, Any]]:
    reader = reader_of(table, format_name)
    batches = [*reader.rows(Fetch(log, 0, 1 << 40, ())), *reader.rest()]
    return [row for batch in batches for row in batch.to_pylist()]


def a_group(version: int) -> bytes:
    """A group of one member as brokers of every age have written it."""
    is_flexible = version >= 4

    def text(value: str | None) -> bytes:
        raw = b"" if value is None else value.encode()
        if is_flexible:
            return bytes([0 if value is None else len(raw) + 1]) + raw
        return (-1 if value is None else len(raw)).to_bytes(2, signed=True) + raw

    def raw(value: bytes) -> bytes:
        return (bytes([len(value) + 1]) if is_flexible else len(value).to_bytes(4)) + value

    parts = [version.to_bytes(2), text("consumer"), (5).to_bytes(4), text("range"), text("m-1")]
    if version >= 2:
        parts.append(TIME_MS.to_bytes(8))
    parts += [b"\x02" if is_flexible else (1).to_bytes(4), text("m-1")]
    if version >= 3:
        parts.append(text("static"))
    parts += [text("client"), text("/host")]
    if version >= 1:
        parts.append((60_000).to_bytes(4))
    parts.append((45_000).to_bytes(4))
    parts.append(raw(encode_subscription(Subscription(topics=("t",)))))
    parts.append(raw(encode_assignment(Assignment((TopicPartition("t", 1),), None))))
    return b"".join(parts) + (b"\x00\x00" if is_flexible else b"")
