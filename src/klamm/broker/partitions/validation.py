"""Validation of produced batches before they are appended, and their conversion where necessary.

The header is always checked, and so are records that are not compressed. Others are decoded only where the
topic requires it (keys on a compacted topic, a limit on old timestamps, another compression) or the
configuration does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.config.broker_config import BrokerConfig
from klamm.config import LONG_MAX
from klamm.protocol.errors import NO_ERROR, DecodeError, ErrorCode
from klamm.protocol.types import Buffer
from klamm.records.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    correct_max_timestamp,
    set_append_time,
)
from klamm.records.compression import Codec
from klamm.records.produced import append_error
from klamm.records.record import Record, decode_records, recompress
from klamm.storage.topic_config import TopicConfig

NO_TIMESTAMP: Final = -1
NO_PRODUCER: Final = -1  # as id and as epoch
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_KEEPING_UNCOMPRESSED: Final = frozenset({"producer", "uncompressed"})


@dataclass(frozen=True, slots=True)
class Validation:
    """How thoroughly batches are validated."""

    every_record: bool  # decode each batch, whatever its topic
    max_decompressed_bytes: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Validation:
        return cls(config.klamm_record_validation == "records", config.klamm_decompress_max_bytes)


class BatchRefusedError(Exception):
    """A batch that its topic does not accept; `record_errors` are (index in the batch, reason)."""

    def __init__(
        self, error_code: ErrorCode, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code
        self.message = message
        self.record_errors = record_errors


def checked_batch(
    batch: Buffer, header: BatchHeader, config: TopicConfig, validation: Validation, timestamp_ms: int
) -> Buffer:
    """The batch as it will be stored; raises BatchRefusedError."""
    error_code = append_error(batch, header, config.max_message_bytes)
    if error_code is not NO_ERROR:
        raise BatchRefusedError(error_code)
    codec = _CODECS.get(config.compression_type, header.codec)
    if (
        validation.every_record
        or header.codec == Codec.NONE
        or config.is_compacted
        or config.message_timestamp_before_max_ms != LONG_MAX
        or codec != header.codec
        or _contradicts_itself(header)
        or header.timestamp_type is TimestampType.LOG_APPEND_TIME
    ):
        batch = _check_records(batch, header, config, validation, timestamp_ms)
    else:
        _check_times(batch, header, config, validation, timestamp_ms)
    if codec != header.codec:
        if _is_of_half_a_producer(header):
            # As Kafka, which cannot write such a batch anew.
            raise BatchRefusedError(ErrorCode.unknown_server_error)
        batch = recompress(
            batch, codec, level=_level(config, codec), max_bytes=validation.max_decompressed_bytes
        )
        if len(batch) > config.max_message_bytes:
            raise BatchRefusedError(ErrorCode.message_too_large)
    if len(batch) > config.segment_bytes:
        raise BatchRefusedError(ErrorCode.record_list_too_large)
    if config.stamps_append_time:
        stamped = bytearray(batch)
        set_append_time(stamped, timestamp_ms)
        return stamped
    return batch


def _is_of_half_a_producer(header: BatchHeader) -> bool:
    """Whether a batch has a transaction without a producer id, or a producer id without an epoch."""
    if header.producer_id == NO_PRODUCER:
        return bool(header.attributes & TRANSACTIONAL_BIT)
    return header.producer_epoch == NO_PRODUCER


def _contradicts_itself(header: BatchHeader) -> bool:
    """Whether the two timestamps of a header contradict each other, or are before any time.

    librdkafka writes 0 as the latest timestamp of records that have none. Taken literally, they would be
    older than any retention.
    """
    first_ms, latest_ms = header.base_timestamp_ms, header.max_timestamp_ms
    return latest_ms < max(first_ms, NO_TIMESTAMP) or first_ms < 0 <= latest_ms


def _level(config: TopicConfig, codec: int) -> int | None:
    return {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(Codec(codec))


def _check_times(
    batch: Buffer, header: BatchHeader, config: TopicConfig, validation: Validation, timestamp_ms: int
) -> None:
    """Check the timestamps of the header; decode the records only to report which of them are invalid."""
    is_late = header.max_timestamp_ms > timestamp_ms + config.message_timestamp_after_max_ms
    if config.stamps_append_time or not is_late:
        return
    try:
        records = decode_records(batch, max_bytes=validation.max_decompressed_bytes)
    except DecodeError as error:
        raise BatchRefusedError(ErrorCode.invalid_record, str(error)) from None
    errors = _time_errors(records, header, config, timestamp_ms) or [
        (0, f"the batch header has max timestamp {header.max_timestamp_ms}")
    ]
    raise _refused_records(ErrorCode.invalid_timestamp, errors)


def _check_records(
    batch: Buffer, header: BatchHeader, config: TopicConfig, validation: Validation, timestamp_ms: int
) -> Buffer:
    try:
        records = decode_records(batch, max_bytes=validation.max_decompressed_bytes)
    except DecodeError as error:
        raise BatchRefusedError(ErrorCode.invalid_record, str(error)) from None
    key_errors = []
    if config.is_compacted:
        key_errors = [
            (index, f"a record of a compacted topic needs a key, record {index} has none")
            for index, record in enumerate(records)
            if record.key is None
        ]
    without_key = {index for index, _ in key_errors}
    time_errors = [
        (index, why)
        for index, why in _time_errors(records, header, config, timestamp_ms)
        if index not in without_key  # one error per record is enough
    ]
    if time_errors:
        raise _refused_records(ErrorCode.invalid_timestamp, sorted([*key_errors, *time_errors]))
    if key_errors:
        raise _refused_records(ErrorCode.invalid_record, key_errors)
    is_stored_as_it_is = header.codec == Codec.NONE and config.compression_type in _KEEPING_UNCOMPRESSED
    if not is_stored_as_it_is and any(record.offset != index for index, record in enumerate(records)):
        raise BatchRefusedError(ErrorCode.invalid_record, "the records' offsets do not count up from 0")
    return _with_true_max_timestamp(batch, header, records, config)


def _time_errors(
    records: Sequence[Record], header: BatchHeader, config: TopicConfig, timestamp_ms: int
) -> list[tuple[int, str]]:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME and (
        config.stamps_append_time or header.max_timestamp_ms == NO_TIMESTAMP
    ):
        return [(index, "only a broker sets LogAppendTime") for index in range(len(records))]
    if config.stamps_append_time:
        return []
    earliest_ms = timestamp_ms - config.message_timestamp_before_max_ms
    latest_ms = timestamp_ms + config.message_timestamp_after_max_ms
    return [
        (
            index,
            f"timestamp {record.timestamp_ms} of record {index} is out of range: "
            f"it must be from {earliest_ms} to {latest_ms}",
        )
        for index, record in enumerate(records)
        if record.timestamp_ms != NO_TIMESTAMP and not earliest_ms <= record.timestamp_ms <= latest_ms
    ]


def _with_true_max_timestamp(
    batch: Buffer, header: BatchHeader, records: Sequence[Record], config: TopicConfig
) -> Buffer:
    """Correct a wrong latest timestamp in the header, which would break lookups by time.

    As Kafka does, a batch that says that a broker has set its time gets the times of its records back.
    """
    latest_ms = max(NO_TIMESTAMP, *(record.timestamp_ms for record in records))
    is_right = header.timestamp_type is TimestampType.CREATE_TIME and header.max_timestamp_ms == latest_ms
    if config.stamps_append_time or is_right:
        return batch
    corrected = bytearray(batch)
    correct_max_timestamp(corrected, latest_ms)
    return corrected


def _refused_records(error_code: ErrorCode, errors: Sequence[tuple[int, str]]) -> BatchRefusedError:
    if error_code is ErrorCode.invalid_timestamp:
        message = "one or more records have an invalid timestamp"
    else:
        message = "one or more records have been rejected"
    return BatchRefusedError(error_code, message, errors)
