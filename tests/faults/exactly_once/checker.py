"""Reads all journals and the topics as they are in the end, and says which promises were broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Line: TypeAlias = Mapping[str, Any]


class Position(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


Topic: TypeAlias = Mapping[Position, str]  # everything that is visible under read_committed


@dataclass(slots=True)
class Transaction:
    """What the journals say of one transaction; several processes may have worked on it."""

    values: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    outcome: str | None = None  # acknowledged, or decided

    @property
    def may_be_visible(self) -> bool:
        return self.outcome == "commit" if self.outcome else "commit" in self.asked


@dataclass(slots=True)
class Counts:
    """What was checked: a run in which nothing happened proves nothing."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0  # no acknowledgement came; half of them may be either
    unknown_committed: int = 0
    copied: int = 0
    seen: int = 0


@dataclass(slots=True)
class Verdict:
    """Promises that were broken, in words."""

    complaints: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)


class CopyJob(NamedTuple):
    """A consume-transform-produce group: it copies records from one topic to another, value by value."""

    source: Topic
    target: Topic
    committed: Mapping[int, int]  # offsets of its group, by partition of the source


def transactions_in(journals: Iterable[Iterable[Line]]) -> dict[str, Transaction]:
    """All transactions, from all journals. Raises ValueError when two acknowledgements contradict."""
    found: dict[str, Transaction] = {}
    for journal in journals:
        for line in journal:
            if "txn" not in line:
                continue
            transaction = found.setdefault(line["txn"], Transaction())
            transaction.values.update(line.get("sends", ()))
            if "ends" in line:
                transaction.asked.add(line["ends"])
            outcome = line.get("ended") or line.get("decided")
            if outcome:
                if transaction.outcome not in (None, outcome):
                    raise ValueError(f"{line['txn']}: {transaction.outcome} and {outcome} were acknowledged")
                transaction.outcome = outcome
    return found


def check_transactions(transactions: Mapping[str, Transaction], topics: Sequence[Topic]) -> Verdict:
    """Each transaction is visible wholly or not at all, as its worker was told; nothing is there twice."""
    verdict = Verdict()
    occurrences = Counter(value for topic in topics for value in topic.values())
    verdict.complaints += [f"{value} is visible {n} times" for value, n in occurrences.items() if n > 1]
    counts = verdict.counts
    known: set[str] = set()
    for name, transaction in transactions.items():
        known |= transaction.values
        visible = {value for value in transaction.values if value in occurrences}
        if visible and not transaction.may_be_visible:
            verdict.complaints.append(f"{name} was not committed, and {sorted(visible)[:3]} are visible")
        elif visible and visible != transaction.values:
            missing = sorted(transaction.values - visible)[:3]
            verdict.complaints.append(f"{name} is visible in part: {missing} are missing")
        elif transaction.outcome == "commit" and transaction.values and not visible:
            verdict.complaints.append(f"{name} was committed, and nothing of it is visible")
        if transaction.outcome == "commit":
            counts.committed += 1
        elif transaction.outcome == "abort" or "commit" not in transaction.asked:
            counts.aborted += 1
        else:
            counts.unknown += 1
            counts.unknown_committed += bool(visible)
    strangers = sorted(occurrences.keys() - known)[:3]
    if strangers:
        verdict.complaints.append(f"{strangers} are visible, and no worker sent them")
    return verdict


def check_copies(job: CopyJob, counts: Counts) -> list[str]:
    """The offsets moved if and only if the copies were committed: below them all is copied, above nothing."""
    due = {
        value for position, value in job.source.items() if position.offset < job.committed.get(position[0], 0)
    }
    copied = set(job.target.values())
    counts.copied += len(copied)
    complaints = [
        f"{value} is copied {n} times" for value, n in Counter(job.target.values()).items() if n > 1
    ]
    if due - copied:
        complaints.append(f"offsets moved past {sorted(due - copied)[:3]}, which are not copied")
    if copied - due:
        complaints.append(f"{sorted(copied - due)[:3]} are copied, and the offsets did not move past them")
    return complaints


def check_reader(journal: Iterable[Line], topic: Topic, counts: Counts) -> list[str]:
    """A reader saw what is visible in the end, all of it up to where it stopped, each record once."""
    complaints = []
    seen: dict[Position, str] = {}
    for line in journal:
        for partition, offset, value in line.get("seen", ()):
            position = Position(partition, offset)
            if position in seen:
                complaints.append(f"{position} was delivered twice")
            seen[position] = value
    counts.seen += len(seen)
    ends = {position.partition: 0 for position in seen}
    for position, value in seen.items():
        ends[position.partition] = max(ends[position.partition], position.offset)
        if topic.get(position) != value:
            complaints.append(f"{value} was delivered from {position}, where {topic.get(position)} is")
    skipped = [
        position
        for position in topic
        if position not in seen and position.offset <= ends.get(position.partition, -1)
    ]
    if skipped:
        complaints.append(f"{len(skipped)} records were skipped, the first at {min(skipped)}")
    return complaints
