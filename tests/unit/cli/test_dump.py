"""`klamm dump`: every kind of file, as text and as JSON, also where it stops making sense."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.dump import app
from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    CurrentValue,
    EpochValue,
    MemberValue,
    RegexValue,
    TargetEpochValue,
)
from klamm.coordinator.group.records import encode_records as encode_group_records
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    RegisteredMember,
)
from klamm.coordinator.transaction.records import encode_records as encode_transaction_records
from klamm.coordinator.transaction.remembered import TransactionForgotten, TransactionStored
from klamm.coordinator.transaction.states import State
from klamm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.types import ZERO_ID, TopicPartition, id_to_text
from klamm.records.batch import parse_header
from klamm.records.compression import Codec
from klamm.records.layout import OffsetCommitValue, Record
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import encode_batch
from klamm.storage.engines.segments.checkpoints import MetaProperties, encode_meta, encode_partition_metadata
from klamm.storage.engines.segments.journal_format import Entry, encode_frame
from klamm.storage.engines.segments.txn_index import AbortedEntry, encode_entries
from klamm.storage.producer_snapshot import encode_snapshot
from klamm.storage.producer_state import BatchSummary, ProducerEntry

STEM = "00000000000000000100"
TIME_MS = 1_700_000_000_000


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def facts(*arguments: str | Path) -> list[dict[str, Any]]:
    result = dump("--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [
        Record(100, TIME_MS, b"key", "wörter".encode(), (("h", b"1"), ("none", None))),
        Record(101, TIME_MS + 5, None, b"\xff\x00"),
    ]
    data = encode_batch(records, codec=Codec.GZIP, base_offset=100, leader_epoch=3)
    data += encode_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=1,
        coordinator_epoch=2,
        timestamp_ms=TIME_MS,
        base_offset=102,
        leader_epoch=3,
    )
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(data)
    return path


def test_a_segment_shows_its_batches(log: Path) -> None:
    data, marker = facts(log)
    assert (data["base_offset"], data["last_offset"], data["record_count"]) == (100, 101, 2)
    assert (data["codec"], data["leader_epoch"], data["max_timestamp_ms"]) == ("gzip", 3, TIME_MS + 5)
    assert (marker["position"], marker["is_control"], marker["marker"]) == (
        data["size_bytes"],
        True,
        "commit",
    )
    assert "records" not in data
    assert {each["file"] for each in (data, marker)} == {str(log)}


def test_records_show_text_as_text_and_bytes_as_base64(log: Path) -> None:
    first, second = facts("--records", log)[0]["records"]
    assert (first["offset"], first["key"], first["value"]) == (100, "key", "wörter")
    assert first["headers"] == [{"name": "h", "value": "1"}, {"name": "none", "value": None}]
    assert (second["key"], second["value_base64"]) == (None, "/wA=")


def test_people_get_lines(log: Path) -> None:
    result = dump("--records", log)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("offsets 100-101  2 record(s)")
    assert "create_time 2023-11-14T22:13:20.005Z  gzip" in lines[0]
    assert '    100  2023-11-14T22:13:20.000Z  key "key"  value "wörter"' in lines[1]
    assert lines[3].endswith("producer 7 epoch 1  transactional  control commit coordinator epoch 2")


def test_a_torn_tail_shows_what_is_whole_and_fails(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-5])
    result = dump(log)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert str(log) in result.stderr


def test_a_bad_checksum_is_told_with_its_position(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    result = dump(log)
    assert result.exit_code == 1
    assert "checksum" in result.stderr


def test_indexes_show_absolute_offsets(tmp_path: Path) -> None:
    index, times = tmp_path / f"{STEM}.index", tmp_path / f"{STEM}.timeindex"
    index.write_bytes(bytes.fromhex("00000008000013880000000a00002904"))
    times.write_bytes(bytes.fromhex("0000018bcfe56bed000000040000018bcfe56fd500000009"))
    aborted = tmp_path / f"{STEM}.txnindex"
    aborted.write_bytes(encode_entries([AbortedEntry(7, 100, 105, 106)]))
    assert [(each["last_offset"], each["position"]) for each in facts(index)] == [(108, 5000), (110, 10500)]
    assert [(each["timestamp_ms"] - TIME_MS, each["offset"]) for each in facts(times)] == [
        (1005, 104),
        (2005, 109),
    ]
    (entry,) = facts(aborted)
    assert (entry["producer_id"], entry["first_offset"], entry["last_stable_offset"]) == (7, 100, 106)
    assert "timestamp 2023-11-14T22:13:21.005Z  offset 104" in dump(times).stdout


def test_the_zeros_behind_a_live_index_of_kafkas_are_no_entries(tmp_path: Path) -> None:
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes.fromhex("0000000800001300") + bytes(80))
    assert [(each["last_offset"], each["position"]) for each in facts(index)] == [(108, 0x1300)]
    index.write_bytes(bytes(80))
    assert facts(index) == []


def test_an_index_that_does_not_rise_is_refused(tmp_path: Path) -> None:
    index = tmp_path / f"{STEM}.index"
    index.write_bytes(bytes.fromhex("00000008000013880000000700002904"))
    result = dump(index)
    assert result.exit_code == 1
    assert "not in ascending order" in result.stderr


def test_small_files_are_shown_too(tmp_path: Path) -> None:
    topic_id, directory_id = bytes(range(16)), bytes(range(16, 32))
    entry = ProducerEntry(7, 1, [BatchSummary(4, 104, 4, TIME_MS)], TIME_MS)
    contents = {
        "leader-epoch-checkpoint": b"0\n2\n0 0\n3 100\n",
        "recovery-point-offset-checkpoint": b"0\n1\nmy-topic 3 42\n",
        "partition.metadata": encode_partition_metadata(topic_id),
        "meta.properties": encode_meta(MetaProperties("cluster", 1, directory_id)),
        f"{STEM}.snapshot": encode_snapshot([entry]),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    shown = facts(*(tmp_path / name for name in contents))
    assert [(each["leader_epoch"], each["start_offset"]) for each in shown[:2]] == [(0, 0), (3, 100)]
    assert (shown[2]["topic"], shown[2]["partition"], shown[2]["offset"]) == ("my-topic", 3, 42)
    assert shown[3]["topic_id"] == id_to_text(topic_id)
    assert (shown[4]["cluster_id"], shown[4]["node_id"]) == ("cluster", 1)
    assert (shown[5]["producer_id"], shown[5]["last_sequence"], shown[5]["last_offset"]) == (7, 4, 104)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"", "is not a log file"),
        ("x.index", b"", "twenty digits"),
        ("leader-epoch-checkpoint", b"nonsense", "checkpoint"),
        (f"{STEM}.snapshot", b"123", f"{STEM}.snapshot"),
    ],
)
def test_what_cannot_be_shown_is_told_why(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = dump(tmp_path / name)
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize("missing", ["missing.log", "*.index", "orders-0", "meta.properties"])
def test_a_missing_file_does_not_hide_the_others(log: Path, missing: str) -> None:
    result = dump(log.with_name(missing), log)
    assert result.exit_code == 1
    assert f"{missing}: No such file or directory" in result.stderr
    assert "offsets 100-101" in result.stdout


def a_segment(tmp_path: Path, folder: str, *batches: bytes) -> Path:
    """A segment file of one partition, by the name that its folder has."""
    (tmp_path / folder).mkdir()
    path = tmp_path / folder / "00000000000000000000.log"
    path.write_bytes(b"".join(stamped(batches)))
    return path


def stamped(batches: tuple[bytes, ...]) -> list[bytes]:
    stamped_batches, offset = [], 0
    for batch in batches:
        raw = bytearray(batch)
        raw[:8] = offset.to_bytes(8, "big")
        offset = parse_header(raw).next_offset
        stamped_batches.append(bytes(raw))
    return stamped_batches


def test_records_of_committed_offsets_are_decoded(tmp_path: Path) -> None:
    committed = OffsetCommitValue(50, 3, "note", TIME_MS, -1, b"i" * 16)
    member = RegisteredMember(
        "m-1",
        None,
        "client",
        "/10.0.0.1",
        300_000,
        45_000,
        encode_subscription(Subscription(("t",))),
        encode_assignment(Assignment((TopicPartition("t", 0), TopicPartition("t", 1)))),
    )
    group = GroupRegistered("g", "consumer", 4, "range", "m-1", TIME_MS, (member,))
    pended = OffsetPended("g", "t", 1, OffsetCommitValue(60, -1, "", TIME_MS, -1, ZERO_ID), 7, 1)
    path = a_segment(
        tmp_path,
        "__consumer_offsets-3",
        encode_group_records([OffsetCommitted("g", "t", 0, committed), group], TIME_MS),
        encode_group_records([pended], TIME_MS),
        encode_marker(
            ControlType.COMMIT, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp_ms=TIME_MS
        ),
        encode_group_records([OffsetForgotten("g", "t", 0), GroupForgotten("g")], TIME_MS),
        encode_batch([Record(0, TIME_MS, b"\x00\x13rest", b"x"), Record(1, TIME_MS, b"\x00", b"x")]),
    )
    plain, pending, marker, gone, strange = [fact["records"] for fact in facts("--records", path)]
    assert plain[0]["record"] == "offset_commit"
    assert {name: plain[0][name] for name in ("group", "topic", "partition", "committed_offset")} == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": 50,
    }
    assert (plain[0]["metadata"], plain[0]["topic_id"]) == ("note", id_to_text(b"i" * 16))
    assert (plain[1]["record"], plain[1]["generation"], plain[1]["leader"]) == ("group_metadata", 4, "m-1")
    (shown,) = plain[1]["members"]
    assert (shown["subscription"], shown["assignment"]) == (["t"], ["t-0", "t-1"])
    assert (pending[0]["committed_offset"], "topic_id" in pending[0]) == (60, False)
    assert "record" not in marker[0]  # its batch says what it is
    assert [each["record"] for each in gone] == ["offset_tombstone", "group_tombstone"]
    assert strange[0]["record"] == "unknown"
    assert "error" in strange[1]


def test_records_of_consumer_groups_are_decoded(tmp_path: Path) -> None:
    member = MemberValue(None, "r1", "client", "/10.0.0.1", ("t",), "", 60_000, "uniform")
    topic_id = b"i" * 16
    records: list[GroupRecord] = [
        ConsumerMember("g", "m", member),
        ConsumerGroupEpoch("g", EpochValue(3, 77)),
        ConsumerTarget("g", "m", {topic_id: (0, 1)}),
        ConsumerTargetEpoch("g", TargetEpochValue(3, TIME_MS)),
        ConsumerCurrent("g", "m", CurrentValue(3, 2, 0, {topic_id: {0: 1, 1: 3}})),
        ConsumerRegex("g", "t.*", RegexValue(("t",), 1, TIME_MS)),
        ConsumerCurrent("g", "m", None),
    ]
    path = a_segment(tmp_path, "__consumer_offsets-3", encode_group_records(records, TIME_MS))
    (batch,) = facts("--records", path)
    shown = batch["records"]
    assert [each["record"].removeprefix("consumer_group_") for each in shown] == [
        "member_metadata",
        "metadata",
        "target_assignment_member",
        "target_assignment_metadata",
        "current_member_assignment",
        "regular_expression",
        "current_member_assignment",
    ]
    assert (shown[0]["member_id"], shown[0]["rack_id"], shown[0]["subscription"]) == ("m", "r1", ["t"])
    assert (shown[1]["epoch"], shown[1]["metadata_hash"]) == (3, 77)
    assert list(shown[2]["partitions"].values()) == list(shown[4]["assigned"].values()) == [[0, 1]]
    assert "epoch" not in shown[6]


def test_records_of_transactions_are_decoded(tmp_path: Path) -> None:
    stored = TransactionStored(
        "pay",
        7,
        1,
        60_000,
        State.PREPARE_COMMIT,
        frozenset({TopicPartition("t", 1), TopicPartition("t", 0)}),
        TIME_MS + 5,
        TIME_MS,
        previous_producer_id=7,
        client_version=2,
    )
    path = a_segment(
        tmp_path,
        "__transaction_state-26",
        encode_transaction_records([stored, TransactionForgotten("pay")], TIME_MS, is_flexible=True),
    )
    (batch,) = facts("--records", path)
    first, second = batch["records"]
    del first["offset"], first["timestamp_ms"], first["headers"]
    assert first == {
        "record": "transaction",
        "transactional_id": "pay",
        "producer_id": 7,
        "producer_epoch": 1,
        "state": "PrepareCommit",
        "timeout_ms": 60_000,
        "partitions": ["t-0", "t-1"],
        "update_timestamp_ms": TIME_MS + 5,
        "start_timestamp_ms": TIME_MS,
        "previous_producer_id": 7,
        "client_transaction_version": 2,
    }
    assert (second["record"], second["transactional_id"]) == ("transaction_tombstone", "pay")
    assert 'state "PrepareCommit"' in dump("--records", path).stdout


def test_a_users_records_are_not_decoded(tmp_path: Path) -> None:
    path = a_segment(tmp_path, "orders-0", encode_batch([Record(0, TIME_MS, b"\x00\x00", b"x")]))
    (batch,) = facts("--records", path)
    assert batch["records"][0]["key"] == "\0\0"


# --- what only the journal has ------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a running broker: six commits, and a transaction; no checkpoint has been made."""
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with klamm.Broker(tmp_path / "data", settings) as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        with klamm.Admin(client) as admin:
            admin.create_topics({"orders": 1})
            for offset in range(6):
                admin.alter_group_offsets("billing", {TopicPartition("orders", 0): offset})
        with klamm.Producer({**client, "transactional.id": "pay"}) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"v")
        yield tmp_path / "data"


