"""Every table of a log in one pass, as Parquet: the same rows as the source gives table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition

from klamm.records.markers import ControlType
from klamm.spark.audit import parquet
from klamm.spark.audit.schemas import BASE, LATEST_COLUMNS
from klamm.spark.decode.tables import CONSUMER_OFFSETS, TRANSACTION_STATE
from unit.spark.audit.histories import history_of
from unit.spark.audit.passes import a_task, read_from
from unit.spark.decode.logs import COMMIT, GROUP_KEY, KEY, a_group, log_of, rows_in
from unit.spark.decode.test_consumer_tables import CONSUMER_GROUP
from unit.spark.decode.test_decode import EMPTY_V0, ONGOING_V0, TRANSACTION_KEY

OTHER_KEY = KEY[:-1] + b"\x1f"
OFFSETS = log_of(
    [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in CONSUMER_GROUP],
    [(KEY, COMMIT), (OTHER_KEY, COMMIT), (KEY, COMMIT[:-1]), (GROUP_KEY, a_group(3)), (GROUP_KEY, None)],
    ([(KEY, COMMIT)], 11),
    [(OTHER_KEY, None), (None, b"?")],
    (ControlType.COMMIT, 11),
    ([(OTHER_KEY, COMMIT)], 12),
)
TRANSACTIONS = log_of(
    [(TRANSACTION_KEY, ONGOING_V0), (TRANSACTION_KEY, EMPTY_V0), (TRANSACTION_KEY, b"?"), (b"?", b"?")]
)


def written(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str, log: bytes) -> dict[str, Any]:
    """What one task writes that reads this log."""
    read_from(monkeypatch, log)
    (folder / parquet.COUNTS).mkdir()
    for _ in range(2):  # tried again, a task replaces its files
        names = list(parquet._write_task(str(folder), (7, (a_task(source), InputPartition(0)))))
    assert sorted(names) == sorted(str(path.relative_to(folder)) for path in folder.rglob("part-*"))
    return {path.parent.name: pq.read_table(path).to_pylist() for path in folder.rglob("part-*")}


@pytest.mark.parametrize("group_rows", [1, 1 << 18])
def test_all_tables_of_committed_offsets_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group_rows: int
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", group_rows)
    found = written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    commits = rows_in(OFFSETS, "offset_commits")
    committed = next(row for row in commits if row["txn"] == "committed")
    assert found["latest_offsets"] == [{name: committed[name] for name in LATEST_COLUMNS}]
    assert found["commit_history"] == history_of(commits)
    decoded = {name for name, (kind, _) in BASE.items() if kind == CONSUMER_OFFSETS}
    assert decoded <= set(found)
    for table in decoded:
        by_place = sorted(found[table], key=lambda row: row["log_offset"])
        assert by_place == sorted(rows_in(OFFSETS, table), key=lambda row: row["log_offset"]), table


def test_both_tables_of_transactions_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = written(monkeypatch, tmp_path, TRANSACTION_STATE, TRANSACTIONS)
    for name, table in (("transactions", "transactions"), ("undecoded_transactions", "undecoded")):
        assert found[name] == rows_in(TRANSACTIONS, table, TRANSACTION_STATE)


def test_a_task_that_fails_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1)
    broken = OFFSETS + OFFSETS[:-1] + b"!"
    with pytest.raises(Exception, match="checksum mismatch"):
        written(monkeypatch, tmp_path, CONSUMER_OFFSETS, broken)
    assert not list(tmp_path.rglob("part-*"))
    assert not list(tmp_path.rglob(".part-*"))


def test_files_have_sparks_types(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    schema = pq.read_schema(tmp_path / "offset_commits" / "part-00007.parquet")
    assert schema.field("commit_ts").type == pa.timestamp("us", "UTC")
    assert schema.field("group_id").type == pa.string()


def test_a_value_is_required_where_every_row_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    for name in ("offset_commits", "commit_history"):
        schema = pq.read_schema(tmp_path / name / "part-00007.parquet")
        required = {field.name for field in schema if not field.nullable}
        assert {"group_id", "topic", "partition"} <= required
        assert {"commit_ts", "value_version", "prev_offset"}.isdisjoint(required)
        assert all(row[column] is not None for row in found[name] for column in required)


def test_row_groups_can_be_chosen_by_group_and_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    metadata = pq.read_metadata(tmp_path / "offset_commits" / "part-00007.parquet")
    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    has_bounds = {item.path_in_schema for item in columns if item.statistics and item.statistics.has_min_max}
    # A column without a value has no bounds.
    assert has_bounds | {"expire_ts"} == {"group_id", "log_timestamp", "commit_ts", "expire_ts"}
