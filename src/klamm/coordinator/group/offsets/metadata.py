"""The metadata that a client may commit beside an offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.records.core import TopicCommits
from klamm.records.layout import AskedPartition


def screen_metadata(
    asked: Iterable[AskedPartition], max_units: int
) -> tuple[TopicCommits, Sequence[bool] | None]:
    """The commits of one topic whose metadata is accepted, and which of all are rejected, if any is.

    `asked` is iterated several times.
    """
    # They do not change: those that come from the wire need no copy.
    commits = asked if isinstance(asked, TopicCommits) else TopicCommits(asked)
    if commits.has_metadata:
        refused = [is_too_long(each.committed_metadata or "", max_units) for each in asked]
        if any(refused):
            kept = [each for each, is_refused in zip(asked, refused, strict=True) if not is_refused]
            return TopicCommits(kept), refused
    return commits, None


def is_too_long(text: str, max_units: int) -> bool:
    """By the length that Java sees: the limit counts UTF-16 units, not characters and not bytes."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
    return units > max_units
