"""Commit history over many fetches: equal to the reference, whatever is open in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.records.markers import ControlType
from klamm.spark.audit import history
from klamm.spark.audit.schemas import COMMIT_HISTORY, LATEST_COLUMNS, LATEST_OFFSETS
from unit.spark.audit.histories import Row, history_of
from unit.spark.audit.passes import in_one_pass
from unit.spark.decode.logs import log_of, rows_in

Step = tuple[str, int, int, int, str]


def a_key(topic: str, partition: int) -> bytes:
    return b"\x00\x01\x00\x02g1\x00\x01" + topic.encode() + partition.to_bytes(4)


def a_commit(offset: int, at_ms: int) -> bytes:
    return b"\x00\x03" + offset.to_bytes(8) + b"\xff\xff\xff\xff\x00\x00" + at_ms.to_bytes(8, signed=True)


def by_key(rows: list[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found


def in_fetches(log: bytes, table: str = COMMIT_HISTORY) -> list[Row]:
    """A table of a log that comes batch by batch."""
    return in_one_pass(log).get(table, [])


def latest_of(rows: list[Row]) -> list[Row]:
    last: dict[tuple[str, int], Row] = {}
    for row in sorted(rows, key=lambda each: each["log_offset"]):
        if row["txn"] in ("none", "committed"):
            last[row["topic"], row["partition"]] = row
    return [{name: row[name] for name in LATEST_COLUMNS} for row in last.values() if not row["is_tombstone"]]


@pytest.mark.parametrize("held_rows", [1, 3, 1 << 18])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 2),
            st.integers(0, 9),
            st.sampled_from([-1, 1_000, 2_000]),
            st.sampled_from(["now", "removed", "begin", "commit", "abort"]),
        ),
        max_size=30,
    )
)
def test_commits_that_come_in_many_fetches_have_the_history_of_the_whole_log(
    held_rows: int, steps: list[Step]
) -> None:
    parts: list[Any] = []
    for topic, partition, offset, at_ms, how in steps:
        pair = (a_key(topic, partition), a_commit(offset, at_ms))
        match how:
            case "now":
                parts.append([pair])
            case "removed":
                parts.append([(pair[0], None)])
            case "begin":
                parts.append(([pair], 100 + partition))
            case _:
                parts.append((ControlType.COMMIT if how == "commit" else ControlType.ABORT, 100 + partition))
    log = log_of(*parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "HELD_ROWS", held_rows)
        commits = rows_in(log, "offset_commits")
        assert by_key(in_fetches(log)) == by_key(history_of(commits))
        assert by_key(in_fetches(log, LATEST_OFFSETS)) == by_key(latest_of(commits))


def test_a_commit_waits_for_a_transaction_that_is_open_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HELD_ROWS", 1)
    log = log_of(
        ([(a_key("a", 0), a_commit(1, 1_000))], 11),
        [(a_key("a", 0), a_commit(2, 2_000))],
        (ControlType.COMMIT, 11),
    )
    assert [(row["prev_offset"], row["committed_offset"]) for row in in_fetches(log)] == [(None, 1), (1, 2)]
