"""Whose log a partition's directory has, if its files are damaged: no acknowledged record is hidden."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.checkpoints import decode_partition_metadata, encode_partition_metadata
from klamm.storage.engines.segments.partition_checkpoint import (
    PartitionCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.storage.log import EngineLog, LogError
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, loaded, read_all, sync

METADATA = f"/data/t-0/{names.PARTITION_METADATA}"
CHECKPOINT = f"/data/t-0/{names.PARTITION_CHECKPOINT}"
OTHER_ID = bytes(reversed(TOPIC_ID))
BITS = 8 * len(encode_partition_metadata(TOPIC_ID))


class Folder:
    """A folder with the log of t-0, which has three records, after a clean stop."""

    def __init__(self) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(1), self.clock)
        self.files.make_directory("/data")
        store = self.store()
        log = self.opened(store, 0)
        for _ in range(3):
            append(log, a_batch())
        sync(log)
        self.records = read_all(log)
        store.close()

    def store(self, *, shared: bool = False) -> SegmentStore:
        store = SegmentStore(
            "/data", cluster_id="c", node_id=1, clock=self.clock, flush_on_commit=True, files=self.files
        )
        if shared:
            store.share()
        return store

    def opened(self, store: SegmentStore, epoch: int, topic_id: bytes = TOPIC_ID) -> EngineLog:
        return loaded(lambda: store.open("t", topic_id, 0, leader_epoch=epoch, config=TopicConfig()))

    def flip(self, path: str, bit: int) -> None:
        data = bytearray(self.files.read_file(path))
        data[bit // 8] ^= 1 << bit % 8
        self.files.write_file(path, bytes(data), sync=True)

    def forget_checkpoint(self) -> None:
        """As an older klamm leaves it: the checkpoint does not have the topic id."""
        self.files.remove(CHECKPOINT)

    @property
    def strays(self) -> list[str]:
        return [each.name for each in self.files.scan("/data") if each.name.endswith("-stray")]


def is_meaningless(damaged: bytes) -> bool:
    """Whether the file has the topic id all the same."""
    with suppress(DecodeError):
        return decode_partition_metadata(damaged) == TOPIC_ID
    return False


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("bit", range(BITS))
def test_a_flipped_bit_in_partition_metadata_is_repaired(bit: int, shared: bool) -> None:
    folder = Folder()
    folder.flip(METADATA, bit)
    store = folder.store(shared=shared)
    assert list(store.existing()) == [("t", 0, TOPIC_ID)]
    assert read_all(folder.opened(store, 1)) == folder.records
    store.close()
    assert decode_partition_metadata(folder.files.read_file(METADATA)) == TOPIC_ID
    assert folder.strays == []


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("bit", range(BITS))
def test_a_log_with_another_topic_id_is_offline_without_a_checkpoint(bit: int, shared: bool) -> None:
    folder = Folder()
    folder.flip(METADATA, bit)
    folder.forget_checkpoint()
    store = folder.store(shared=shared)
    if is_meaningless(folder.files.read_file(METADATA)):
        assert read_all(folder.opened(store, 1)) == folder.records
    else:
        with pytest.raises(LogError, match="remove this file to keep the log") as refused:
            folder.opened(store, 1)
        assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert folder.strays == []
    store.close()
    # What the message recommends
    folder.files.remove(METADATA)
    assert read_all(folder.opened(folder.store(shared=shared), 2)) == folder.records


def test_a_log_of_a_deleted_topic_makes_way_in_a_shared_folder() -> None:
    folder = Folder()
    store = folder.store(shared=True)
    assert folder.opened(store, 3, OTHER_ID).log_end_offset == 0
    assert folder.strays == [f"t-0.{TOPIC_ID.hex()}-stray"]


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_partition_that_was_led_before_does_not_make_a_log_of_unknown_origin_go(epoch: int) -> None:
    folder = Folder()
    folder.forget_checkpoint()
    store = folder.store(shared=True)
    if epoch == 0:
        assert folder.opened(store, epoch, OTHER_ID).log_end_offset == 0
    else:
        with pytest.raises(LogError, match=r"remove this file to keep the log"):
            folder.opened(store, epoch, OTHER_ID)
    assert len(folder.strays) == (epoch == 0)


def test_a_log_whose_topic_id_was_lost_with_the_power_is_opened() -> None:
    folder = Folder()
    folder.forget_checkpoint()
    folder.files.write_file(METADATA, b"", sync=True)
    assert read_all(folder.opened(folder.store(), 1)) == folder.records


def test_a_log_is_deleted_with_a_damaged_topic_id() -> None:
    folder = Folder()
    store = folder.store(shared=True)
    folder.opened(store, 1)
    folder.files.write_file(METADATA, encode_partition_metadata(OTHER_ID), sync=True)
    store.delete("t", 0)
    assert not store.holds("t", 0)


A_CHECKPOINT = PartitionCheckpoint(
    leader_epoch=3, recovery_point=10, log_start_offset=4, high_watermark=9, end_offset=12, topic_id=TOPIC_ID
)


def test_a_checkpoint_with_a_flipped_bit_is_not_believed() -> None:
    whole = encode_checkpoint(A_CHECKPOINT)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        with suppress(DecodeError):
            assert decode_checkpoint(bytes(data)) == A_CHECKPOINT  # in the padding


def test_a_checkpoint_of_an_older_version_is_read() -> None:
    lines = (
        b"version: 0",
        b"leader_epoch: 3",
        b"recovery_point: 10",
        b"log_start_offset: 4",
        b"high_watermark: 9",
        b"end_offset: 12",
        b"cleaned_to: -1",
        b"is_clean: 0      ",
        b"lines: 7",
        b"",
    )
    found = decode_checkpoint(b"\n".join(lines))
    assert (found.log_start_offset, found.end_offset, found.topic_id) == (4, 12, bytes(16))
