"""The state file of a move: how far each partition was copied. It makes a move resumable and repeatable."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from klamm.cli.move.offset_map import OffsetMap
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition

_VERSION: Final = 1


class MoveError(KlammError):
    """A move cannot begin or go on; the message says what to do."""


@dataclass(slots=True)
class CopyProgress:
    """How far one partition was copied, as acknowledged by the target."""

    source_next: int  # the offset at which reading goes on
    offsets: OffsetMap = field(default_factory=OffsetMap)
    checked_to: int = 0  # target offsets below were compared with the source, by an earlier run
    checksum: int = 0  # of the records from `checked_to` on

    def copy(self) -> CopyProgress:
        return CopyProgress(self.source_next, self.offsets.copy(), self.checked_to, self.checksum)


@dataclass(slots=True)
class MoveState:
    """The state of a whole move. `topic_ids` detects topics that were deleted and created again."""

    source_id: str  # cluster ids
    target_id: str
    topic_ids: dict[str, tuple[str, str]] = field(default_factory=dict)  # at the source and at the target
    partitions: dict[TopicPartition, CopyProgress] = field(default_factory=dict)


def load_state(path: Path, source_id: str, target_id: str) -> MoveState:
    """The state of an earlier run, or a new one. Raises MoveError if the file belongs to another move."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return MoveState(source_id, target_id)
    except (OSError, ValueError) as error:
        raise MoveError(
            f"cannot read the state file {path}: {error}; correct it, or delete the topics at the target and "
            "name another file with --state"
        ) from error
    try:
        state = _decoded(found)
    except (KeyError, TypeError, ValueError) as error:
        raise MoveError(
            f"{path} is not a state file of this version of `klamm move`: name another with --state"
        ) from error
    if (state.source_id, state.target_id) != (source_id, target_id):
        raise MoveError(
            f"the state file {path} is of a move from cluster {state.source_id} to {state.target_id}, "
            f"not from {source_id} to {target_id}: name another file with --state"
        )
    return state


def save_state(path: Path, state: MoveState) -> None:
    """Replace the file; a crash leaves the old one or the new one."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w") as file:
        json.dump(_encoded(state), file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _encoded(state: MoveState) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "source": state.source_id,
        "target": state.target_id,
        "topics": {name: list(ids) for name, ids in state.topic_ids.items()},
        "partitions": [
            {
                "topic": key.topic,
                "partition": key.partition,
                "source_next": each.source_next,
                "target_next": each.offsets.target_next,
                "runs": each.offsets.runs,
                "checked_to": each.checked_to,
                "checksum": each.checksum,
            }
            for key, each in sorted(state.partitions.items())
        ],
    }


def _decoded(found: Any) -> MoveState:
    if found["version"] != _VERSION:
        raise ValueError(found["version"])
    return MoveState(
        str(found["source"]),
        str(found["target"]),
        {name: (str(source), str(target)) for name, (source, target) in found["topics"].items()},
        {
            TopicPartition(each["topic"], each["partition"]): CopyProgress(
                int(each["source_next"]),
                OffsetMap(each["runs"], int(each["target_next"])),
                int(each["checked_to"]),
                int(each["checksum"]),
            )
            for each in found["partitions"]
        },
    )
