"""Decisions that raise: which kind, and what was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.coordinator.transaction.state import TransactionOutcome


@dataclass
class Faults:
    """Makes decisions of one kind raise: the first one, or all."""

    kind: type | None = None
    is_lasting: bool = False
    raised: int = 0
    last: object = None  # what was to be decided when it raised
    is_decided_again: bool = False
    decided: Counter[type] = field(default_factory=Counter)

    def check(self, request: object) -> None:
        if type(request) is self.kind and (self.is_lasting or not self.raised):
            self.raised += 1
            self.last = request
            raise AssertionError("we broke our own promise")
        self.decided[type(request)] += 1
        if type(request) is type(self.last) and request == self.last:
            self.is_decided_again = True

    def heal(self) -> None:
        self.kind = None

    def groups(self) -> Callable[..., GroupMachine]:
        return partial(_FaultyGroups, self)

    def transactions(self) -> Callable[..., TransactionMachine]:
        return partial(_FaultyTransactions, self)


class _FaultyGroups(GroupMachine):
    def __init__(self, faults: Faults, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.faults = faults

    def decide(self, request: object, context: Context) -> GroupOutcome:
        self.faults.check(request)
        return super().decide(request, context)


class _FaultyTransactions(TransactionMachine):
    def __init__(self, faults: Faults, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.faults = faults

    def decide(self, request: object, context: Context) -> TransactionOutcome:
        self.faults.check(request)
        return super().decide(request, context)