def records_of(*arguments: str | Path) -> list[dict[str, Any]]:
    return [record for fact in facts("--records", *arguments) for record in fact["records"]]


@pytest.mark.parametrize("named", ["folder", "files"])
@pytest.mark.parametrize("is_running", [True, False])
def test_records_that_only_the_journal_has_are_shown(
    live: Path, tmp_path: Path, named: str, is_running: bool
) -> None:
    data = live
    if not is_running:  # as kill -9 leaves it
        data = tmp_path / "killed"
        shutil.copytree(live, data)
    folder = data / "__consumer_offsets-0"
    paths = [folder] if named == "folder" else sorted(folder.glob("*.log"))
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} if not is_running else {}
    offsets = [
        record["committed_offset"] for record in records_of(*paths) if record["record"] == "offset_commit"
    ]
    assert offsets == list(range(6))
    assert {path: path.read_bytes() for path in before} == before, "nothing is changed"
    states = [record["state"] for record in records_of(data / "__transaction_state-0")]
    assert states[-1] in ("PrepareCommit", "CompleteCommit")
    assert "in the journal" in dump(folder).stdout


def test_a_torn_segment_is_told_and_the_journal_goes_on_where_it_ends(live: Path, tmp_path: Path) -> None:
    data = tmp_path / "killed"
    shutil.copytree(live, data)
    segment = data / "orders-0" / "00000000000000000000.log"
    whole = [fact["base_offset"] for fact in facts(data / "orders-0")]
    segment.write_bytes(segment.read_bytes()[:-5])
    torn = dump("--json", data / "orders-0")
    assert torn.exit_code == 1
    assert [json.loads(line)["base_offset"] for line in torn.stdout.splitlines()] == whole
    assert str(segment) in torn.stderr


