"""The content of log files, entry by entry, as plain values that print as JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from klamm.cli.dump_journal import IN_JOURNAL, Journals, log_batches, partition_segments
from klamm.cli.dump_records import Decode, decoder_for
from klamm.client.consumer.record_json import text_or_base64
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import id_to_text
from klamm.records.compression import Codec
from klamm.records.markers import decode_marker
from klamm.records.record import Record, decode_records
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.checkpoints import (
    decode_meta,
    decode_offsets,
    decode_partition_metadata,
)
from klamm.storage.engines.segments.epochs import decode_epochs
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.log import LogError
from klamm.storage.producer_snapshot import decode_snapshot

Fact: TypeAlias = dict[str, Any]


class DumpError(Exception):
    """A file that cannot be read to its end; the message says where and why."""


def facts(path: Path, journals: Journals, *, with_records: bool) -> Iterator[Fact]:
    """The entries of a file, or of the log in a partition's folder; DumpError where it is invalid."""
    try:
        path.stat()  # what does not exist is told as such, whatever its name would be
        if path.is_dir():
            yield from _partition(path, journals, with_records)
        elif (reader := _reader(path)) is None:
            yield from _log([path], journals, with_records)
        else:
            yield from reader(path)
    except (LogError, DecodeError) as error:
        message = str(error)
        raise DumpError(message if message.startswith(str(path)) else f"{path}: {message}") from error
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from error


def _reader(path: Path) -> Callable[[Path], Iterator[Fact]] | None:
    """How to read a file; None for a segment."""
    if path.name in _READERS_BY_NAME:
        return _READERS_BY_NAME[path.name]
    for suffix, reader in _READERS_BY_SUFFIX.items():
        # A file that is being deleted or swapped has a second suffix.
        if suffix in path.suffixes:
            return reader
    if names.LOG_SUFFIX in path.suffixes:
        return None
    raise DumpError(
        f"{path} is not a log file: expected .log, .index, .timeindex, .txnindex or .snapshot files, "
        "a checkpoint, partition.metadata, meta.properties, or the folder of a partition"
    )


def _partition(folder: Path, journals: Journals, with_records: bool) -> Iterator[Fact]:
    segments = partition_segments(folder)
    if not segments:
        raise DumpError(f"{folder} has no segments: expected the folder of a partition, as in orders-0")
    return _log(segments, journals, with_records)


def _log(segments: list[Path], journals: Journals, with_records: bool) -> Iterator[Fact]:
    topic = segments[0].absolute().parent.name.rpartition("-")[0]
    return batch_facts(log_batches(segments, journals), topic, with_records=with_records)


def batch_facts(batches: Iterable[FoundBatch], topic: str, *, with_records: bool) -> Iterator[Fact]:
    """The batches of a topic's log."""
    decode = decoder_for(topic) if with_records else None
    for found in batches:
        fact = _batch(found)
        if with_records:
            is_data = not found.header.is_control
            fact["records"] = [
                _record(each, decode if is_data else None) for each in decode_records(found.buffer, found.at)
            ]
        yield fact


def _batch(found: FoundBatch) -> Fact:
    header = found.header
    fact: Fact = {
        "type": "batch",
        "position": None if found.position == IN_JOURNAL else found.position,
        "in_journal": found.position == IN_JOURNAL,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp_ms": header.base_timestamp_ms,
        "max_timestamp_ms": header.max_timestamp_ms,
        "codec": Codec(header.codec).name.lower() if header.codec <= max(Codec) else str(header.codec),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
    }
    if header.is_control:
        marker = decode_marker(found.buffer, found.at)
        if marker is not None:
            fact["marker"] = marker.control_type.name.lower()
            fact["coordinator_epoch"] = marker.coordinator_epoch
    return fact


def _record(record: Record, decode: Decode | None) -> Fact:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **(_content(record) if decode is None else _decoded(record, decode)),
        "headers": [{"name": name, **text_or_base64("value", value)} for name, value in record.headers],
    }


def _content(record: Record) -> Fact:
    return {**text_or_base64("key", record.key), **text_or_base64("value", record.value)}


