"""Rounds of the journal that the kernel flushes: requests are held until it reports, others are served."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.flusher import Flusher
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.storage.durability import Background
from klamm.storage.engines.segments.kernel_sync import KernelSync
from klamm.storage.engines.segments.rounds import SegmentRounds
from klamm.testing.requests import a_batch, a_produce


class Kernel:
    """Flushes when it is told to."""

    def __init__(self) -> None:
        self.readers: list[Callable[[], None]] = []
        self.tags: list[int] = []
        self.outcome = 0
        self.room = 256

    def fileno(self) -> int:
        return 99

    def submit(self, handles: Sequence[int], tags: Sequence[int]) -> int:
        self.tags += tags
        return len(handles)

    def arrived(self) -> list[tuple[int, int]]:
        tags, self.tags = self.tags, []
        return [(tag, self.outcome) for tag in tags]

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
def kernel(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """The jar's logs are written once, so that the journal can take them, and once so that there is one whose
    name is on disk; then they get a kernel.
    """
    client = jar.connect()
    for _ in range(2):
        batches = {("t", index): a_batch(jar) for index in range(3)}
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))
        jar.pass_ms(30)
    kernel = Kernel()
    monkeypatch.setattr(jar.loop, "add_reader", lambda _, callback: kernel.readers.append(callback))
    monkeypatch.setattr(jar.loop, "remove_reader", lambda _: None)
    wake = jar.services.partitions.wake
    broker = Background(jar.loop, jar.disk, may_ask_kernel=True)
    rounds = partial(SegmentRounds, broker, open_kernel=lambda: cast(KernelSync, kernel))
    flusher = Flusher(jar.loop, jar.clock, rounds, wake=wake)
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


def test_a_lone_request_waits_for_the_disk_and_others_do_not(jar: Jar, kernel: Kernel) -> None:
    client, other = jar.connect(), jar.connect()
    for _ in range(2):
        client.send(ApiKey.PRODUCE, 9, a_produce(jar))
        jar.loop.settle()
        assert (errors(client), len(kernel.tags)) == ([], 1)
        other.send(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
        assert len(other.new_answers()) == 1
        kernel.finish()
        jar.loop.settle()
        assert errors(client) == [0]
    assert jar.services.flusher.journal_rounds == 2
    assert ends(jar) == [4, 2, 2]


def test_requests_that_come_during_a_round_share_the_next(jar: Jar, kernel: Kernel) -> None:
    clients = [jar.connect() for _ in range(3)]
    for client in clients:
        client.send(ApiKey.PRODUCE, 9, a_produce(jar))
        jar.loop.settle()
    assert len(kernel.tags) == 1
    kernel.finish()
    jar.loop.settle()
    assert ([errors(client) for client in clients], len(kernel.tags)) == ([[0], [], []], 1)
    kernel.finish()
    jar.loop.settle()
    assert [errors(client) for client in clients] == [[], [0], [0]]


def test_a_failure_cuts_the_log_back_and_the_next_request_is_served(jar: Jar, kernel: Kernel) -> None:
    client = jar.connect()
    for outcome, error, end in ((errno.EIO, 56, 2), (0, 0, 3)):
        kernel.outcome = outcome
        client.send(ApiKey.PRODUCE, 9, a_produce(jar))
        jar.loop.settle()
        kernel.finish()
        jar.loop.settle()
        assert errors(client) == [error]
        assert ends(jar) == [end, 2, 2]
