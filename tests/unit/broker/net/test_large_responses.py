"""Large responses: sent as the client accepts them, a part per turn of the loop."""

from __future__ import annotations

import asyncio
import errno
import struct
from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.net.outbox import MANY_BLOCKED, PART_BYTES, SMALL_PART_BYTES, TURN_BYTES
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.fetch import FetchRequest, FetchResponse
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.records.batch import crc_is_valid, iter_headers
from klamm.storage.engines.segments.slices import PinnedFile
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def metadata() -> MetadataRequest:
    return MetadataRequest(None)


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def fill(jar: Jar, client: JarClient, batches: int) -> None:
    for number in range(batches):
        value = bytes([number]) * 1_000_000
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=value)))


def sound_batches(response: FetchResponse) -> int:
    """How many batches a response brings, one behind the other and unharmed."""
    records = response.responses[0].partitions[0].records
    assert records is not None
    found = list(iter_headers(records))
    for number, (position, header) in enumerate(found):
        assert header.base_offset == number
        assert crc_is_valid(records, position, header)
    return len(found)


def fetch_all(jar: Jar) -> FetchRequest:
    return a_fetch(jar, offset=0, max_bytes=50_000_000, partition_max_bytes=50_000_000)


def test_a_large_response_is_read_as_the_client_accepts_it(jar: Jar, client: JarClient) -> None:
    fill(jar, client, 20)
    client.transport.received.clear()
    client.transport.reads = False
    client.send(ApiKey.FETCH, 12, fetch_all(jar))
    client.send(ApiKey.METADATA, 12, metadata())
    jar.loop.settle()
    # What is in memory is a part of it
    assert len(client.transport.unread) <= 2 * PART_BYTES
    client.transport.read_on()
    jar.loop.settle()
    fetched, described = (response for _, response in client.answers()[-2:])
    assert sound_batches(fetched) == 20
    assert len(described.topics) == 1


def test_a_large_response_of_a_deleted_topic_is_still_sent_whole(jar: Jar, client: JarClient) -> None:
    fill(jar, client, 5)
    client.transport.received.clear()
    client.transport.reads = False
    client.send(ApiKey.FETCH, 12, fetch_all(jar))
    jar.loop.settle()
    jar.delete_topic("t")
    jar.pass_ms(120_000)
    client.transport.read_on()
    jar.loop.settle()
    ((_, fetched),) = client.answers()
    assert sound_batches(fetched) == 5


def test_many_clients_share_a_turn_of_the_loop(jar: Jar, client: JarClient) -> None:
    fill(jar, client, 8)
    greedy = [jar.connect() for _ in range(5)]
    sent: list[int] = []

    async def arrive() -> None:
        for each in greedy:
            each.protocol.data_received(each.request(ApiKey.FETCH, 12, fetch_all(jar)))
        sent.append(sum(len(each.transport.received) for each in greedy))
        await asyncio.sleep(0)
        sent.append(sum(len(each.transport.received) for each in greedy))

    jar.loop.run(arrive())
    assert sent[0] <= 2 * TURN_BYTES
    assert sent[1] - sent[0] <= 2 * TURN_BYTES
    jar.loop.settle()
    for each in greedy:
        ((_, fetched),) = each.answers()
        assert len(fetched.responses[0].partitions[0].records) > 8_000_000


def test_when_many_clients_do_not_read_each_of_them_costs_less(jar: Jar, client: JarClient) -> None:
    fill(jar, client, 8)
    stuck = [jar.connect() for _ in range(MANY_BLOCKED + 20)]
    for each in stuck:
        each.transport.reads = False
        each.send(ApiKey.FETCH, 12, fetch_all(jar))
    jar.loop.settle()
    assert max(len(each.transport.unread) for each in stuck[MANY_BLOCKED:]) <= 3 * SMALL_PART_BYTES
    for each in stuck:
        each.close()
    jar.loop.settle()
    assert jar.broker.server.blocked_count == 0


def test_a_response_that_cannot_be_read_costs_its_connection(
    jar: Jar, client: JarClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(jar, client, 5)

    def refuse(file: object, position: int, length: int) -> bytes:
        raise OSError(errno.EIO, "the disk is gone")

    client.transport.reads = False
    client.send(ApiKey.FETCH, 12, fetch_all(jar))
    jar.loop.settle()
    monkeypatch.setattr(PinnedFile, "read", refuse)
    client.transport.read_on()
    jar.loop.settle()
    assert client.is_closed
    assert "sending a response to 10.0.0.1:50000 failed" in caplog.text
    assert len(jar.connect().ask(ApiKey.METADATA, 5, metadata()).topics) == 1


def test_a_client_that_does_not_read_is_idle_in_the_end(jar: Jar, client: JarClient) -> None:
    fill(jar, client, 5)
    client.transport.reads = False
    for _ in range(3):
        client.send(ApiKey.FETCH, 12, fetch_all(jar))
    jar.pass_ms(590_000)
    assert not client.is_closed
    jar.pass_ms(20_000)
    assert client.is_closed


def test_the_rest_of_a_large_response_is_sent_before_a_bad_request_closes_the_connection(
    jar: Jar, client: JarClient
) -> None:
    fill(jar, client, 5)
    client.transport.received.clear()
    client.transport.reads = False
    client.send(ApiKey.FETCH, 12, fetch_all(jar))
    client.send_bytes(frame(struct.pack(">hhih", 999, 0, 7, -1)))
    jar.loop.settle()
    assert not client.is_closed
    client.transport.read_on()
    jar.loop.settle()
    ((_, fetched),) = client.answers()
    assert sound_batches(fetched) == 5
    assert client.is_closed