def _decoded(record: Record, decode: Decode) -> Fact:
    """A record of a coordinator; as bytes, with the reason, if it cannot be decoded."""
    try:
        fact = decode(record.key, record.value)
    except DecodeError as error:
        return {**_content(record), "error": str(error)}
    return fact or {"record": "unknown", **_content(record)}


def _index(path: Path) -> Iterator[Fact]:
    base_offset = _base_offset(path)
    for offset, position in _entries(path, ">ii"):
        yield {"type": "index", "last_offset": base_offset + offset, "position": position}


def _time_index(path: Path) -> Iterator[Fact]:
    base_offset = _base_offset(path)
    for timestamp_ms, offset in _entries(path, ">qi"):
        yield {"type": "timeindex", "timestamp_ms": timestamp_ms, "offset": base_offset + offset}


def _txn_index(path: Path) -> Iterator[Fact]:
    for version, producer_id, first_offset, last_offset, last_stable_offset in _entries(path, ">hqqqq"):
        yield {
            "type": "txnindex",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }


def _base_offset(path: Path) -> int:
    name = names.parse_offset_name(path.name)
    if name is None:
        raise DecodeError("its name does not begin with the twenty digits of an offset")
    return name.offset


def _entries(path: Path, layout: str) -> Iterator[tuple[int, ...]]:
    """The entries of an index. Kafka fills an active one up with zeros, which are skipped."""
    data = path.read_bytes()
    entry_bytes = struct.calcsize(layout)
    used = len(data.rstrip(b"\0"))
    whole = min(len(data) // entry_bytes, -(-used // entry_bytes))
    previous: tuple[int, ...] = ()
    for entry in struct.iter_unpack(layout, memoryview(data)[: whole * entry_bytes]):
        yield entry
        if previous and layout != ">hqqqq" and entry[0] <= previous[0]:
            raise DecodeError(f"entries are not in ascending order: {previous[0]}, then {entry[0]}")
        previous = entry
    if len(data) % entry_bytes:
        raise DecodeError(f"{len(data)} bytes are no number of entries of {entry_bytes} bytes")


def _snapshot(path: Path) -> Iterator[Fact]:
    for entry in decode_snapshot(path.read_bytes()):
        last = entry.summaries()[-1] if entry.batches else None
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": -1 if last is None else last.last_offset,
            "last_timestamp_ms": entry.last_timestamp_ms,
            "coordinator_epoch": entry.coordinator_epoch,
            "txn_first_offset": entry.txn_first_offset,
        }


def _offset_checkpoint(path: Path) -> Iterator[Fact]:
    for (topic, partition), offset in decode_offsets(path.read_bytes()).items():
        yield {"type": "checkpoint", "topic": topic, "partition": partition, "offset": offset}


def _epoch_checkpoint(path: Path) -> Iterator[Fact]:
    for entry in decode_epochs(path.read_bytes()):
        yield {"type": "epoch", "leader_epoch": entry.epoch, "start_offset": entry.start_offset}


def _partition_metadata(path: Path) -> Iterator[Fact]:
    yield {"type": "partition", "topic_id": id_to_text(decode_partition_metadata(path.read_bytes()))}


def _meta_properties(path: Path) -> Iterator[Fact]:
    meta = decode_meta(path.read_bytes())
    yield {
        "type": "directory",
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": id_to_text(meta.directory_id),
    }


_READERS_BY_NAME: Final = {
    names.LEADER_EPOCH_CHECKPOINT: _epoch_checkpoint,
    names.PARTITION_METADATA: _partition_metadata,
    names.META_PROPERTIES: _meta_properties,
    names.RECOVERY_POINT_CHECKPOINT: _offset_checkpoint,
    names.LOG_START_CHECKPOINT: _offset_checkpoint,
    names.HIGH_WATERMARK_CHECKPOINT: _offset_checkpoint,
    names.CLEANER_CHECKPOINT: _offset_checkpoint,
}
_READERS_BY_SUFFIX: Final = {
    names.INDEX_SUFFIX: _index,
    names.TIME_INDEX_SUFFIX: _time_index,
    names.TXN_INDEX_SUFFIX: _txn_index,
    names.SNAPSHOT_SUFFIX: _snapshot,
}
