"""What a rule has found: a verdict with its evidence, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class GroupVerdict(StrEnum):
    """What is wrong, in the order in which the rules are applied."""

    NOBODY_READS = "nobody reads"
    REBALANCING = "rebalance under way"
    STORM = "rebalances again and again"
    NO_OWNER = "partitions without owner"
    OUT_OF_RANGE = "offset out of range"
    OPEN_TRANSACTION = "held back by an open transaction"
    REDELIVERED = "same offset delivered again"
    OWNER_SILENT = "owner does not commit"
    WENT_BACK = "went backwards"
    TOO_SLOW = "slower than the producer"
    OFFSETS_EXPIRE = "offsets about to expire"
    NOT_KNOWN = "lag not known"
    CATCHING_UP = "catching up"
    WELL = "all is well"


FINE: Final = frozenset({GroupVerdict.CATCHING_UP, GroupVerdict.WELL})


class Certainty(StrEnum):
    """Whether the cluster states it, or it follows from what the cluster states."""

    EXACT = "exact"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement."""

    text: str
    certainty: Certainty


def exact(text: str) -> Evidence:
    return Evidence(text, Certainty.EXACT)


def inferred(text: str) -> Evidence:
    return Evidence(text, Certainty.INFERRED)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that applies to a group."""

    verdict: GroupVerdict
    summary: str
    evidence: Sequence[Evidence] = ()
    next_steps: Sequence[str] = ()  # what to do; commands in `...`

    @property
    def is_problem(self) -> bool:
        return self.verdict not in FINE

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "summary": self.summary,
            "evidence": [{"text": each.text, "certainty": each.certainty.value} for each in self.evidence],
            "next_steps": list(self.next_steps),
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A group's findings; the first one is the verdict."""

    group_id: str
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Finding:
        return self.findings[0]

    @property
    def is_well(self) -> bool:
        return not self.verdict.is_problem

    def as_json(self) -> dict[str, Any]:
        first, *others = self.findings
        return {
            "group": self.group_id,
            "is_well": self.is_well,
            **first.as_json(),
            "other_findings": [each.as_json() for each in others],
        }
