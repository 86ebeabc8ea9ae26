"""The reserve of a disk: taken, released when the disk is full, taken again."""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random
from threading import Thread

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.segments.reserve import DiskReserve, ReservedFiles
from klamm.storage.engines.simulated_disk import FailingOperation, SimulatedFiles
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, read_all, sync

MIB = 1024 * 1024
SIZE = 2 * MIB
DISK = 20 * MIB
PATH = "/data/klamm.reserve.1"


class World:
    """A disk of 20 MiB with a reserve of 2 MiB on it, and something else that takes room."""

    def __init__(self, seed: int = 1, *, size_bytes: int = SIZE) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(seed), self.clock, capacity_bytes=DISK)
        self.files.make_directory("/data")
        self.files.sync_directory("/")
        self.size_bytes = size_bytes
        self.boot()

    def boot(self) -> None:
        self.reserve = DiskReserve(self.files, "/data", 1, self.size_bytes)

    def start(self, *, epoch: int = 0) -> SegmentLog:
        self.store = SegmentStore(
            "/data",
            cluster_id="c",
            node_id=1,
            clock=self.clock,
            flush_on_commit=True,
            files=self.files,
            reserve=self.reserve,
        )
        self.reserve.look()
        log = self.store.open("t", TOPIC_ID, 0, leader_epoch=epoch, config=TopicConfig(segment_bytes=4 * MIB))
        assert isinstance(log, SegmentLog)
        return log

    def look(self) -> None:
        self.clock.advance(1000)
        work = self.store.start_housekeeping(self.clock.now_ms())
        assert work is not None
        work()

    @property
    def room(self) -> int:
        return self.files.disk_space("/data").usable_bytes

    @property
    def held(self) -> int:
        return self.files.allocated(PATH)

    def leave(self, room: int) -> None:
        """Something else takes all but so much of the disk."""
        if self.files.exists("/other"):
            self.files.remove("/other")
        if self.room > room:
            self.files.allocate("/other", self.room - room)


def test_the_reserve_has_blocks_of_its_own() -> None:
    world = World()
    world.reserve.look()
    assert (world.held, world.room, world.reserve.is_full) == (SIZE, DISK - SIZE, False)


def test_real_blocks_are_allocated_and_given_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("reserve")
    reserve = DiskReserve(OsFiles(), str(folder), 7, SIZE)
    reserve.look()
    file = folder / "klamm.reserve.7"
    assert file.stat().st_blocks * 512 >= SIZE
    reserve.release()
    assert not file.exists()
    assert OsFiles().allocated(str(file)) == 0


def test_a_hole_in_the_reserve_is_filled_when_it_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("reserve")
    file = folder / "klamm.reserve.7"
    with file.open("wb") as sparse:
        sparse.truncate(SIZE)
    assert file.stat().st_blocks == 0
    DiskReserve(OsFiles(), str(folder), 7, SIZE).look()
    assert file.stat().st_blocks * 512 >= SIZE


def test_a_small_volume_is_not_filled_by_its_reserve() -> None:
    world = World(size_bytes=16 * MIB)
    world.reserve.look()
    assert world.held == DISK // 10


def test_a_smaller_reserve_than_before_gives_room_back_and_none_removes_it() -> None:
    world = World()
    world.reserve.look()
    DiskReserve(world.files, "/data", 1, MIB).look()
    assert world.held == MIB
    DiskReserve(world.files, "/data", 1, 0).look()
    assert not world.files.exists(PATH)


def test_each_broker_of_a_folder_has_a_reserve() -> None:
    world = World()
    world.reserve.look()
    other = DiskReserve(world.files, "/data", 2, SIZE)
    other.look()
    assert world.room == DISK - 2 * SIZE
    other.release()
    assert (world.held, world.reserve.is_full) == (SIZE, False)


def test_a_write_that_finds_the_disk_full_is_done_again_with_the_room_of_the_reserve() -> None:
    world = World()
    world.reserve.look()
    files = ReservedFiles(world.files, world.reserve)
    world.leave(0)
    files.write_file("/data/checkpoint", b"content", sync=True)
    assert files.read_file("/data/checkpoint") == b"content"
    assert (world.held, world.reserve.is_full) == (0, True)


@pytest.mark.parametrize("operation", ["open", "make_directory", "rename", "lock", "lock_shared"])
def test_whatever_needs_room_releases_the_reserve(operation: str) -> None:
    world = World()
    world.reserve.look()
    files = ReservedFiles(world.files, world.reserve)
    world.files.write_file("/data/old", b"", sync=False)
    refusals = [OSError(ENOSPC, "full")]
    plain = getattr(world.files, operation)

    def refused_once(*arguments: object, **named: object) -> object:
        if refusals:
            raise refusals.pop()
        return plain(*arguments, **named)

    setattr(world.files, operation, refused_once)
    arguments = ["/data/old", "/data/new"] if operation == "rename" else ["/data/new"]
    getattr(files, operation)(*arguments, **({"create": True} if operation == "open" else {}))
    assert world.files.exists("/data/new")
    assert world.reserve.is_full


