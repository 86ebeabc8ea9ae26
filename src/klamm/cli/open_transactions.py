"""Transactions that are open on partitions, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.client.admin.model import HangingTransaction
from klamm.groups.diagnosis.words import duration
from klamm.groups.snapshot import PartitionTransaction

COLUMNS: Final = (
    "topic",
    "partition",
    "start offset",
    "producer id",
    "epoch",
    "transactional id",
    "idle for",
)


def transaction_row(item: PartitionTransaction, now_ms: int) -> tuple[object, ...]:
    """A row of a table: COLUMNS."""
    return (
        *item.partition,
        item.start_offset,
        item.producer_id,
        item.producer_epoch,
        item.transactional_id or "-",
        duration(now_ms - item.last_timestamp_ms),
    )


def of_hanging(found: Iterable[HangingTransaction]) -> list[PartitionTransaction]:
    """Hanging transactions as open ones, which they are."""
    return [
        PartitionTransaction(
            item.partition,
            item.start_offset,
            item.producer_id,
            item.producer_epoch,
            item.last_timestamp_ms,
            item.transactional_id,
        )
        for item in found
    ]
