"""Names of files and directories in a log directory."""

from __future__ import annotations

from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

DELETED_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
_OTHER_DIRECTORY_SUFFIXES: Final = ("-future", STRAY_DIRECTORY_SUFFIX)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
PARTITION_CHECKPOINT: Final = "klamm.checkpoint"

LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

JOURNAL_DIRECTORY: Final = "journal"

_MAX_OFFSET: Final = (1 << 63) - 1
_DIGITS: Final = 20
_MAX_NAME: Final = 255


class OffsetName(NamedTuple):
    """A file named by an offset: `00000000000000000100.log.swap` is (100, ".log.swap")."""

    offset: int
    suffix: str


def file_stem(offset: int) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{offset:020d}"


def parse_offset_name(name: str) -> OffsetName | None:
    """The offset and the suffix of a segment's or snapshot's file; None for any other name."""
    digits, suffix = name[:_DIGITS], name[_DIGITS:]
    if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()) or not suffix.startswith("."):
        return None
    offset = int(digits)
    return OffsetName(offset, suffix) if offset <= _MAX_OFFSET else None


def partition_directory(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a live partition's directory; the partition follows the last dash."""
    if name.endswith((DELETED_DIRECTORY_SUFFIX, *_OTHER_DIRECTORY_SUFFIXES)):
        return None
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def deleted_directory(topic: str, partition: int, unique: bytes) -> str:
    """The directory name of a deleted partition; the topic is shortened so that the name fits."""
    return _renamed_directory(topic, partition, unique, DELETED_DIRECTORY_SUFFIX)


def stray_directory(topic: str, partition: int, unique: bytes) -> str:
    """The directory name of a partition that belongs to no topic."""
    return _renamed_directory(topic, partition, unique, STRAY_DIRECTORY_SUFFIX)


def _renamed_directory(topic: str, partition: int, unique: bytes, suffix: str) -> str:
    ending = f"-{partition}.{unique.hex()}{suffix}"
    return topic[: _MAX_NAME - len(ending)] + ending


def journal_file(node_id: int, slot: int) -> str:
    """A file of a broker's journal."""
    return f"{node_id}-{slot}"


def reserve_file(node_id: int) -> str:
    """The file that keeps room free for a broker."""
    return f"klamm.reserve.{node_id}"


def parse_journal_file(name: str, node_id: int) -> int | None:
    """The slot of a file of this broker's journal; None for any other name."""
    owner, _, slot = name.rpartition("-")
    if owner != str(node_id) or not (slot.isascii() and slot.isdigit()):
        return None
    return int(slot)


def journal_owner(name: str) -> int | None:
    """The broker that a file of a journal belongs to; None for any other name."""
    node_id = name.partition("-")[0]
    return int(node_id) if node_id.isascii() and node_id.isdigit() else None
