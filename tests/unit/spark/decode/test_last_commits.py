"""The last commit of each key: what is left of a log before Spark sees it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from klamm.client.ranges import Fetch
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType
from klamm.spark.decode import rows
from klamm.spark.decode.rows import table_rows
from klamm.spark.decode.tables import (
    CONSUMER_OFFSETS,
    table_schema,
)
from klamm.spark.read.splitting import OffsetRange
from unit.spark.decode.logs import COMMIT, KEY, log_of, rows_in


def test_last_commits_leave_out_what_a_later_one_replaces() -> None:
    other = KEY[:-1] + b"\x1f"
    log = log_of(
        ([(KEY, COMMIT)], 11),
        [(KEY, COMMIT), (other, COMMIT), (other, None), (KEY, COMMIT)],
        ([(other, COMMIT)], 12),
        (ControlType.COMMIT, 11),
        (ControlType.ABORT, 12),
        ([(KEY, COMMIT)], 13),
    )
    rows = rows_in(log, "last_commits")
    assert [(row["log_offset"], row["partition"], row["is_tombstone"]) for row in rows] == [
        (3, 31, True),
        (4, 30, False),
    ]
    assert rows[1] == next(row for row in rows_in(log, "offset_commits") if row["log_offset"] == 4)
    assert rows_in(log_of(([(KEY, COMMIT)], 13)), "last_commits") == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(["now", "commit", "abort", "open"])
        ),
        max_size=30,
    )
)
def test_last_commits_give_the_same_latest_offsets_as_all_commits(
    steps: list[tuple[str, int, str]],
) -> None:
    parts: list[Any] = []
    for number, (topic, partition, how) in enumerate(steps):
        key = b"\x00\x01\x00\x02g1\x00\x01" + topic.encode() + partition.to_bytes(4)
        if how == "now":
            parts.append([(key, COMMIT)])
            continue
        parts.append(([(key, COMMIT)], 100 + number))
        if how != "open":
            parts.append((ControlType.COMMIT if how == "commit" else ControlType.ABORT, 100 + number))

    def latest(table: str) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for row in rows_in(log_of(*parts), table):
            assert table != "last_commits" or (row["topic"], row["partition"]) not in found
            if row["txn"] in ("none", "committed"):
                key = row["topic"], row["partition"]
                found[key] = max(found.get(key, -1), row["log_offset"])
        return found

    assert latest("last_commits") == latest("offset_commits")


def test_the_last_commit_of_a_range_is_found_over_many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_TARGET_RECORDS", 3)
    monkeypatch.setattr(rows, "MAX_ROWS", 4)
    log = log_of(*[[(KEY[:-1] + bytes([number % 7]), COMMIT)] for number in range(40)])
    schema = table_schema(CONSUMER_OFFSETS, "last_commits")
    narrow = StructType([schema["log_offset"]])  # the key need not be among the columns
    for chosen in (schema, narrow):
        wanted = OffsetRange(TopicPartition("__log", 4), 0, 40)
        reader = table_rows(
            chosen, wanted, check_crcs=True, format_name=CONSUMER_OFFSETS, table="last_commits"
        )
        size = len(log) // 40
        for place in range(40):
            fetch = Fetch(log[place * size : (place + 1) * size], place, place + 1, ())
            assert list(reader.rows(fetch)) == []
        batches = list(reader.rest())
        assert [batch.num_rows for batch in batches] == [4, 3]
        assert [row["log_offset"] for batch in batches for row in batch.to_pylist()] == list(range(33, 40))
        assert list(reader.rest()) == []
