"""Typed tables of the coordinators' topics, read as a query reads them: from a broker, by plain objects."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import klamm
from klamm.client.ranges import Fetch
from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType
from klamm.spark.decode.rows import table_rows
from klamm.spark.decode.tables import (
    COLUMNS,
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    table_schema,
)
from klamm.spark.read.batch_reader import gathered
from klamm.spark.read.reading import RangePartition
from klamm.spark.read.splitting import OffsetRange
from unit.spark.decode.logs import COMMIT, GROUP_KEY, KEY, TIME_MS, a_group, log_of, reader_of, rows_in
from unit.spark.world import Query, World

TRANSACTION_KEY = bytes.fromhex("0000000574786e2d41")
ONGOING_V0 = bytes.fromhex(
    "0000 0000000000000fa1 0003 0000ea60 01 00000001 0003 6f7574 00000002 00000000 00000002 "
    "0000018bcfe56803 0000018bcfe56800".replace(" ", "")
)
PREPARE_COMMIT_V1 = bytes.fromhex(
    "0001 0000000000000fa1 0004 0000ea60 02 02 04 6f7574 03 00000000 00000002 00 0000018bcfe56808 "
    "0000018bcfe56800 02 00 08 0000000000000fa1 02 02 0002".replace(" ", "")
)
EMPTY_V0 = bytes.fromhex(
    "0000 0000000000000fa1 0000 0000ea60 00 ffffffff 0000018bcfe56800 ffffffffffffffff".replace(" ", "")
)


def test_a_commit_becomes_a_row_with_its_place_in_the_log() -> None:
    (row,) = rows_in(log_of([(KEY, COMMIT)]), "offset_commits")
    assert row == {
        "log_partition": 4,
        "log_offset": 0,
        "log_timestamp": datetime.fromtimestamp(TIME_MS / 1000, UTC),
        "group_id": "g1",
        "topic": "t",
        "partition": 30,
        "committed_offset": 2130,
        "leader_epoch": 7,
        "metadata": "m",
        "commit_ts": datetime.fromtimestamp(1_538_843_128.354, UTC),
        "expire_ts": None,
        "key_version": 1,
        "value_version": 3,
        "is_tombstone": False,
        "producer_id": -1,
        "producer_epoch": -1,
        "txn": "none",
    }


def test_a_tombstone_has_no_value() -> None:
    kept, gone = rows_in(log_of([(KEY, COMMIT), (KEY, None)]), "offset_commits")
    assert (kept["is_tombstone"], gone["is_tombstone"]) == (False, True)
    assert [gone[name] for name in ("committed_offset", "commit_ts", "metadata", "value_version")] == [
        None
    ] * 4
    (tombstone,) = rows_in(log_of([(KEY, COMMIT), (KEY, None)]), "tombstones")
    assert tombstone["record_type"] == "offset_commit"
    assert (tombstone["group_id"], tombstone["topic"], tombstone["partition"]) == ("g1", "t", 30)
    (group,) = rows_in(log_of([(GROUP_KEY, None)]), "tombstones")
    assert (group["record_type"], group["group_id"], group["topic"]) == ("group_metadata", "g1", None)


def test_markers_tell_how_transactional_commits_ended() -> None:
    log = log_of(
        ([(KEY, COMMIT)], 11),
        [(KEY, COMMIT)],
        ([(KEY, COMMIT)], 12),
        (ControlType.COMMIT, 11),
        ([(KEY, COMMIT)], 13),
        (ControlType.ABORT, 12),
        ([(KEY, COMMIT)], 11),
        (ControlType.ABORT, 99),
    )
    rows = rows_in(log, "offset_commits")
    assert sorted((row["log_offset"], row["producer_id"], row["txn"]) for row in rows) == [
        (0, 11, "committed"),
        (1, -1, "none"),
        (2, 12, "aborted"),
        (4, 13, "open"),
        (6, 11, "open"),
    ]
    assert {row["producer_epoch"] for row in rows} == {3, -1}


def test_a_marker_in_a_later_fetch_decides_over_an_earlier_one() -> None:
    log = log_of(([(KEY, COMMIT)], 11), (ControlType.COMMIT, 11))
    data_bytes = len(log) - 78
    reader = reader_of("offset_commits")
    assert list(reader.rows(Fetch(log[:data_bytes], 0, 1, ()))) == []
    (batch,) = reader.rows(Fetch(log[data_bytes:], 1, 2, ()))
    assert batch.to_pylist()[0]["txn"] == "committed"


def test_registrations_and_members_come_from_one_record(world: World) -> None:
    topic = world.topic(2)
    group = f"{topic}-group"
    with klamm.Consumer(bootstrap_servers=world.bootstrap, group_id=group, client_id="anna") as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(timeout=1)
        consumer.commit({TopicPartition(topic, 0): 3})
        rows = world.rows(decode=CONSUMER_OFFSETS, table="group_registrations")
        (registered,) = (row for row in rows if row["group_id"] == group and row["member_count"])
        members = world.rows(decode=CONSUMER_OFFSETS, table="group_members")
    assert (registered["generation"], registered["protocol_type"]) == (1, "consumer")
    (member,) = (row for row in members if row["group_id"] == group)
    assert (member["client_id"], member["is_leader"], member["generation"]) == ("anna", True, 1)
    assert member["member_id"] == registered["leader"]
    assert member["subscribed_topics"] == [topic]
    assert member["assigned"] == [{"topic": topic, "partition": number} for number in range(2)]
    commits = world.rows(decode=CONSUMER_OFFSETS, table="offset_commits")
    assert (group, topic, 0, 3, "none") in [
        (row["group_id"], row["topic"], row["partition"], row["committed_offset"], row["txn"])
        for row in commits
    ]


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    log = log_of([(GROUP_KEY, a_group(version))])
    (registered,) = rows_in(log, "group_registrations")
    assert (registered["generation"], registered["protocol"], registered["leader"]) == (5, "range", "m-1")
    assert (registered["state_ts"] is None) == (version < 2)
    assert registered["value_version"] == version
    (member,) = rows_in(log, "group_members")
    assert member["instance_id"] == ("static" if version >= 3 else None)
    assert member["rebalance_timeout_ms"] == (60_000 if version >= 1 else 45_000)
    assert member["assigned"] == [{"topic": "t", "partition": 1}]
    assert rows_in(log, "undecoded") == []


def test_what_cannot_be_read_is_counted_and_kept() -> None:
    log = log_of(
        [
            (KEY, COMMIT),
            (KEY, COMMIT[:-1]),
            (b"\x00\x09\x00\x02g1", b"\x00\x00"),
            (b"\x00\x63", b"?"),
            (None, b"?"),
            (GROUP_KEY, b"\x00\x09"),
            (GROUP_KEY, a_group(3)),
        ]
    )
    rows = rows_in(log, "undecoded")
    assert [(row["log_offset"], row["key_version"]) for row in rows] == [
        (1, 1),
        (2, 9),
        (3, 99),
        (4, None),
        (5, 2),
    ]
    assert [row["reason"] for row in rows[:4]] == [
        "unreadable offset commit",
        "share_group_partition_metadata",
        "unknown key version",
        "no key version",
    ]
    assert rows[4]["reason"].startswith("unreadable group_metadata")
    assert len(rows_in(log, "offset_commits")) == 1
    assert len(rows_in(log, "group_registrations")) == 1


@pytest.mark.parametrize(
    ("value", "state", "count", "version", "epoch"),
    [
        (ONGOING_V0, "Ongoing", 2, 0, 3),
        (EMPTY_V0, "Empty", 0, 0, 0),
        (PREPARE_COMMIT_V1, "PrepareCommit", 2, 1, 4),
    ],
)
def test_every_version_of_a_transaction_is_read(
    value: bytes, state: str, count: int, version: int, epoch: int
) -> None:
    log = log_of([(TRANSACTION_KEY, value), (TRANSACTION_KEY, None)])
    row, gone = rows_in(log, "transactions", TRANSACTION_STATE)
    assert (row["transactional_id"], row["producer_id"], row["producer_epoch"]) == ("txn-A", 4001, epoch)
    assert (row["state"], len(row["partitions"]), row["value_version"]) == (state, count, version)
    assert row["timeout_ms"] == 60_000
    assert (row["start_ts"] is None) == (state == "Empty")
    assert row["previous_producer_id"] == (4001 if version else -1)
    assert row["client_transaction_version"] == (2 if version else 0)
    assert (gone["is_tombstone"], gone["state"]) == (True, None)
    assert rows_in(log, "undecoded", TRANSACTION_STATE) == []


def test_every_table_can_be_projected() -> None:
    log = log_of([(KEY, COMMIT), (GROUP_KEY, a_group(3))])
    for format_name, tables in COLUMNS.items():
        for table in tables:
            whole = table_schema(format_name, table)
            for field in whole.fields:
                chosen = type(whole)([field])
                reader = table_rows(
                    chosen,
                    OffsetRange(TopicPartition("__log", 0), 0, 9),
                    check_crcs=True,
                    format_name=format_name,
                    table=table,
                )
                for batch in reader.rows(Fetch(log, 0, 9, ())):
                    assert isinstance(batch, pa.RecordBatch)
                    assert batch.schema.names == [field.name]


def test_a_stream_of_commits_goes_on_where_it_was(world: World) -> None:
    topic = world.topic()
    group = f"{topic}-group"
    world.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 4}).unwrap()  # makes the topic
    query = Query(world.stream(decode=CONSUMER_OFFSETS, table="offset_commits"))
    world.admin.alter_group_offsets(group, {TopicPartition(topic, 0): 5}).unwrap()
    rows = query.next()
    assert rows is not None
    assert [row["committed_offset"] for row in rows if row["group_id"] == group] == [5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decode": "avro"}, "consumer_offsets or transaction_state"),
        ({"decode": "consumer_offsets"}, "needs option table: one of offset_commits"),
        ({"decode": "consumer_offsets", "table": "lag"}, "has the tables offset_commits"),
        ({"table": "lag"}, "table needs option decode"),
        (
            {"decode": "consumer_offsets", "table": "offset_commits", "minPartitions": "9"},
            "each partition is one task",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(world: World, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        world.batch(**options)


def test_the_only_table_of_a_format_needs_no_name(world: World) -> None:
    assert "transactional_id" in world.source(decode=TRANSACTION_STATE).schema().fieldNames()


def test_many_small_partitions_share_a_few_tasks() -> None:
    sizes = [1000, *range(1, 50)]
    ranges = [
        RangePartition(OffsetRange(TopicPartition("__log", number), 0, size))
        for number, size in enumerate(sizes)
    ]
    tasks = gathered(ranges, 16)
    assert len(tasks) == 16
    assert sorted(item.offsets for task in tasks for item in task.ranges) == [item.offsets for item in ranges]
    loads = sorted(sum(item.offsets.size for item in task.ranges) for task in tasks)
    assert loads[-1] == 1000  # the largest is alone
    assert loads[-2] - loads[0] <= 49
    assert [item.ranges for item in gathered(list(reversed(ranges)), 16)] == [item.ranges for item in tasks]
    assert gathered([], 16) == []
