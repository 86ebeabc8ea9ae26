"""Which batch was decided last: an offset of a consumer group, written in the transaction it speaks of.

It becomes visible with the records of the batch or not at all, so after any crash it tells whether the batch
that Spark runs again is already there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow.fs as pafs

from klamm.client.admin.model import CommittedOffset
from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.read.positions import Positions, from_json
from klamm.spark.setup.connections import admin

GROUP_SUFFIX: Final = ".sink"
_MARK: Final = "v1;"


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
    """Offset and metadata that stand for a decision."""
    return key.batch_id, f"{_MARK}{key.query_id}"


def decode_decisions(committed: Mapping[TopicPartition, CommittedOffset]) -> tuple[Decision, ...]:
    """What the offsets of a sink's group say; a sink that changed its topic has more than one."""
    return tuple(
        Decision(item.metadata.removeprefix(_MARK), item.offset)
        for item in committed.values()
        if item.metadata.startswith(_MARK)
    )


def is_decided(decisions: tuple[Decision, ...], key: BatchKey) -> bool:
    return any(decision.covers(key) for decision in decisions)


def fetch_decisions(client: Mapping[str, str], transactional_id: str) -> tuple[Decision, ...]:
    """Ask the broker; waits while a transaction that carries a decision is being completed."""
    found = admin(client).list_group_offsets(sink_group(transactional_id), require_stable=True)
    return decode_decisions(found)


def source_offsets(checkpoint: str, batch_id: int) -> Positions:
    """Where a micro-batch ends, as Spark's offset log has it; of sources that read topics.

    Raises ConfigError when the log is in a format that is not known.
    """
    lines = _text(f"{checkpoint.rstrip('/')}/offsets/{batch_id}").splitlines()
    if not lines or lines[0] != "v1":
        raise ConfigError(
            "checkpointLocation",
            f"the offset log of {checkpoint} has format {lines[0] if lines else 'none'}, only v1 is known: "
            "set spark.sql.streaming.offsetLog.formatVersion=1, or leave out commitGroup",
        )
    found: Positions = {}
    for line in lines[2:]:
        written = _topics(line)
        if written is not None:
            found |= from_json(written)
    return found


def _topics(line: str) -> dict[str, Any] | None:
    """The offsets of a source that reads topics; None for another kind of source."""
    try:
        written = json.loads(line)
    except ValueError:
        return None
    if not isinstance(written, dict) or not all(isinstance(item, dict) for item in written.values()):
        return None
    return written


def _text(location: str) -> str:
    if location.startswith("file:"):
        location = "/" + location.removeprefix("file:").lstrip("/")
    system, path = pafs.FileSystem.from_uri(location)
    with system.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content.decode()
