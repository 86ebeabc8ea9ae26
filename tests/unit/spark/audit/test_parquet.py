"""Every table of a log in one pass, as Parquet: the same rows as the source gives table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition

from klamm.client.ranges import Fetch
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType
from klamm.spark.audit import parquet
from klamm.spark.audit.parquet import LATEST_COLUMNS, schemas
from klamm.spark.decode.tables import CONSUMER_OFFSETS, TRANSACTION_STATE
from klamm.spark.options.options import SourceOptions, source_options
from klamm.spark.read.splitting import OffsetRange
from unit.spark.audit.histories import history_of
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


def written(monkeypatch: pytest.MonkeyPatch, folder: Path, format_name: str, log: bytes) -> dict[str, Any]:
    """What one task writes that reads this log."""

    def read(options: SourceOptions, make: Any, _task: InputPartition) -> Any:
        rows = make(OffsetRange(TopicPartition("__log", 4), 0, 1 << 40), True)
        yield from rows.rows(Fetch(log, 0, 1 << 40, ()))
        yield from rows.rest()

    monkeypatch.setattr(parquet, "read_with", read)
    options = source_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "decode": format_name,
            "table": next(iter(schemas(format_name))),
        },
        is_streaming=False,
    )
    folders = {name: str(folder / name) for name in schemas(format_name)}
    for _ in range(2):  # tried again, a task replaces its files
        parquet._write_task(options, folders, (7, InputPartition(0)))
    return {path.parent.name: pq.read_table(path).to_pylist() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("group_rows", [1, 1 << 18])
def test_all_tables_of_committed_offsets_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group_rows: int
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", group_rows)
    found = written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    latest = found.pop("latest_offsets")
    history = found.pop("commit_history")
    assert history == history_of(rows_in(OFFSETS, "offset_commits"))
    commits = rows_in(OFFSETS, "offset_commits")
    committed = next(row for row in commits if row["txn"] == "committed")
    assert latest == [{name: committed[name] for name in LATEST_COLUMNS}]
    assert set(found) == set(schemas(CONSUMER_OFFSETS)) - {"latest_offsets", "commit_history"}
    for table, rows in found.items():
        by_place = sorted(rows, key=lambda row: row["log_offset"])
        assert by_place == sorted(rows_in(OFFSETS, table), key=lambda row: row["log_offset"]), table


def test_both_tables_of_transactions_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = written(monkeypatch, tmp_path, TRANSACTION_STATE, TRANSACTIONS)
    assert found == {
        name: rows_in(TRANSACTIONS, name, TRANSACTION_STATE) for name in schemas(TRANSACTION_STATE)
    }


def test_a_task_that_fails_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 1)
    broken = OFFSETS + OFFSETS[:-1] + b"!"
    with pytest.raises(Exception, match="checksum mismatch"):
        written(monkeypatch, tmp_path, CONSUMER_OFFSETS, broken)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_files_have_sparks_types(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written(monkeypatch, tmp_path, CONSUMER_OFFSETS, OFFSETS)
    schema = pq.read_schema(tmp_path / "offset_commits" / "part-00007.parquet")
    assert schema.field("commit_ts").type == pa.timestamp("us", "UTC")
    assert schema.field("group_id").type == pa.string()
