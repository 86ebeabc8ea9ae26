"""The consumer's identity in its group, and the state of its membership."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

UNKNOWN_GENERATION: Final = -1
UNKNOWN_MEMBER: Final = ""


class MemberState(Enum):
    """How far a member is in joining."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"  # JoinGroup was sent
    COMPLETING = "completing"  # and answered; SyncGroup was sent
    STABLE = "stable"  # and answered


class Generation(NamedTuple):
    """What every request of a member carries."""

    generation_id: int = UNKNOWN_GENERATION
    member_id: str = UNKNOWN_MEMBER
    protocol_name: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether it identifies a member."""
        return self.generation_id != UNKNOWN_GENERATION and self.member_id != UNKNOWN_MEMBER


NO_GENERATION: Final = Generation()
