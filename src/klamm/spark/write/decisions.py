"""The last committed batch: an offset of a consumer group, written in the batch's own transaction.

It becomes visible with the records of the batch or not at all, so after any crash it shows whether the batch
that Spark runs again is already there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from klamm.client.admin.model import CommittedOffset
from klamm.config import ConfigError
from klamm.groups.sinks import GROUP_SUFFIX, MARK, SLOT_MARK
from klamm.protocol.types import TopicPartition
from klamm.spark.read.positions import Positions, from_json
from klamm.spark.setup.connections import admin


class BatchKey(NamedTuple):
    """What names one batch for good: the query and its number there; for a batch write, its token and 0."""

    query_id: str
    batch_id: int


class Decision(NamedTuple):
    """The last batch that was decided."""

    query_id: str
    batch_id: int

    def covers(self, key: BatchKey) -> bool:
        """Whether this batch is written already."""
        return self.query_id == key.query_id and key.batch_id <= self.batch_id


def sink_group(transactional_id: str) -> str:
    return transactional_id + GROUP_SUFFIX


def encode_decision(key: BatchKey) -> tuple[int, str]:
    """A decision encoded as offset and metadata."""
    return key.batch_id, f"{MARK}{key.query_id}"


def encode_slot_decision(key: BatchKey) -> str:
    """Metadata that stands for a decision whose offset leads to its record."""
    return f"{SLOT_MARK}{key.batch_id};{key.query_id}"


def decode_decisions(committed: Mapping[TopicPartition, CommittedOffset]) -> tuple[Decision, ...]:
    """The decisions in the offsets of a sink's group; a sink that changed its topic has more than one."""
    found = []
    for item in committed.values():
        if item.metadata.startswith(MARK):
            found.append(Decision(item.metadata.removeprefix(MARK), item.offset))
        elif item.metadata.startswith(SLOT_MARK):
            batch_id, _, query_id = item.metadata.removeprefix(SLOT_MARK).partition(";")
            found.append(Decision(query_id, int(batch_id)))
    return tuple(found)


def is_decided(decisions: tuple[Decision, ...], key: BatchKey) -> bool:
    return any(decision.covers(key) for decision in decisions)


def last_batch(decisions: Iterable[Decision], query_id: str) -> int:
    """The last batch of a query that was decided; -1 if none was."""
    return max((item.batch_id for item in decisions if item.query_id == query_id), default=-1)


def fetch_decisions(client: Mapping[str, str], transactional_id: str) -> tuple[Decision, ...]:
    """Fetch the decisions; waits while a transaction that carries one is being completed."""
    return decode_decisions(sink_offsets(client, transactional_id))


def sink_offsets(
    client: Mapping[str, str], transactional_id: str
) -> Mapping[TopicPartition, CommittedOffset]:
    """The offsets that stand for decisions."""
    return admin(client).list_group_offsets(sink_group(transactional_id), require_stable=True)


def source_offsets(checkpoint: str, batch_id: int) -> Positions:
    """Where a micro-batch ends, as Spark's offset log has it; of sources that read topics.

    Raises ConfigError when the log is in a format that is not known.
    """
    lines = text_of(f"{checkpoint.rstrip('/')}/offsets/{batch_id}").splitlines()
    if not lines or lines[0] != "v1":
        raise ConfigError(
            "checkpointLocation",
            f"the offset log of {checkpoint} has format {lines[0] if lines else 'none'}, only v1 is known: "
            "set spark.sql.streaming.offsetLog.formatVersion=1, or leave out commitGroup",
        )
    written = [topics_of(line) for line in lines[2:]]
    return lowest([from_json(item) for item in written if item is not None])


def lowest(ends: Iterable[Positions]) -> Positions:
    """Up to where all sources of a query have read: two of one topic may end at different offsets."""
    found: Positions = {}
    for positions in ends:
        for partition, offset in positions.items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def topics_of(line: str) -> dict[str, Any] | None:
    """The offsets of a source that reads topics; None for another kind of source."""
    try:
        written = json.loads(line)
    except ValueError:
        return None
    if not isinstance(written, dict) or not all(isinstance(item, dict) for item in written.values()):
        return None
    return written


def running_batch(checkpoint: str) -> BatchKey | None:
    """The query that a checkpoint belongs to, and its last planned batch; None if neither can be read."""
    try:
        query_id = json.loads(text_of(f"{checkpoint.rstrip('/')}/metadata"))["id"]
        system, path = opened(f"{checkpoint.rstrip('/')}/offsets")
        names = [item.base_name for item in system.get_file_info(pafs.FileSelector(path))]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None  # of another kind, or on a file system that Python cannot read
    return BatchKey(str(query_id), max((int(name) for name in names if name.isdigit()), default=0))


def has_ended(checkpoint: str, batch_id: int) -> bool:
    """Whether Spark has noted the end of a batch."""
    system, path = opened(f"{checkpoint.rstrip('/')}/commits/{batch_id}")
    return bool(system.get_file_info(path).type == pafs.FileType.File)


def text_of(location: str) -> str:
    system, path = opened(location)
    with system.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content.decode()


def opened(location: str) -> tuple[Any, str]:
    if location.startswith("file:"):
        location = "/" + location.removeprefix("file:").lstrip("/")
    elif "://" not in location:
        location = os.path.abspath(location)  # as Spark does: relative to the folder that it runs in
    system, path = pafs.FileSystem.from_uri(location)
    return system, path
