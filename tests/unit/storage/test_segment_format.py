"""Files byte for byte as Kafka writes them: indexes, snapshots, checkpoints, names."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition
from klamm.records.markers import ControlType
from klamm.storage.engines.memory import MemoryFiles
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.checkpoints import (
    MetaProperties,
    decode_meta,
    decode_offsets,
    decode_partition_metadata,
    encode_meta,
    encode_offsets,
    encode_partition_metadata,
)
from klamm.storage.engines.segments.epochs import EpochEntry, LeaderEpochs, decode_epochs
from klamm.storage.engines.segments.txn_index import AbortedEntry, encode_entries
from klamm.storage.log import EpochEnd
from klamm.storage.producer_snapshot import decode_snapshot, encode_snapshot
from klamm.storage.producer_state import ProducerEntry
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    HastyFiles,
    T,
    a_batch,
    append,
    append_marker,
    sized_batch,
)

FROM_100 = "00000000000000000100"
EXAMPLE = [(3000, 3, 5), (2000, 2, 1005), (1500, 4, -6995), (4000, 1, 2005), (200, 1, 505)]


def a_store(directory: Path) -> SegmentStore:
    return SegmentStore(
        str(directory),
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        node_id=1,
        clock=ManualClock(timestamp_ms=T),
        flush_on_commit=True,
        files=HastyFiles(),
    )


def test_indexes_of_a_segment_are_kafkas_to_the_byte(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    log = store.open("t", TOPIC_ID, 0, leader_epoch=0, config=TopicConfig())
    append(log, a_batch(100))
    log.roll(0)  # type: ignore[attr-defined] # the engine's own way to begin a segment at 100
    for size_bytes, record_count, after_ms in EXAMPLE:
        append(log, sized_batch(size_bytes, record_count, T + after_ms))
    store.close()
    directory = tmp_path / "t-0"
    assert (directory / f"{FROM_100}.log").stat().st_size == 10_700
    assert (directory / f"{FROM_100}.index").read_bytes().hex(" ", 4) == "00000008 00001388 0000000a 00002904"
    assert (directory / f"{FROM_100}.timeindex").read_bytes() == bytes.fromhex(
        "0000018bcfe56bed 00000004 0000018bcfe56fd5 00000009"
    )


def test_an_aborted_transaction_is_noted_as_kafka_does() -> None:
    entry = AbortedEntry(4001, 42, 44, 45)
    assert encode_entries([entry]) == bytes.fromhex(
        "0000 0000000000000fa1 000000000000002a 000000000000002c 000000000000002d"
    )


def test_the_transaction_index_appears_with_its_first_entry(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    log = store.open("t", TOPIC_ID, 0, leader_epoch=0, config=TopicConfig())
    append(log, a_batch(42))
    append(log, a_batch(2, producer_id=4001, producer_epoch=3, sequence=7, transactional=True))
    append_marker(log, ControlType.ABORT, producer_id=4001, producer_epoch=3)
    store.close()
    written = (tmp_path / "t-0" / f"{names.file_stem(0)}.txnindex").read_bytes()
    assert written == encode_entries([AbortedEntry(4001, 42, 44, 45)])

    plain = a_store(tmp_path / "other")
    append(plain.open("t", TOPIC_ID, 0, leader_epoch=0, config=TopicConfig()))
    plain.close()
    assert not list((tmp_path / "other" / "t-0").glob("*.txnindex"))


def test_a_snapshot_is_kafkas_to_the_byte() -> None:
    entry = ProducerEntry(4001, 3, last_timestamp_ms=T + 5, txn_first_offset=42)
    entry.add(8, 43, 1, T + 5)
    encoded = encode_snapshot([entry])
    assert encoded == bytes.fromhex(
        "0001 416bbc3c 00000001 0000000000000fa1 0003 00000008 000000000000002b 00000001"
        "0000018bcfe56805 ffffffff 000000000000002a"
    )
    assert decode_snapshot(encoded) == [entry]
    assert encode_snapshot([]) == bytes.fromhex("0001 48674bc7 00000000")


def test_a_snapshot_keeps_every_batch_of_the_window_and_the_last_entry_is_what_kafka_reads() -> None:
    entry = ProducerEntry(4001, 3, last_timestamp_ms=T + 4)
    for number in range(5):
        entry.add(number, 10 + number, 0, T + number)
    encoded = encode_snapshot([entry])
    assert decode_snapshot(encoded) == [entry]
    last = ProducerEntry(4001, 3, [entry.batches[-1]], last_timestamp_ms=T + 4)
    assert encoded.endswith(encode_snapshot([last])[-46:])


def test_a_producer_known_from_a_marker_alone_survives_a_snapshot_without_a_batch() -> None:
    entry = ProducerEntry(4001, 3, last_timestamp_ms=T, coordinator_epoch=2)
    (found,) = decode_snapshot(encode_snapshot([entry]))
    assert found == entry
    assert found.last_sequence == -1


@pytest.mark.parametrize("position", [0, 1, 3, 6, 9, 20, 55])
def test_a_damaged_snapshot_is_known_by_its_checksum(position: int) -> None:
    entry = ProducerEntry(4001, 3)
    damaged = bytearray(encode_snapshot([entry]))
    damaged[position] ^= 1
    with pytest.raises(DecodeError):
        decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("length", [0, 5, 9, 55])
def test_a_snapshot_cut_short_is_refused(length: int) -> None:
    with pytest.raises(DecodeError):
        decode_snapshot(encode_snapshot([ProducerEntry(4001, 3)])[:length])


def test_offset_checkpoints_are_lines_with_a_count() -> None:
    offsets = {TopicPartition("a.b-c", 3): 17, TopicPartition("t", 0): 0}
    assert encode_offsets(offsets) == b"0\n2\na.b-c 3 17\nt 0 0\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(b"") == {}
    assert encode_offsets({}) == b"0\n0\n"


@pytest.mark.parametrize(
    "text", ["0\n2\nt 0 5\n", "1\n1\nt 0 5\n", "0\n", "0\nx\n", "0\n1\nt 0\n", "0\n1\nt 0 5 6\n", "\xff\xfe"]
)
def test_a_checkpoint_that_is_cut_short_or_foreign_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_offsets(text.encode("latin-1"))


def test_partition_metadata_has_no_last_newline() -> None:
    encoded = encode_partition_metadata(TOPIC_ID)
    assert encoded == b"version: 0\ntopic_id: byodPJtOTFeKEQ0uP0BRYg"
    assert decode_partition_metadata(encoded) == TOPIC_ID
    for bad in (
        b"",
        b"version: 1\ntopic_id: byodPJtOTFeKEQ0uP0BRYg",
        b"version: 0\ntopic_id: x",
        b"nonsense",
    ):
        with pytest.raises(DecodeError):
            decode_partition_metadata(bad)


def test_meta_properties_are_read_in_any_order_and_with_comments() -> None:
    meta = MetaProperties("4L6g3nShT-eMCtK--X86sw", 7, TOPIC_ID)
    assert decode_meta(encode_meta(meta)) == meta
    lines = ["#Sat Jan 01", "version=1", "node.id=7", "", "directory.id=byodPJtOTFeKEQ0uP0BRYg"]
    lines.append("cluster.id=4L6g3nShT-eMCtK--X86sw\n")
    assert decode_meta("\n".join(lines).encode()) == meta
    for bad in (
        "version=0\ncluster.id=a\nnode.id=1",
        "cluster.id=a\nversion=1",
        "version=1\ncluster.id=a\nnode.id=x",
    ):
        with pytest.raises(DecodeError):
            decode_meta(bad.encode())


def test_names_follow_the_last_dash_and_fit_a_file_system() -> None:
    assert names.file_stem(100) == FROM_100
    assert names.parse_offset_name(f"{FROM_100}.log.swap") == (100, ".log.swap")
    assert names.parse_offset_name("leader-epoch-checkpoint") is None
    assert names.parse_offset_name(f"{2**63 - 1:020d}.log") == (2**63 - 1, ".log")
    assert names.parse_offset_name(f"{2**63:020d}.log") is None, "no offset is that large"
    assert names.parse_partition_directory("a-b.c-12") == ("a-b.c", 12)
    for other in ("plain", "t-x", "-1", "t-0.0123-delete", "t-0-stray", "t-0-future"):
        assert names.parse_partition_directory(other) is None
    deleted = names.deleted_directory("x" * 249, 1000, TOPIC_ID)
    assert len(deleted) == 255
    assert deleted.endswith("-1000.6f2a1d3c9b4e4c578a110d2e3f405162-delete")


class TestLeaderEpochs:
    """Which leader wrote what."""

    def epochs(self, *entries: tuple[int, int]) -> LeaderEpochs:
        return LeaderEpochs("/checkpoint", [EpochEntry(*entry) for entry in entries])

    def test_the_file_is_kafkas(self) -> None:
        epochs = LeaderEpochs("/checkpoint", [])
        epochs.assign(0, 0)
        epochs.assign(3, 100)
        encoded = epochs.unsaved()
        assert encoded == b"0\n2\n0 0\n3 100\n"
        epochs.saved(encoded)
        assert epochs.unsaved() is None
        files = MemoryFiles(ManualClock())
        files.write_file("/checkpoint", encoded, sync=False)
        loaded = LeaderEpochs.load(files, "/checkpoint")
        assert loaded is not None
        assert loaded.entries == epochs.entries
        assert loaded.unsaved() is None
        files.write_file("/checkpoint", b"0\n2\n0 0\n", sync=False)
        assert LeaderEpochs.load(files, "/checkpoint") is None

    @pytest.mark.parametrize(
        ("before", "added", "after"),
        [
            ([(0, 0)], (0, 10), [(0, 0)]),
            ([(0, 0)], (1, 10), [(0, 0), (1, 10)]),
            ([(0, 0), (1, 10)], (2, 10), [(0, 0), (2, 10)]),
            ([(0, 0), (2, 10)], (1, 12), [(0, 0), (1, 12)]),
            ([(0, 0), (1, 10), (2, 20)], (3, 5), [(0, 0), (3, 5)]),
        ],
    )
    def test_a_new_epoch_removes_what_it_contradicts(
        self, before: list[tuple[int, int]], added: tuple[int, int], after: list[tuple[int, int]]
    ) -> None:
        epochs = self.epochs(*before)
        epochs.assign(*added)
        assert list(epochs.entries) == after

    def test_cuts_at_either_end_keep_what_covers_the_rest(self) -> None:
        epochs = self.epochs((0, 0), (2, 10), (5, 20))
        epochs.truncate_end(20)
        assert list(epochs.entries) == [(0, 0), (2, 10)]
        epochs.truncate_start(4)
        assert list(epochs.entries) == [(0, 4), (2, 10)]
        epochs.truncate_start(15)
        assert list(epochs.entries) == [(2, 15)]
        assert (epochs.at(14), epochs.at(15), epochs.at(99)) == (-1, 2, 2)

    def test_epochs_between_answer_with_the_one_before(self) -> None:
        epochs = self.epochs((2, 5), (4, 100))
        assert epochs.end_of(1, 150) == EpochEnd(1, 5), "older than all we know"
        assert epochs.end_of(3, 150) == EpochEnd(2, 100)
        assert self.epochs().end_of(0, 0) == EpochEnd()

    @pytest.mark.parametrize("text", [b"", b"0\n1\n0\n", b"0\n2\n3 0\n3 5\n", b"0\n2\n0 9\n1 5\n", b"2\n0\n"])
    def test_what_is_no_checkpoint_is_refused(self, text: bytes) -> None:
        with pytest.raises(DecodeError):
            decode_epochs(text)
