"""Which topic a partition's directory belongs to.

`partition.metadata` has the topic id as Kafka writes it, without a checksum: one flipped bit makes another id
of it. The partition's checkpoint repeats the id under a checksum. A log is taken for that of a deleted topic
only if more than `partition.metadata` says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.types import ZERO_ID, id_to_text
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.checkpoints import decode_partition_metadata
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.partition_checkpoint import PartitionCheckpoint
from klamm.storage.log import LogError

_logger = logging.getLogger(__name__)


class DirectoryTopic(NamedTuple):
    """What the files of a partition's directory say about its topic."""

    directory: str
    stored_id: bytes | None  # in partition.metadata; None when it is missing or damaged
    damage: str  # what is wrong with partition.metadata
    confirmed_id: bytes | None  # in the checkpoint; None when it is missing, damaged, or of an older version

    @property
    def likely_id(self) -> bytes | None:
        """The topic id, if one of the files has it."""
        return self.confirmed_id or self.stored_id

    def belongs_to(self, topic_id: bytes, *, is_new: bool, is_journaled: Callable[[], bool]) -> bool:
        """Whether the log is that of a topic, or else that of a deleted topic with the same name.

        `is_new`: nobody has led the topic's partition before, so that the log of another one may be in its
        place. `is_journaled`: a journal has records of it. Raises LogError when this cannot be known.
        """
        if topic_id in (self.stored_id, self.confirmed_id):
            if self.stored_id != topic_id and (found := self._found):
                _logger.warning(
                    "%s/%s %s: replaced, the partition's checkpoint has the expected topic id %s",
                    self.directory,
                    names.PARTITION_METADATA,
                    found,
                    id_to_text(topic_id),
                )
            return True
        if self.confirmed_id is not None:
            return False
        if not self._found or is_journaled():
            return True  # the file need not be durable before the first flush of a segment
        if is_new:
            return False
        raise LogError(
            ErrorCode.kafka_storage_error,
            f"{self.directory}/{names.PARTITION_METADATA} {self._found}, expected topic id "
            f"{id_to_text(topic_id)}: remove this file to keep the log, or rename its directory to begin an "
            "empty one, and restart the broker",
        )

    @property
    def _found(self) -> str:
        if self.damage:
            return f"is damaged ({self.damage})"
        return f"has topic id {id_to_text(self.stored_id)}" if self.stored_id is not None else ""


def topic_of(files: Files, directory: str, left: PartitionCheckpoint | None) -> DirectoryTopic:
    """Read what a directory says about its topic; `left` is the partition's checkpoint."""
    confirmed_id = left.topic_id if left is not None and left.topic_id != ZERO_ID else None
    stored_id, damage = None, ""
    try:
        data = files.read_file(f"{directory}/{names.PARTITION_METADATA}")
        # A power failure before the first flush leaves an empty file.
        stored_id = decode_partition_metadata(data) if data.strip(b"\0") else None
    except FileNotFoundError:
        pass
    except (DecodeError, OSError) as error:
        damage = str(error)
    return DirectoryTopic(directory, stored_id, damage, confirmed_id)
