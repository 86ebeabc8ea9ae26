"""An offset with what is committed beside it: the same class in consumers, producers, admins and stores."""

from __future__ import annotations

from typing import NamedTuple, Self, TypeAlias


class _Fields(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Committed(_Fields):
    """What is committed for a partition: the next record to read.

    Also written `Committed(3, "note")` or `OffsetAndMetadata(3, "note", 7)`, as other clients have it.
    """

    __slots__ = ()

    def __new__(cls, offset: int, leader_epoch: int | str = -1, metadata: str | int = "") -> Self:
        if isinstance(leader_epoch, str):
            leader_epoch, metadata = -1 if metadata == "" else metadata, leader_epoch
        return super().__new__(cls, offset, leader_epoch, metadata)  # type: ignore[arg-type]  # checked later


OffsetAndMetadata: TypeAlias = Committed
CommittedOffset: TypeAlias = Committed