def test_a_write_does_not_wait_while_a_thread_takes_the_reserve() -> None:
    world = World()
    allocate, writers = world.files.allocate, []

    def slow(path: str, size_bytes: int) -> None:
        allocate(path, size_bytes)
        # A write on the event loop finds the disk full
        writer = Thread(target=world.reserve.release, daemon=True)
        writer.start()
        writer.join(timeout=10)
        writers.append(writer.is_alive())

    world.files.allocate = slow  # type: ignore[method-assign]
    world.reserve.look()
    # and the room is its own when the thread is done
    assert (writers, world.reserve.is_full, world.held) == ([False], True, 0)
    world.files.allocate = allocate  # type: ignore[method-assign]
    world.reserve.look()
    assert (world.reserve.is_full, world.held) == (False, SIZE)


def test_another_error_releases_nothing() -> None:
    world = World()
    world.reserve.look()
    world.files.faults.append(FailingOperation("create", error_number=EIO))
    with pytest.raises(OSError, match="Input/output"):
        ReservedFiles(world.files, world.reserve).open("/data/new", create=True)
    assert (world.held, world.reserve.is_full) == (SIZE, False)


def test_a_log_refuses_appends_while_the_disk_is_full_and_keeps_what_it_has() -> None:
    # Given a log whose disk something else fills
    world = World()
    log = world.start()
    append(log, a_batch(value=b"kept"))
    sync(log)
    world.leave(0)
    world.look()
    # Then it refuses appends, with what to do, and loses nothing
    with pytest.raises(LogError, match="is full: delete records") as refused:
        append(log, a_batch(value=b"refused"))
    assert refused.value.error_code is ErrorCode.kafka_storage_error
    with pytest.raises(LogError, match="is full"):
        log.append_own(a_batch(value=b"refused"), 0)
    assert world.store.status()[0].usable_bytes == 0
    assert "klamm topics delete" in world.store.why_full()
    assert len(read_all(log)) == 1
    # When there is room again
    world.leave(10 * MIB)
    world.look()
    append(log, a_batch(value=b"accepted"))
    sync(log)
    assert (log.high_watermark, world.held, world.store.why_full()) == (2, SIZE, "")


def test_a_little_room_is_not_enough_to_go_on() -> None:
    world = World()
    log = world.start()
    world.leave(0)
    world.look()
    world.leave(SIZE // 4)
    world.look()
    with pytest.raises(LogError, match="is full"):
        append(log)


def test_what_a_full_disk_released_is_taken_back_before_others_take_it() -> None:
    world = World()
    log = world.start()
    world.leave(1000)
    append(log, a_batch(value=bytes(900)))
    append(log, a_batch(value=bytes(900)))
    with pytest.raises(LogError, match="is full"):
        append(log, a_batch(value=bytes(900)))
    assert world.held == 0
    world.look()
    assert world.held > SIZE - 100_000
    assert world.reserve.is_full


def test_deleted_segments_are_removed_at_once_on_a_full_disk() -> None:
    world = World()
    log = world.start()
    append(log, a_batch(value=bytes(3 * MIB)))
    sync(log)
    world.leave(0)
    world.look()
    log.delete_records(1)
    world.store.start_saving_log_starts()()
    assert log.delete_old_segments(world.clock.now_ms(), T, only_below_start=True) == 1
    world.look()
    assert world.room >= 3 * MIB - 100_000
    append(log)


def test_records_that_are_not_below_the_start_are_not_deleted_with_those_that_are() -> None:
    world = World()
    log = world.start()
    log.config = TopicConfig(segment_bytes=1024, retention_ms=1)
    for _ in range(8):
        append(log, a_batch(value=bytes(300), timestamps_ms=[T - 10_000]))
    sync(log)
    log.delete_records(4)
    log.delete_old_segments(world.clock.now_ms(), T, only_below_start=True)
    assert log.log_start_offset == 4
    assert len(read_all(log)) > 0


@pytest.mark.parametrize("seed", range(20))
def test_what_was_acknowledged_survives_a_disk_that_fills_a_stop_and_a_crash(seed: int) -> None:
    world, random = World(seed), Random(seed)
    log = world.start()
    acknowledged = 0
    for number in range(60):
        if random.random() < 0.2:
            world.leave(random.choice((0, 5_000, 300_000, 12 * MIB)))
        if random.random() < 0.2:
            world.look()
        try:
            append(log, a_batch(value=bytes(random.randrange(20_000)) + b"%d" % number))
            sync(log)
        except (LogError, OSError):
            continue
        acknowledged = log.high_watermark
    is_stopped = seed % 2 == 0
    if is_stopped:
        world.store.close()
        world.files.kill()
    else:
        world.files.crash()
    world.boot()
    log = world.start(epoch=1)
    assert log.high_watermark >= acknowledged
    assert len(read_all(log)) >= acknowledged
    world.leave(DISK)
    world.look()
    append(log)
