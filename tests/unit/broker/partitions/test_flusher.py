"""The shared flush: who comes along, what is cut back, who goes offline."""

from __future__ import annotations

import errno
import gc
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.flusher import LATER_MS, Flusher
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.storage.durability import Background, SyncTicket
from klamm.storage.engines.postgresql.flushing import DatabaseRounds
from klamm.storage.engines.postgresql.rounds import PostgresRounds, RestOfRound
from klamm.storage.engines.segments.kernel_sync import KernelSync
from klamm.storage.engines.segments.rounds import SegmentRounds
from klamm.storage.engines.segments.sync import SegmentSyncTicket
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.storage.log import LogError
from klamm.testing.requests import a_batch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    """A broker that flushes every log by itself."""
    jar = Jar({"klamm.journal.round.bytes": "0"}, disk_delay_ms=0)
    jar.create_topic("t", partitions=3)
    jar.disk.delay_ms = 10
    yield jar
    jar.close()


def partition_of(jar: Jar, index: int = 0) -> Partition:
    partition = jar.services.partitions.get("t", index)
    assert partition is not None
    return partition


def errors(client: JarClient) -> list[int]:
    return [
        partition.error_code
        for answer in client.new_answers()
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def test_all_partitions_share_a_round_and_the_next_one_gathers_meanwhile(jar: Jar) -> None:
    client = jar.connect()

    def burst() -> bytes:
        return b"".join(
            client.request(ApiKey.PRODUCE, 9, a_produce(jar, partition=index)) for index in range(3)
        )

    client.send_bytes(burst())
    jar.pass_ms(5)
    client.send_bytes(burst())
    jar.loop.settle()
    client.send_bytes(burst())
    jar.pass_ms(6)
    assert errors(client) == [0] * 3
    jar.pass_ms(10)
    assert errors(client) == [0] * 6
    assert jar.services.flusher.rounds == 2


def test_a_partition_that_cannot_be_flushed_harms_no_other(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(20)
    codes = errors(client)
    assert sorted(codes) == [0, 0, 56]
    failed = codes.index(56)
    assert [partition_of(jar, index).log.log_end_offset for index in range(3)] == [
        0 if index == failed else 1 for index in range(3)
    ]


def test_the_log_of_a_deleted_partition_leaves_no_memory_behind(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(20)
    assert errors(client) == [0]
    left = weakref.ref(partition_of(jar).log)
    jar.delete_topic("t")
    jar.pass_ms(100_000)
    gc.collect()
    assert left() is None


def test_everything_that_waited_for_a_failed_flush_is_lost_and_what_follows_is_not(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(5)
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))  # behind the first, and cut off with it
    jar.pass_ms(30)
    assert errors(client) == [56, 56]
    assert partition_of(jar).log.log_end_offset == 0
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(30)
    assert errors(client) == [0]


def test_a_log_that_cannot_even_be_cut_back_is_offline(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))

    def refuse(ticket: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(partition_of(jar).log, "fail_sync", refuse)
    jar.files.faults.append(FailingOperation("sync"))
    jar.pass_ms(30)
    assert errors(client) == [56]
    assert partition_of(jar).error_code is ErrorCode.kafka_storage_error
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.pass_ms(30)
    assert errors(client) == [56, 0]


def append_unawaited(jar: Jar, partition: Partition) -> None:
    partition.log.append(a_batch(jar), now_ms=jar.clock.now_ms(), timestamp_ms=jar.clock.timestamp_ms())
    jar.services.flusher.mark_later(partition)


def test_what_nothing_waits_for_is_flushed_a_little_later(jar: Jar) -> None:
    append_unawaited(jar, partition_of(jar))
    jar.pass_ms(LATER_MS - 1)
    assert jar.services.flusher.rounds == 0
    jar.pass_ms(20)
    assert not partition_of(jar).durable.is_dirty


def test_what_nothing_waits_for_shares_the_next_flush_of_its_log(jar: Jar) -> None:
    append_unawaited(jar, partition_of(jar))
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(LATER_MS + 20)
    assert errors(client) == [0]
    assert partition_of(jar).log.high_watermark == 2
    assert jar.services.flusher.rounds == 1


def test_draining_does_not_leave_out_what_nothing_waits_for(jar: Jar) -> None:
    append_unawaited(jar, partition_of(jar))
    jar.loop.run(jar.services.flusher.drain())
    assert not partition_of(jar).durable.is_dirty


def test_draining_waits_for_every_round(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=1))
    jar.loop.run(jar.services.flusher.drain())
    assert not partition_of(jar).durable.is_dirty


def test_in_the_operating_systems_hands_appends_are_readable_at_once_and_flushed_by_count_and_time() -> None:
    jar = Jar({"klamm.flush": "os"})
    jar.create_topic("count", flush_messages=3)
    jar.create_topic("time", flush_ms=5000)
    jar.create_topic("never")
    client = jar.connect()
    for _ in range(2):
        for topic in ("count", "time", "never"):
            client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic=topic))
    jar.loop.settle()
    assert errors(client) == [0] * 6
    by_topic = {partition.topic: partition.durable for partition in jar.services.partitions}
    assert all(log.high_watermark == 2 and log.is_dirty for log in by_topic.values())
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic="count"))
    jar.loop.settle()
    assert not by_topic["count"].is_dirty
    jar.pass_ms(7000)
    assert not by_topic["time"].is_dirty
    assert by_topic["never"].is_dirty
    jar.close()