def a_journaled_partition(tmp_path: Path, *batches: tuple[int, int]) -> Path:
    """A partition whose segment ends at offset 2, epoch 3, and batches in the journal: (offset, epoch)."""
    folder, topic_id = tmp_path / "orders-0", bytes(range(16))
    folder.mkdir()
    (folder / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    records = [Record(0, TIME_MS, None, b"0"), Record(1, TIME_MS, None, b"1")]
    (folder / "00000000000000000000.log").write_bytes(encode_batch(records, base_offset=0, leader_epoch=3))
    entries = [
        Entry(
            "orders",
            topic_id,
            0,
            epoch,
            offset,
            encode_batch([Record(offset, TIME_MS, None, b"j")], base_offset=offset, leader_epoch=epoch),
        )
        for offset, epoch in batches
    ]
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "1-0").write_bytes(encode_frame(1, 1, entries))
    return folder


def test_the_journal_goes_on_where_the_segment_ends(tmp_path: Path) -> None:
    # Given a batch that the segment has, one that follows, and one of a leader that was replaced
    folder = a_journaled_partition(tmp_path, (1, 3), (2, 3), (3, 2))
    assert [(fact["base_offset"], fact["in_journal"]) for fact in facts(folder)] == [(0, False), (2, True)]
    assert [fact["position"] for fact in facts(folder)] == [0, None]


def test_a_gap_between_the_log_and_the_journal_is_told(tmp_path: Path) -> None:
    found = dump(a_journaled_partition(tmp_path, (5, 3)))
    assert found.exit_code == 1
    assert (
        "the log ends at offset 2, but the journal continues at 5: offsets 2 to 4 are missing" in found.stderr
    )


def test_a_partition_that_was_copied_without_its_journal_is_refused_at_its_end(
    live: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere" / "__consumer_offsets-0"
    shutil.copytree(live / "__consumer_offsets-0", folder)
    (folder / "klamm.checkpoint").touch()
    found = dump(folder)
    assert found.exit_code == 1
    assert "journal may have more records" in found.stderr


def test_a_folder_that_is_no_partition_is_refused(live: Path) -> None:
    found = dump(live)
    assert found.exit_code == 1
    assert "has no segments: expected the folder of a partition" in found.stderr
