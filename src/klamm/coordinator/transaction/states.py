"""The states of a transaction and the transitions between them, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import Final


class State(IntEnum):
    """A state by the number that `__transaction_state` has for it."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Its name in Kafka's APIs and tools."""
        return LABELS[self]


LABELS: Final[Mapping[State, str]] = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}

# Two more states of Kafka are never written and have no place here. Dead: an expired id is removed with its
# tombstone. PrepareEpochFence: a fence appends PrepareAbort with the higher epoch in one step.
KNOWN_LABELS: Final = frozenset({*LABELS.values(), "Dead", "PrepareEpochFence"})

IDLE: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})

NEXT_STATES: Final[Mapping[State, AbstractSet[State]]] = {
    State.EMPTY: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.ONGOING: {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT},
    State.PREPARE_COMMIT: {State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
    State.COMPLETE_ABORT: {State.EMPTY, State.ONGOING, State.PREPARE_ABORT},
}

COMPLETIONS: Final[Mapping[State, State]] = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}
