"""The checker finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from faults.exactly_once.checker import (
    CopyJob,
    Counts,
    Position,
    Topic,
    check_copies,
    check_reader,
    check_transactions,
    transactions_in,
)


def a_topic(*values: str) -> Topic:
    return {Position(0, 2 * number): value for number, value in enumerate(values)}


def a_journal(how: str, *, ends: str | None = "commit", ended: str | None = None) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"note": how}, {"txn": "t", "sends": ["a"]}, {"txn": "t", "sends": ["b"]}]
    if ends:
        lines.append({"txn": "t", "ends": ends})
    if ended:
        lines.append({"txn": "t", "ended": ended})
    return lines


@pytest.mark.parametrize(
    ("journal", "visible", "complaint"),
    [
        (a_journal("committed", ended="commit"), "ab", None),
        (a_journal("committed, and lost", ended="commit"), "", "nothing of it is visible"),
        (a_journal("committed, half lost", ended="commit"), "a", "in part: ['b']"),
        (a_journal("committed, twice", ended="commit"), "abb", "b is visible 2 times"),
        (a_journal("aborted", ends="abort", ended="abort"), "", None),
        (a_journal("aborted, and visible", ends="abort", ended="abort"), "ab", "was not committed"),
        (a_journal("the abort was not acknowledged", ends="abort"), "ab", "was not committed"),
        (a_journal("a commit that ended in an abort", ended="abort"), "ab", "was not committed"),
        (a_journal("killed before the end", ends=None), "ab", "was not committed"),
        (a_journal("killed during the commit"), "ab", None),
        (a_journal("killed during the commit"), "", None),
        (a_journal("killed during the commit"), "b", "in part: ['a']"),
        (a_journal("a record from nowhere", ended="commit"), "abc", "no worker sent them"),
    ],
    ids=lambda value: value[0]["note"] if isinstance(value, list) else None,
)
def test_transactions_are_visible_as_the_journals_say(
    journal: list[dict[str, Any]], visible: str, complaint: str | None
) -> None:
    complaints = check_transactions(transactions_in([journal]), [a_topic(*visible)]).complaints
    if complaint is None:
        assert complaints == []
    else:
        assert complaint in complaints[0]


def test_two_workers_that_were_told_different_things_are_found_out() -> None:
    with pytest.raises(ValueError, match="commit and abort were acknowledged"):
        transactions_in([a_journal("one", ended="commit"), a_journal("two", ended="abort")])


@pytest.mark.parametrize(
    ("committed", "copies", "complaint"),
    [
        (4, "ab", None),
        (5, "abc", None),
        (4, "abc", "did not move past them"),
        (5, "ab", "['c'], which are not copied"),
        (4, "abb", "b is copied 2 times"),
        (0, "", None),
    ],
)
def test_offsets_move_with_the_copies(committed: int, copies: str, complaint: str | None) -> None:
    job = CopyJob(a_topic(*"abc"), a_topic(*copies), {0: committed})
    complaints = check_copies(job, Counts())
    assert (complaint is None) == (not complaints)
    if complaint is not None:
        assert complaint in complaints[0]


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        ([[0, 0, "a"], [0, 2, "b"]], None),
        ([[0, 0, "a"], [0, 4, "c"]], "1 records were skipped"),
        ([[0, 0, "a"], [0, 1, "x"]], "x was delivered from"),
        ([[0, 0, "a"], [0, 0, "a"]], "was delivered twice"),
    ],
)
def test_readers_see_what_is_there(seen: list[list[Any]], complaint: str | None) -> None:
    complaints = check_reader([{"seen": seen}], a_topic(*"abc"), Counts())
    assert (complaint is None) == (not complaints)
    if complaint is not None:
        assert complaint in complaints[0]
