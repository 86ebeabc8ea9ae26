"""Reading a shard's log back: the same state, from batches as they are on disk."""

from __future__ import annotations

import logging

from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.records import UnknownTransactionKey, decode_record
from klamm.coordinator.transaction.signals import Prepared
from klamm.coordinator.transaction.state import TransactionOutcome, TransactionState, replay
from klamm.coordinator.transaction.states import PREPARED
from klamm.protocol.errors import DecodeError
from klamm.records.batch import crc_is_valid, iter_headers
from klamm.records.record import Record, decode_records

_logger = logging.getLogger(__name__)


class TransactionLoader:
    """Replays batches into a state that no request has seen yet."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._warned: set[int] = set()

    def load(self, batches: bytes) -> int:
        """Replay whole batches; the offset after the last. Raises CorruptLogError."""
        next_offset = -1
        try:
            for position, header in iter_headers(batches):
                next_offset = header.base_offset
                if not crc_is_valid(batches, position, header):
                    raise DecodeError("its checksum is wrong")
                if not header.is_control:
                    for record in decode_records(batches, position):
                        self._load_record(record)
                next_offset = header.next_offset
        except DecodeError as error:
            where = f"batch at offset {next_offset}" if next_offset >= 0 else "what was read"
            raise CorruptLogError(f"{where} cannot be read: {error}") from error
        if next_offset < 0:
            raise CorruptLogError(f"{len(batches)} bytes hold no whole batch")
        return next_offset

    def _load_record(self, record: Record) -> None:
        try:
            decoded = decode_record(record.key, record.value)
        except DecodeError as error:
            raise CorruptLogError(f"record at offset {record.offset} cannot be read: {error}") from error
        if not isinstance(decoded, UnknownTransactionKey):
            replay(self._state, decoded, record.offset)
        elif decoded.version not in self._warned:
            self._warned.add(decoded.version)
            _logger.warning(
                "skipped the record at offset %d, and all like it: its key has the unknown version %d",
                record.offset,
                decoded.version,
            )


def set_up(state: TransactionState, context: Context) -> TransactionOutcome:
    """Finish what was decided; what is open waits for its client, or for its timeout."""
    config = state.config
    return Outcome(
        timers=(
            (
                state.timeout_timer,
                context.now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            ),
            (
                state.expiry_timer,
                context.now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
        ),
        # Which markers were written is not on record: all are sent again, and repeated ones are harmless.
        then=[
            Prepared(transactional_id)
            for transactional_id, transaction in state.transactions.items()
            if transaction.stored.state in PREPARED
        ],
    )
