"""Appending what a journal holds of a partition, and its segments lost, to the end of its log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.journal_reading import JournaledBatch
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.engines.segments.snapshots import replay
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import LogError
from klamm.storage.producer_state import ProducerState

_logger = logging.getLogger(__name__)


def replay_journal(
    active: Segment,
    log_end_offset: int,
    batches: Iterable[JournaledBatch],
    *,
    producers: ProducerState,
    epochs: LeaderEpochs,
    index_interval_bytes: int,
) -> int:
    """Append the batches that follow the end of a log, whose last segment this is; its new end.

    Batches that the log has are skipped, so it can be repeated. So are those of a leader epoch older than the
    log's: a later leader has replayed what counts. The caller makes the segment durable. Raises OSError, and
    LogError when batches between the log and the journal are missing.
    """
    first_offset = log_end_offset
    for header, data in batches:
        if header.last_offset < log_end_offset or header.leader_epoch < epochs.latest_epoch:
            continue
        if header.base_offset != log_end_offset:
            raise LogError(
                ErrorCode.kafka_storage_error,
                f"{active.log_path}: the log ends at offset {log_end_offset}, "
                f"but the journal continues at {header.base_offset}",
            )
        position = active.size_bytes
        active.append((data,), len(data), header.last_offset, header.max_timestamp_ms, index_interval_bytes)
        completed = replay(producers, FoundBatch(position, header, data, 0), active.log_path)
        if completed is not None and completed.is_aborted:
            active.txn_index.add(AbortedEntry.of(completed))
        epochs.replay(header.leader_epoch, header.base_offset)
        log_end_offset = header.next_offset
    if log_end_offset > first_offset:
        active.finish()
        _logger.info(
            "%s: appended offsets %d to %d from the journal", active.log_path, first_offset, log_end_offset
        )
    return log_end_offset
