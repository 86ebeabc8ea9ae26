"""Stopping, crashing and starting again on the same files."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.records.markers import ControlType
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.checkpoints import ForeignDirectoryError
from klamm.storage.engines.segments.files import AlreadyLockedError
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    HastyFiles,
    T,
    a_batch,
    append,
    append_marker,
    headers,
    loaded,
    read_all,
    sync,
)
from unit.storage.restarts import SMALL, A, Machine, facts, fill


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_clean_restart_scans_nothing_and_starts_a_new_epoch_at_the_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    before = facts(log)
    machine.store.close()
    assert (machine.directory / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert not (machine.directory / ".lock").exists()
    machine.start()
    assert not (machine.directory / ".kafka_cleanshutdown").exists(), "from now on it would be a lie"

    def no_scan(*_: object, **__: object) -> None:
        raise AssertionError("a clean start trusts what it finds")

    monkeypatch.setattr("klamm.storage.engines.segments.loading.recover", no_scan)
    log = machine.open()
    assert list(log.epochs.entries) == [(0, 0), (1, 80)]
    assert facts(log) == before
    append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=80))
    assert log.log_end_offset == 82


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\x17" * 61, b"\xff" * 3000, b"half"], ids=repr)
def test_a_torn_tail_is_cut_to_the_last_whole_batch(machine: Machine, tail: bytes) -> None:
    # scenario 17 of transactions
    log = machine.open()
    fill(log)
    sync(log)
    before = facts(log)
    tail = a_batch(5)[:70] if tail == b"half" else tail
    with machine.paths("*.log")[-1].open("ab") as active:
        active.write(tail)
    machine.kill()
    log = machine.open()
    assert facts(log) == before
    assert append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=78)).is_duplicate
    append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=80))


def test_damage_two_segments_back_cuts_there_and_drops_the_rest(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    whole = read_all(log)
    paths = machine.paths("*.log")
    assert len(paths) == 4
    damaged = paths[-3]
    content = bytearray(damaged.read_bytes())
    content[len(whole[0]) + 70] ^= 1  # in its second batch
    damaged.write_bytes(content)
    machine.kill()
    with caplog.at_level(logging.WARNING):
        log = machine.open()
    first_lost = int(damaged.stem) + 2
    assert log.log_end_offset == first_lost
    assert read_all(log) == whole[: first_lost // 2]
    assert [path.stem for path in machine.paths("*.log")] == [path.stem for path in paths[:-2]]
    assert "checksum mismatch" in caplog.text
    assert (
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=first_lost)).base_offset
        == first_lost
    )


def test_a_crash_while_loading_leaves_it_unclean(machine: Machine) -> None:
    fill(machine.open())
    machine.stop()
    machine.kill()  # started, and killed before any log was opened
    with machine.paths("*.log")[-1].open("ab") as active:
        active.write(b"\0" * 10)
    log = machine.open()
    assert log.log_end_offset == 80
    assert log.size_bytes == sum(path.stat().st_size for path in machine.paths("*.log"))


@pytest.mark.parametrize("is_clean", [True, False])
def test_without_indexes_and_snapshots_all_is_found_again(machine: Machine, is_clean: bool) -> None:
    log = machine.open()
    append(log, a_batch(3, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    fill(log)
    append_marker(log, ControlType.ABORT, producer_id=7)
    append(log, a_batch(3, producer_id=8, producer_epoch=0, sequence=0, transactional=True))
    fill_more = [a_batch(1, timestamps_ms=[T + 30]) for _ in range(20)]
    for batch in fill_more:
        append(log, batch)
    sync(log)
    before = facts(log)
    assert before["aborted"]
    machine.stop() if is_clean else machine.kill()
    for pattern in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"):
        for path in machine.paths(pattern):
            path.unlink()
    log = machine.open()
    assert facts(log) == before
    assert list(log.epochs.entries) == [(0, 0), (1, log.log_end_offset)]


def test_a_damaged_index_is_rebuilt_when_it_is_met(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    before = facts(log)
    machine.stop()
    for path in [*machine.paths("*.index")[:-1], *machine.paths("*.timeindex")[:-1]]:
        path.write_bytes(b"\x7f" * path.stat().st_size)
    assert facts(machine.open()) == before


def test_a_transaction_index_of_an_impossible_size_is_rebuilt(machine: Machine) -> None:
    log = machine.open()
    append(log, a_batch(3, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    append_marker(log, ControlType.ABORT, producer_id=7)
    fill(log)
    sync(log)
    before = facts(log)
    machine.stop()
    (path,) = machine.paths("*.txnindex")
    path.write_bytes(path.read_bytes()[:-1])
    assert facts(machine.open()) == before


def test_a_checkpoint_cut_short_costs_a_scan_and_no_data(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    before = facts(log)
    machine.store.start_checkpoint()()
    for name in (
        names.RECOVERY_POINT_CHECKPOINT,
        names.LOG_START_CHECKPOINT,
        names.HIGH_WATERMARK_CHECKPOINT,
        f"t-0/{names.PARTITION_CHECKPOINT}",
    ):
        path = machine.directory / name
        path.write_bytes(path.read_bytes()[:3])
    machine.kill()
    assert facts(machine.open()) == before


def test_damaged_snapshots_are_passed_over(machine: Machine) -> None:
    # scenario 18 of transactions
    log = machine.open()
    fill(log)
    sync(log)
    before = facts(log)
    machine.stop()
    for path in machine.paths("*.snapshot")[-3:]:
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    log = machine.open()
    assert facts(log) == before


def test_a_second_store_is_refused_while_the_first_runs(machine: Machine) -> None:
    with pytest.raises(AlreadyLockedError):
        Machine(machine.directory)
    script = (
        "from klamm.clock import SystemClock\n"
        "from klamm.storage.engines.segments import SegmentStore\n"
        f"SegmentStore({str(machine.directory)!r}, cluster_id='c', node_id=1, clock=SystemClock(),"
        " flush_on_commit=True)\n"
    )
    other = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert "AlreadyLockedError" in other.stderr


@pytest.mark.parametrize(("cluster_id", "node_id"), [("other", 1), ("other", 2)])
def test_a_foreign_directory_is_refused(machine: Machine, cluster_id: str, node_id: int) -> None:
    machine.store.close()
    with pytest.raises(ForeignDirectoryError):
        machine.start(cluster_id=cluster_id, node_id=node_id)
    machine.start()


@pytest.mark.parametrize(
    ("config", "batches", "expected"),
    [
        (TopicConfig(segment_bytes=1024), [a_batch(value=bytes(600))] * 3, [0, 1, 2]),
        (TopicConfig(segment_ms=100), [a_batch(timestamps_ms=[T + n]) for n in (0, 100, 101, 150)], [0, 2]),
        (TopicConfig(segment_ms=100), [a_batch(timestamps_ms=[T + n]) for n in (0, 10**9, 5)], [0, 1]),
        (TopicConfig(segment_ms=2**63 - 1), [a_batch(timestamps_ms=[T + n]) for n in (0, 1, 10**9)], [0]),
        (TopicConfig(), [a_batch(timestamps_ms=[2**63 - 9 + n]) for n in (0, 1, 8)], [0]),
        (TopicConfig(segment_index_bytes=24, index_interval_bytes=0), [a_batch()] * 5, [0, 2, 4]),
        (
            TopicConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=100),
            [a_batch(timestamps_ms=[T + n]) for n in (0, 101)],
            [0, 1],
        ),
    ],
    ids=["size", "record time", "future time", "no limit", "end of time", "full index", "compaction lag"],
)
def test_segments_roll_with_a_snapshot_beside(
    machine: Machine, config: TopicConfig, batches: list[bytes], expected: list[int]
) -> None:
    log = machine.open(config)
    for batch in batches:
        append(log, batch)
    assert [int(path.stem) for path in machine.paths("*.log")] == expected
    assert [int(path.stem) for path in machine.paths("*.snapshot")] == expected[1:]


def test_without_timestamps_a_segment_rolls_by_its_age(machine: Machine) -> None:
    log = machine.open(TopicConfig(segment_ms=100))
    old = a_batch(timestamps_ms=[-1])
    for now_ms in (0, 100, 101):
        append(log, old, now_ms=now_ms)
    assert [int(path.stem) for path in machine.paths("*.log")] == [0, 2]


def test_deleting_records_is_durable_when_the_log_starts_are_saved(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    log.delete_records(31)
    machine.store.start_saving_log_starts()()
    machine.kill()
    log = machine.open()
    assert log.log_start_offset == 31
    assert headers(read_all(log))[0].base_offset == 30, "a batch that the start cuts into stays whole"


def test_a_log_that_ends_below_its_start_begins_anew_there(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    log.delete_records(70)
    machine.store.start_saving_log_starts()()
    machine.kill()
    for path in machine.paths("*.log"):
        path.write_bytes(b"")
    log = machine.open()
    assert (log.log_start_offset, log.log_end_offset) == (70, 70)
    assert append(log).base_offset == 70


def test_old_and_deleted_files_wait_for_their_delay_and_go_at_a_start(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    log.delete_records(60)
    assert loaded(lambda: log.delete_old_segments(0, T)) > 0
    assert machine.paths("*.deleted")
    machine.clock.advance(59_999)
    assert machine.store.start_housekeeping(machine.clock.now_ms()) is None
    machine.clock.advance(1)
    remove = machine.store.start_housekeeping(machine.clock.now_ms())
    assert remove is not None
    remove()
    assert not machine.paths("*.deleted")
    log.truncate(62)
    assert machine.paths("*.deleted")
    machine.kill()
    machine.open()
    assert not machine.paths("*.deleted")


def test_snapshots_of_earlier_stops_are_removed_after_the_start(machine: Machine) -> None:
    for _ in range(3):
        append(machine.open())
        machine.stop()

    def offsets() -> list[int]:
        return [int(path.stem) for path in machine.paths("*.snapshot")]

    # A start writes and removes nothing that takes long; the next stop may come before there was time.
    assert offsets() == [1, 2, 3]
    log = machine.open()
    assert offsets() == [1, 2, 3]
    append(log)
    machine.clock.advance(60_000)
    remove = machine.store.start_housekeeping(machine.clock.now_ms())
    assert remove is not None
    remove()
    assert offsets() == [3]
    machine.stop()
    assert facts(machine.open())
    assert offsets() == [3, 4]


def test_a_deleted_log_waits_under_another_name_and_is_gone_after_a_start(machine: Machine) -> None:
    fill(machine.open())
    machine.store.delete("t", 0)
    (doomed,) = machine.directory.glob("*-delete")
    assert doomed.name == f"t-0.{TOPIC_ID.hex()}-delete"
    machine.kill()
    assert not doomed.exists()


def test_one_broken_log_does_not_harm_the_others(machine: Machine) -> None:
    good = machine.store.open("good", b"g" * 16, 0, leader_epoch=0, config=SMALL)
    append(good)
    fill(machine.open())
    machine.stop()
    shutil.rmtree(machine.partition)
    machine.partition.mkdir()
    (machine.partition / f"{names.file_stem(0)}.log").mkdir()
    with pytest.raises(LogError) as refused:
        machine.open()
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    good = machine.store.open("good", b"g" * 16, 0, leader_epoch=1, config=SMALL)
    assert good.log_end_offset == 1
    machine.store.close()
    assert not (machine.directory / ".kafka_cleanshutdown").exists(), "one of them was not in order"


def test_messages_of_an_old_format_are_refused_with_their_place_and_not_cut(machine: Machine) -> None:
    import zlib

    fill(machine.open(), 3)
    body = bytes([1, 0]) + bytes(8) + b"\xff\xff\xff\xff" + b"\xff\xff\xff\xff"
    old = bytes(8) + (len(body) + 4).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    path = machine.paths("*.log")[0]
    content = path.read_bytes()
    path.write_bytes(content + old)
    machine.kill()
    with pytest.raises(LogError) as refused:
        machine.open()
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert f"at {len(content)}" in str(refused.value)
    assert path.read_bytes() == content + old


def test_damage_under_a_running_log_is_an_error_of_that_read_alone(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    machine.stop()
    log = machine.open()
    path = machine.paths("*.log")[0]
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(LogError) as refused:
        log.read(3, until_offset=80, max_bytes=100, at_least_one=True)
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    assert log.read(79, until_offset=80, max_bytes=100, at_least_one=True)


@pytest.mark.parametrize("cut_at", ["cleaned", "half swapped", "swapped", "half replaced", "replaced"])
def test_an_interrupted_swap_is_undone_or_completed(machine: Machine, cut_at: str) -> None:
    log = machine.open()
    fill(log)
    sync(log)
    before = read_all(log)
    bases = [segment.base_offset for segment in log.segments]
    machine.stop()

    def rename(base: int, old: str, new: str) -> None:
        for kind in (".log", ".index", ".timeindex"):
            path = machine.partition / f"{names.file_stem(base)}{kind}"
            path.with_name(path.name + old).rename(path.with_name(path.name + new))

    # Two cleaned segments hold a copy of what the first three did.
    old = [(machine.partition / f"{names.file_stem(base)}.log").read_bytes() for base in bases[:3]]
    cleaned = {bases[0]: old[0] + old[1], bases[2]: old[2]}
    for base, content in cleaned.items():
        (machine.partition / f"{names.file_stem(base)}.log.cleaned").write_bytes(content)
        for kind in (".index", ".timeindex"):
            (machine.partition / f"{names.file_stem(base)}{kind}.cleaned").write_bytes(b"")
    if cut_at != "cleaned":
        rename(bases[2], ".cleaned", ".swap")
    if cut_at not in ("cleaned", "half swapped"):
        rename(bases[0], ".cleaned", ".swap")
    if cut_at in ("half replaced", "replaced"):
        rename(bases[2], "", ".deleted")
        rename(bases[1], "", ".deleted")
    if cut_at == "replaced":
        rename(bases[0], "", ".deleted")
        rename(bases[0], ".swap", "")
    machine.kill()
    log = machine.open()
    assert read_all(log) == before
    is_old = cut_at in ("cleaned", "half swapped")
    assert [segment.base_offset for segment in log.segments][: 3 if is_old else 2] == (
        bases[:3] if is_old else [bases[0], bases[2]]
    )
    assert not [path for path in machine.paths("*") if path.suffix in (".cleaned", ".swap", ".deleted")]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_loading_twice_gives_what_loading_once_gives(machine: Machine, end: str) -> None:
    log = machine.open()
    append(log, a_batch(3, producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    fill(log)
    sync(log)
    leave: Callable[[], None] = machine.stop if end == "stop" else machine.kill
    leave()
    first = facts(machine.open())
    leave()
    assert facts(machine.open()) == first


def test_a_closed_log_can_be_opened_again_in_the_same_run(machine: Machine) -> None:
    log = machine.open()
    fill(log)
    before = None
    log.close()
    for _ in range(2):
        log = machine.open()
        before = before or facts(log)
        assert facts(log) == before
        log.close()
    machine.store.close()
    assert (machine.directory / ".kafka_cleanshutdown").exists()


def test_handles_are_given_back_when_many_segments_are_read(tmp_path: Path) -> None:
    clock = ManualClock(timestamp_ms=T)
    store = SegmentStore(
        str(tmp_path), cluster_id="c", node_id=1, clock=clock, flush_on_commit=True,
        files=HastyFiles(), max_open_files=4,
    )  # fmt: skip
    log = store.open("t", TOPIC_ID, 0, leader_epoch=0, config=SMALL)
    assert isinstance(log, SegmentLog)
    for n in range(100):
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n))
        sync(log)
    whole = read_all(log)
    assert len(log.segments) >= 10
    assert sum(segment.is_open for segment in log.segments) <= 4
    assert read_all(log) == whole
    append(log)
    store.close()
