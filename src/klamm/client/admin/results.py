"""What an operation over several items returns: a value for each item, or the error that it met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from klamm.errors import KlammError

K = TypeVar("K")
T = TypeVar("T")
_LISTED_FAILURES = 10


class Results(Mapping[K, T]):
    """A mapping from each item to its value; reading an item that failed raises its error.

    `errors` and `successes` have the two kinds apart. `in`, `len` and iteration cover all items.
    """

    __slots__ = ("_outcomes",)

    def __init__(
        self, outcomes: Mapping[K, T | KlammError] | Iterable[tuple[K, T | KlammError]] = ()
    ) -> None:
        self._outcomes: dict[K, T | KlammError] = dict(outcomes)

    def __getitem__(self, item: object) -> T:
        # Any object: a plain tuple finds a TopicPartition, and the word "topic" finds Resource.TOPIC.
        outcome = self._outcomes[item]  # type: ignore[index]
        if isinstance(outcome, KlammError):
            raise outcome
        return outcome

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __contains__(self, item: object) -> bool:
        return item in self._outcomes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Results):
            return self._outcomes == other._outcomes
        return self._outcomes == other

    __hash__ = None  # type: ignore[assignment]  # as dict: compared by value

    def __repr__(self) -> str:
        return f"Results({self._outcomes!r})"

    @property
    def errors(self) -> dict[K, KlammError]:
        """The items that failed, with their errors."""
        return {item: value for item, value in self._outcomes.items() if isinstance(value, KlammError)}

    @property
    def successes(self) -> dict[K, T]:
        """The items that did not fail, with their values."""
        return {item: value for item, value in self._outcomes.items() if not isinstance(value, KlammError)}

    def unwrap(self) -> dict[K, T]:
        """All values as a dictionary; raises the first error if an item failed."""
        failed = list(self.errors.values())
        if failed:
            first = failed[0]
            if first.results is None:  # a second call raises the same error: do not repeat the note
                first.results = self
                if len(failed) > 1:
                    first.add_note(_note(failed[1:], len(self)))
            raise first
        return self.successes


def _note(others: list[KlammError], total: int) -> str:
    listed = "; ".join(map(str, others[:_LISTED_FAILURES]))
    more = f"; and {len(others) - _LISTED_FAILURES} more" if len(others) > _LISTED_FAILURES else ""
    return f"{len(others) + 1} of {total} items failed; the others: {listed}{more}"


AnyResults = Results[Any, Any]