def test_internal_topics_wait_for_the_disk_also_then() -> None:
    jar = Jar({"klamm.flush": "os"})
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    jar.disk.delay_ms = 50
    client = jar.connect(client_id="__admin_client")
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic="__consumer_offsets"))
    jar.pass_ms(40)
    assert client.frames() == []
    jar.pass_ms(20)
    assert errors(client) == [0]
    jar.close()


# --- with the kernel's help ------------------------------------------------------------------------------


class Kernel:
    """A kernel that flushes when it is told to."""

    def __init__(self) -> None:
        self.readers: list[Callable[[], None]] = []
        self.tags: list[int] = []
        self.done: list[tuple[int, int]] = []
        self.room = 256
        self.takes = 256
        self.is_closed = False

    def fileno(self) -> int:
        return 99

    def submit(self, handles: Sequence[int], tags: Sequence[int]) -> int:
        self.tags += tags[: self.takes]
        return min(len(handles), self.takes)

    def arrived(self) -> list[tuple[int, int]]:
        done, self.done = self.done, []
        return done

    def close(self) -> None:
        self.is_closed = True

    def finish(self, *error_numbers: int) -> None:
        """Let everything arrive that is under way, in order; 0 or an error number for each."""
        self.done = list(zip(self.tags, error_numbers, strict=True))
        self.tags = []
        for reader in self.readers:
            reader()


@pytest.fixture
def kernel(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """The jar's logs are written once, so that there is nothing but files to flush, then get a kernel."""
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.pass_ms(30)
    kernel = Kernel()
    # A loop without sockets watches nothing: the kernel itself says when there is something to read.
    monkeypatch.setattr(jar.loop, "add_reader", lambda _, callback: kernel.readers.append(callback))
    monkeypatch.setattr(jar.loop, "remove_reader", lambda _: kernel.readers.clear())
    broker = Background(jar.loop, jar.disk, may_ask_kernel=True)
    rounds = partial(SegmentRounds, broker, open_kernel=lambda: cast(KernelSync, kernel))
    flusher = Flusher(jar.loop, jar.clock, rounds)
    jar.services.flusher = flusher
    yield kernel
    flusher.close()
    assert kernel.is_closed


def test_the_kernel_gets_what_is_nothing_but_files(jar: Jar, kernel: Kernel) -> None:
    client = jar.connect()
    calls = jar.disk.calls
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.loop.settle()
    assert len(kernel.tags) == 3
    assert errors(client) == []
    kernel.finish(0, 0, 0)
    jar.loop.settle()
    assert errors(client) == [0, 0, 0]
    assert jar.disk.calls == calls


def test_a_log_sets_out_again_when_it_has_arrived_and_waits_for_no_other(jar: Jar, kernel: Kernel) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=0))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.loop.settle()
    slow, quick = kernel.tags
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.loop.settle()
    assert kernel.tags == [slow, quick]
    kernel.tags = [quick]
    kernel.finish(0)
    jar.loop.settle()
    assert len(kernel.tags) == 1
    assert partition_of(jar, 0).log.high_watermark == 1
    assert partition_of(jar, 1).log.high_watermark == 2
    kernel.tags.append(slow)
    kernel.finish(0, 0)
    jar.loop.settle()
    assert errors(client) == [0, 0, 0]


def test_what_the_kernel_could_not_flush_is_cut_back(jar: Jar, kernel: Kernel) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(2)}))
    jar.loop.settle()
    kernel.finish(0, errno.EIO)
    jar.loop.settle()
    assert errors(client) == [0, 56]
    assert [partition_of(jar, index).log.log_end_offset for index in range(2)] == [2, 1]


@pytest.mark.parametrize("room", [0, 1])
def test_what_the_kernel_has_no_room_for_goes_by_threads(jar: Jar, kernel: Kernel, room: int) -> None:
    client = jar.connect()
    kernel.room = room
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.pass_ms(30)
    assert len(kernel.tags) == room
    kernel.finish(*[0] * room)
    jar.loop.settle()
    assert errors(client) == [0, 0, 0]


