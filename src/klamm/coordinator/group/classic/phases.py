"""The phases of a group, and the transitions between them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final


class Phase(Enum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"  # no members; kept for its offsets
    PREPARING = "PreparingRebalance"  # collecting JoinGroups
    COMPLETING = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # working
    DEAD = "Dead"  # removed; final


# An enum's member is looked up slowly, and these several times for every request.
EMPTY: Final = Phase.EMPTY
PREPARING: Final = Phase.PREPARING
COMPLETING: Final = Phase.COMPLETING
STABLE: Final = Phase.STABLE
DEAD: Final = Phase.DEAD

NEXT_PHASES: Final[Mapping[Phase, Set[Phase]]] = {
    Phase.EMPTY: {Phase.PREPARING, Phase.DEAD},
    Phase.PREPARING: {Phase.COMPLETING, Phase.EMPTY, Phase.DEAD},
    Phase.COMPLETING: {Phase.STABLE, Phase.PREPARING, Phase.DEAD},
    Phase.STABLE: {Phase.PREPARING, Phase.DEAD},
    Phase.DEAD: {Phase.DEAD},
}
