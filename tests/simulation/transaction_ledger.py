"""What transactional clients did and were told, compared in the end with what readers can see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

Place = tuple[str, int]
Source = tuple[str, int, int]  # topic, partition, offset


@dataclass(slots=True)
class Told:
    """One transaction as its client knows it."""

    number: int
    client: str
    written: dict[Place, int] = field(default_factory=dict)  # acknowledged records
    sources: list[Source] = field(default_factory=list)  # the inputs that it consumed
    asked: bool | None = None  # commit or abort; None: the client gave up before it asked
    told: bool | None = None  # the same, acknowledged


@dataclass(slots=True)
class Visible:
    """What the logs hold of one transaction."""

    outcomes: dict[Place, bool | None] = field(default_factory=dict)
    numbers: dict[Place, list[int]] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)


class TransactionLedger:
    """Every transaction that any client began."""

    def __init__(self) -> None:
        self.by_number: dict[int, Told] = {}
        self.consumed_topics: set[str] = set()  # each committed record of these has one committed output
        self._numbers = count()

    def begin(self, client: str) -> Told:
        told = Told(next(self._numbers), client)
        self.by_number[told.number] = told
        return told

    def complaints(self, found: Mapping[int, Visible], inputs: Mapping[str, set[Source]]) -> Iterator[str]:
        """Compare with the logs: `found` by number, `inputs` as committed in the topics that are consumed."""
        produced: Counter[Source] = Counter()
        for number, visible in found.items():
            told = self.by_number[number]
            who = f"transaction {number} of {told.client}"
            ends = set(visible.outcomes.values())
            if len(ends) != 1 or None in ends:
                yield f"{who} ended as {visible.outcomes}"
                continue
            (is_commit,) = ends
            if told.told is not None and told.told is not is_commit:
                yield f"{who}: {told.told} was acknowledged, it is {is_commit}"
            if is_commit and not told.asked:
                yield f"{who} is committed, and nobody asked for it"
            if is_commit:
                yield from self._check_whole(who, told, visible)
                produced.update(visible.sources)
        for number, told in self.by_number.items():
            if told.told and told.written and number not in found:
                yield f"transaction {number} of {told.client} was committed and is not there"
        for topic, sources in inputs.items():
            reflected = Counter({source: n for source, n in produced.items() if source[0] == topic})
            if reflected != Counter(sources):
                twice = [source for source, times in reflected.items() if times > 1]
                lost, strange = sources - reflected.keys(), reflected.keys() - sources
                yield f"of {topic} {sorted(lost)} have no output, {twice} have several, {strange} are strange"

    def _check_whole(self, who: str, told: Told, visible: Visible) -> Iterator[str]:
        for place, written in told.written.items():
            if visible.numbers.get(place, []) != list(range(written)):
                yield f"{who} wrote {written} records to {place}, there are {visible.numbers.get(place)}"