def test_of_a_log_taken_by_half_the_kernels_half_counts_too(
    jar: Jar, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = jar.connect()
    files_only = SegmentSyncTicket.files_only
    monkeypatch.setattr(SegmentSyncTicket, "files_only", lambda ticket: [*(files_only(ticket) or ())] * 2)
    kernel.takes = 1
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(30)
    assert errors(client) == [], "the thread has flushed all of it"
    kernel.finish(errno.EIO)
    jar.loop.settle()
    assert errors(client) == [56]
    assert partition_of(jar).log.log_end_offset == 1


def test_a_log_taken_by_half_is_not_flushed_while_its_other_half_waits_for_a_thread(
    jar: Jar, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a single thread, which is busy with another log
    monkeypatch.setattr("klamm.storage.engines.segments.rounds.LANES", 1)
    client = jar.connect()
    kernel.room = 0
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=0))
    jar.loop.settle()
    # When the kernel accepts and finishes one of two files
    files_only = SegmentSyncTicket.files_only
    monkeypatch.setattr(SegmentSyncTicket, "files_only", lambda ticket: [*(files_only(ticket) or ())] * 2)
    kernel.room, kernel.takes = 256, 1
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.loop.settle()
    kernel.finish(0)
    jar.loop.settle()
    # Then nothing is acknowledged until the thread has flushed the other
    assert partition_of(jar, 1).log.high_watermark == 1
    jar.pass_ms(30)
    assert partition_of(jar, 1).log.high_watermark == 2
    assert errors(client) == [0, 0]


class SharedRounds:
    """Flushes segment logs as a database would: all of them in one call, on the event loop or on a thread."""

    def __init__(self, *, on_loop: bool) -> None:
        self._on_loop = on_loop
        self.sizes: list[int] = []
        self.outcome: Exception | None = None

    def start(
        self,
        tickets: Sequence[SyncTicket],
        loop: AbstractEventLoop,
        when_done: Callable[[RestOfRound | None], None],
    ) -> None:
        def flush() -> Sequence[Exception | None]:
            self.sizes.append(len(tickets))
            for ticket in tickets:
                ticket.run()
            return [self.outcome] * len(tickets)

        def answer() -> None:
            if self.outcome is None:
                flush()
                when_done(None)
            else:
                when_done(flush)

        if self._on_loop:
            loop.call_later(0.01, answer)
        else:
            when_done(flush)


def shared_rounds(jar: Jar, *, on_loop: bool) -> SharedRounds:
    """The broker flushes by them from now on."""
    rounds, broker = SharedRounds(on_loop=on_loop), Background(jar.loop, jar.disk)
    make_rounds = partial(DatabaseRounds, cast(PostgresRounds, rounds), broker)
    jar.services.flusher = Flusher(jar.loop, jar.clock, make_rounds, wake=jar.services.partitions.wake)
    return rounds


@pytest.fixture(params=[True, False], ids=["on the loop", "on a thread"])
def rounds(jar: Jar, request: pytest.FixtureRequest) -> SharedRounds:
    return shared_rounds(jar, on_loop=request.param)


def test_logs_of_one_store_are_flushed_by_one_call_and_gather_while_it_runs(
    jar: Jar, rounds: SharedRounds
) -> None:
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(5)
    for index in (1, 2, 1):
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=index))
        jar.loop.settle()
    assert rounds.sizes in ([], [1]), "the others wait, although their logs are not being flushed"
    jar.pass_ms(30)
    assert rounds.sizes == [1, 2]
    assert errors(client) == [0] * 4


def test_clients_that_take_turns_share_a_round_after_a_pause(jar: Jar) -> None:
    rounds = shared_rounds(jar, on_loop=True)  # each takes 10 ms
    one, two = jar.connect(), jar.connect()
    one.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(5)
    two.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.pass_ms(6)
    assert errors(one) == [0]
    one.send(ApiKey.PRODUCE, 9, a_produce(jar))  # comes back soon, when the other's round is under way
    jar.pass_ms(10)
    assert errors(two) == [0]
    assert rounds.sizes == [1, 1]
    two.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))  # comes back soon, too
    jar.pass_ms(11)
    assert rounds.sizes == [1, 1, 2]
    assert errors(one) == errors(two) == [0]


def test_a_pause_does_not_outlast_a_round(jar: Jar) -> None:
    rounds = shared_rounds(jar, on_loop=True)
    one, two = jar.connect(), jar.connect()
    one.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(5)
    two.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    jar.pass_ms(6)
    one.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(10)
    # When the other does not come back
    jar.pass_ms(20)
    assert rounds.sizes == [1, 1, 1]
    assert errors(one) == [0, 0]
    # Then the broker stops without delay
    one.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.run(jar.services.flusher.drain())
    assert rounds.sizes == [1, 1, 1, 1]


def test_a_log_that_is_fenced_answers_what_is_durable_and_stops(jar: Jar, rounds: SharedRounds) -> None:
    client = jar.connect()
    rounds.outcome = LogError(ErrorCode.not_leader_or_follower, "epoch 1 leads it")
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(30)
    assert errors(client) == [ErrorCode.not_leader_or_follower]
    assert partition_of(jar).error_code is ErrorCode.not_leader_or_follower
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, partition=1))
    rounds.outcome = None
    jar.pass_ms(30)
    assert errors(client) == [0]
