"""Tables of groups with the consumer protocol, and all tables but offset commits in one scan."""

from __future__ import annotations

import pytest

from klamm.spark.decode.tables import (
    OTHER_TABLES,
    OTHERS,
)
from unit.spark.decode.logs import COMMIT, GROUP_KEY, KEY, Pair, a_group, log_of, rows_in

TOPIC_ID = "11111111111111112222222222222222"
TOPIC_ID_TEXT = "EREREREREREiIiIiIiIiIg"
# As Apache Kafka 4.3.1 wrote them, for group g1 and member m1.
CONSUMER_GROUP = [
    ("000300026731", "0000 00000002 01 00 08 daeeef0acf8b4ef1"),
    (
        "0005000267310002 6d31",
        "0000 00 00 0263 0b2f3132372e302e302e31 02 0274 01 000493e0 08756e69666f726d 00",
    ),
    ("000600026731", "0000 00000002 00"),
    ("00070002673100026d31", f"0000 02 {TOPIC_ID} 04 000000000000000100000002 00 00"),
    (
        "00080002673100026d31",
        f"0000 00000002 00000001 00 02 {TOPIC_ID} 04 000000000000000100000002 "
        "01 00 0d 04 000000010000000100000002 01 00",
    ),
    (
        "00080002673100026d31",
        f"0000 00000001 00000001 01 02 {TOPIC_ID} 03 0000000000000001 00 02 {TOPIC_ID} 02 00000002 00 00",
    ),
    ("0010000267310003742e2a", "0000 03 0274 037432 000000000000004d 000001664a32b222 00"),
]


def consumer_log(*, tombstones: bool = False) -> bytes:
    pairs: list[Pair] = [
        (bytes.fromhex(key), None if tombstones else bytes.fromhex(value)) for key, value in CONSUMER_GROUP
    ]
    return log_of([(KEY, COMMIT), *pairs])


def test_records_of_the_consumer_protocol_have_tables() -> None:
    log = consumer_log()
    groups = rows_in(log, "consumer_groups")
    assert [(row["group_id"], row["kind"], row["epoch"]) for row in groups] == [
        ("g1", "group", 2),
        ("g1", "target", 2),
    ]
    (member,) = rows_in(log, "consumer_members")
    assert (member["member_id"], member["client_id"], member["client_host"]) == ("m1", "c", "/127.0.0.1")
    assert (member["subscribed_topics"], member["subscribed_regex"]) == (["t"], None)
    assert (member["rebalance_timeout_ms"], member["server_assignor"]) == (300_000, "uniform")
    assert member["is_classic"] is False
    target, current, revoking = rows_in(log, "consumer_assignments")
    assert (target["kind"], target["member_epoch"]) == ("target", None)
    whole = [{"topic_id": TOPIC_ID_TEXT, "partition": number} for number in range(3)]
    assert target["assigned"] == current["assigned"] == whole
    assert (current["kind"], current["member_epoch"], current["previous_epoch"]) == ("current", 2, 1)
    assert (current["state"], current["pending_revocation"]) == ("STABLE", [])
    assert (revoking["state"], revoking["pending_revocation"]) == ("UNREVOKED_PARTITIONS", whole[2:])
    (regex,) = rows_in(log, "consumer_regexes")
    assert (regex["regex"], regex["topics"], regex["metadata_version"]) == ("t.*", ["t", "t2"], 77)
    assert rows_in(log, "undecoded") == []


def test_tombstones_of_the_consumer_protocol_have_nulls() -> None:
    log = consumer_log(tombstones=True)
    for table in ("consumer_groups", "consumer_members", "consumer_assignments", "consumer_regexes"):
        rows = rows_in(log, table)
        assert rows, table
        assert all(row["is_tombstone"] for row in rows)
    assert [row["key_version"] for row in rows_in(log, "tombstones")] == [3, 5, 6, 7, 8, 8, 16]
    assert rows_in(log, "undecoded") == []


def test_a_member_that_speaks_the_classic_protocol_is_marked() -> None:
    value = (
        "0000 00 00 0263 0b2f3132372e302e302e31 02 0274 01 000493e0 00 "
        "01 00 0f 01 00002710 02 0672616e6765 01 00 00"
    )
    (member,) = rows_in(
        log_of([(bytes.fromhex("00050002673100026d31"), bytes.fromhex(value))]), "consumer_members"
    )
    assert member["is_classic"] is True
    assert member["server_assignor"] is None


@pytest.mark.parametrize("number", range(len(CONSUMER_GROUP)))
def test_a_damaged_record_of_the_consumer_protocol_is_kept_as_undecoded(number: int) -> None:
    key, value = (bytes.fromhex(part) for part in CONSUMER_GROUP[number])
    (row,) = rows_in(log_of([(key, value[:-1])]), "undecoded")
    assert row["reason"].startswith("unreadable consumer_group")
    (newer,) = rows_in(log_of([(key, b"\x00\x01" + value[2:])]), "undecoded")
    assert "value of version 1" in newer["reason"]


@pytest.mark.parametrize(
    ("version", "name"),
    [(4, "consumer_group_partition_metadata"), (11, "share_group_metadata"), (17, "streams_group_metadata")],
)
def test_types_without_a_table_are_named(version: int, name: str) -> None:
    log = log_of([(version.to_bytes(2) + b"\x00\x02g1", b"\x00\x00"), (KEY, COMMIT)])
    (row,) = rows_in(log, "undecoded")
    assert (row["key_version"], row["reason"]) == (version, name)


def test_one_scan_gives_all_tables_without_offset_commits() -> None:
    log = log_of(
        [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in CONSUMER_GROUP],
        [(KEY, COMMIT), (KEY, COMMIT[:-1]), (GROUP_KEY, a_group(3)), (GROUP_KEY, None), (None, b"?")],
    )
    others = rows_in(log, OTHERS)
    place = ("log_partition", "log_offset", "log_timestamp")
    for table in OTHER_TABLES:
        found = [{name: row[name] for name in place} | item for row in others for item in row[table] or ()]
        assert found == [
            row for row in rows_in(log, table) if row.get("key_version") != 1 or row.get("reason")
        ]
        assert found, table
