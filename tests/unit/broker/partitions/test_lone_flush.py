"""A flush that one request waits for: the broker waits with it, if the disk is quick."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.flusher import Flusher
from klamm.protocol.api import ApiKey
from klamm.storage.engines.segments.kernel_sync import KernelSync
from klamm.testing.requests import a_batch, a_produce


class QuickKernel:
    """Has synced a file when it returns, unless it rests; or flushes when it is told to."""

    def __init__(self) -> None:
        self.readers: list[Callable[[], None]] = []
        self.tags: list[int] = []
        self.outcome: int | None = 0
        self.waits = 0
        self.room = 256

    def fileno(self) -> int:
        return 99

    def sync_now(self, handle: int) -> int | None:
        self.waits += self.outcome is not None
        return self.outcome

    def submit(self, handles: Sequence[int], tags: Sequence[int]) -> int:
        self.tags += tags
        return len(handles)

    def arrived(self) -> list[tuple[int, int]]:
        tags, self.tags = self.tags, []
        return [(tag, 0) for tag in tags]

    def close(self) -> None:
        self.readers.clear()

    def finish(self) -> None:
        for reader in self.readers:
            reader()


@pytest.fixture
def jar() -> Iterator[Jar]:
    """A broker with a journal."""
    jar = Jar(disk_delay_ms=0)
    jar.create_topic("t", partitions=3)
    yield jar
    jar.close()


@pytest.fixture
def kernel(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuickKernel]:
    """The jar's logs are written once, so that the journal can take them, then get a kernel."""
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches={("t", index): a_batch(jar) for index in range(3)}))
    jar.pass_ms(30)
    kernel = QuickKernel()
    monkeypatch.setattr(jar.loop, "add_reader", lambda _, callback: kernel.readers.append(callback))
    monkeypatch.setattr(jar.loop, "remove_reader", lambda _: None)
    wake = jar.services.partitions.wake
    flusher = Flusher(jar.loop, jar.clock, jar.disk, lambda: cast(KernelSync, kernel), wake=wake)
    jar.services.flusher = flusher
    yield kernel
    flusher.close()


def errors(client: JarClient) -> list[int]:
    return [
        partition.error_code
        for answer in client.new_answers()
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def ends(jar: Jar) -> list[int]:
    partitions = [jar.services.partitions.get("t", index) for index in range(3)]
    return [each.log.log_end_offset for each in partitions if each is not None]


def test_a_lone_request_is_answered_as_soon_as_the_disk_has_it(jar: Jar, kernel: QuickKernel) -> None:
    client = jar.connect()
    for _ in range(2):
        client.send(ApiKey.PRODUCE, 9, a_produce(jar))
        jar.loop.settle()
        assert errors(client) == [0]
    assert (kernel.waits, kernel.tags) == (2, [])
    assert jar.services.flusher.journal_rounds == 2
    assert ends(jar) == [3, 1, 1]


def test_requests_of_one_turn_are_flushed_while_others_are_decided(jar: Jar, kernel: QuickKernel) -> None:
    first, second = jar.connect(), jar.connect()

    async def one_turn_of_the_loop() -> None:
        for client in (first, second):
            client.send_bytes(client.request(ApiKey.PRODUCE, 9, a_produce(jar)))

    jar.loop.run(one_turn_of_the_loop())
    jar.loop.settle()
    assert (kernel.waits, len(kernel.tags)) == (0, 1)
    kernel.finish()
    jar.loop.settle()
    assert errors(first) == errors(second) == [0]


def test_nothing_waits_for_a_disk_that_was_slow(jar: Jar, kernel: QuickKernel) -> None:
    kernel.outcome = None
    client = jar.connect()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    assert (errors(client), len(kernel.tags)) == ([], 1)
    # What comes meanwhile shares the next round, also if it is alone there
    kernel.outcome = 0
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    assert (errors(client), kernel.waits) == ([], 0)
    kernel.finish()
    jar.loop.settle()
    assert (errors(client), kernel.waits) == ([0, 0], 1)


def test_a_failure_cuts_the_log_back_and_the_next_request_is_served(jar: Jar, kernel: QuickKernel) -> None:
    client = jar.connect()
    kernel.outcome = errno.EIO
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    assert errors(client) == [56]
    assert ends(jar) == [1, 1, 1]
    kernel.outcome = 0
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    assert errors(client) == [0]
    assert ends(jar) == [2, 1, 1]
