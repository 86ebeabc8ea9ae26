"""Memory of requests: which connections stop reading at queued.max.request.bytes, and which go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.net.memory import SMALL_REQUEST_BYTES, STALLED_MS, RequestMemory
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.requests import a_batch, a_fetch, a_produce

LIMIT_BYTES = 100_000
LARGE_BYTES = 150_000
DISK_MS = 50

NewJar = Callable[..., Jar]


@pytest.fixture
def new_jar() -> Iterator[NewJar]:
    """Brokers whose clients have all gone in the end, and left nothing in the accounts."""
    jars: list[Jar] = []

    def new_jar(**settings: object) -> Jar:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        jar = Jar({"queued.max.request.bytes": str(LIMIT_BYTES), **named}, disk_delay_ms=DISK_MS)
        jars.append(jar)
        jar.create_topic("t")
        return jar

    yield new_jar
    for jar in jars:
        for connection in jar.broker.server.connections:
            connection.abort()
        jar.pass_ms(1000)
        memory = memory_of(jar)
        assert (memory.held_bytes, memory.pending_bytes) == (0, 0)
        assert not memory.waiting
        assert not memory.pending
        jar.close()


@pytest.fixture
def jar(new_jar: NewJar) -> Jar:
    return new_jar()


def memory_of(jar: Jar) -> RequestMemory:
    return jar.broker.server.request_memory


def large_produce(jar: Jar, client: JarClient) -> bytes:
    request = a_produce(jar, a_batch(jar, value=bytes(LARGE_BYTES)))
    return client.request(ApiKey.PRODUCE, 9, request)


def begin_large_produce(jar: Jar, client: JarClient) -> bytes:
    """Send the first bytes of a large request; the others."""
    data = large_produce(jar, client)
    client.send_bytes(data[:1000])
    jar.loop.settle()
    return data[1000:]


def send(jar: Jar, client: JarClient, data: bytes) -> list[Any]:
    """The responses that come before the disk is due."""
    client.send_bytes(data)
    jar.loop.settle()
    return client.new_answers()


def is_answered(jar: Jar, client: JarClient) -> bool:
    """Whether a small request is read and answered at once."""
    assert not client.transport.is_unread()
    return len(send(jar, client, client.request(ApiKey.METADATA, 5, MetadataRequest(None)))) == 1


def test_when_requests_that_wait_for_the_disk_reach_the_limit_every_client_waits_for_it(jar: Jar) -> None:
    producer, other = jar.connect(), jar.connect()
    assert send(jar, producer, large_produce(jar, producer)) == []
    assert producer.transport.is_unread()
    assert is_answered(jar, other)  # what is read already is served
    assert other.transport.is_unread()

    jar.pass_ms(DISK_MS)

    assert len(producer.new_answers()) == 1
    assert is_answered(jar, producer)
    assert is_answered(jar, other)


def test_below_the_limit_no_client_stops_reading(jar: Jar) -> None:
    producer, other = jar.connect(), jar.connect()
    small = producer.request(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(LIMIT_BYTES // 2))))
    assert send(jar, producer, small) == []
    assert memory_of(jar).held_bytes == len(small) - 4
    assert not producer.transport.is_unread()
    assert is_answered(jar, other)
    assert not other.transport.is_unread()


@pytest.mark.parametrize("limit", [-1, 0])
def test_without_a_limit_no_client_stops_reading(new_jar: NewJar, limit: int) -> None:
    jar = new_jar(queued_max_request_bytes=limit)
    clients = [jar.connect() for _ in range(10)]
    for client in clients:
        begin_large_produce(jar, client)
    assert send(jar, clients[0], bytes(0)) == []
    assert not any(client.transport.is_unread() for client in clients)


def test_a_request_that_is_being_received_is_completed_above_the_limit(jar: Jar) -> None:
    early, late = jar.connect(), jar.connect()
    rest = begin_large_produce(jar, early)
    assert send(jar, late, large_produce(jar, late)) == []
    assert memory_of(jar).held_bytes > LIMIT_BYTES
    assert not early.transport.is_unread()
    early.send_bytes(rest)
    jar.pass_ms(2 * DISK_MS + 1)
    assert len(early.new_answers()) == len(late.new_answers()) == 1


def test_a_small_request_is_completed_above_the_limit(jar: Jar) -> None:
    early, late = jar.connect(), jar.connect()
    data = early.request(ApiKey.METADATA, 5, MetadataRequest(None))
    early.send_bytes(data[:10])
    assert send(jar, late, large_produce(jar, late)) == []
    early.send_bytes(data[10:12])
    assert not early.transport.is_unread()
    assert len(send(jar, early, data[12:])) == 1


def test_a_request_larger_than_the_limit_is_received_when_there_is_any_room(new_jar: NewJar) -> None:
    jar = new_jar(queued_max_request_bytes=1)
    client = jar.connect()
    for _ in range(2):
        client.send_bytes(begin_large_produce(jar, client))
        jar.pass_ms(DISK_MS + 1)
        assert len(client.new_answers()) == 1


def test_while_a_large_request_is_received_other_large_ones_wait_and_small_ones_do_not(jar: Jar) -> None:
    first, second, third, other = (jar.connect() for _ in range(4))
    rest = begin_large_produce(jar, first)
    second_rest, third_rest = begin_large_produce(jar, second), begin_large_produce(jar, third)
    assert not first.transport.is_unread()
    assert second.transport.is_unread()
    assert third.transport.is_unread()
    assert is_answered(jar, other)
    assert not other.transport.is_unread()

    first.send_bytes(rest)
    jar.pass_ms(DISK_MS + 1)

    # Then the next in line is received, and after it the last
    assert len(first.new_answers()) == 1
    assert not second.transport.is_unread()
    assert third.transport.is_unread()
    second.send_bytes(second_rest)
    jar.pass_ms(DISK_MS + 1)
    assert not third.transport.is_unread()
    third.send_bytes(third_rest)
    jar.pass_ms(DISK_MS + 1)
    assert len(second.new_answers()) == len(third.new_answers()) == 1


def test_each_large_request_of_a_connection_asks_for_room_of_its_own(jar: Jar) -> None:
    first, second = jar.connect(), jar.connect()
    rest = begin_large_produce(jar, first)
    begin_large_produce(jar, second)
    first.send_bytes(rest + large_produce(jar, first)[:1000])
    assert first.transport.is_unread()
    jar.pass_ms(DISK_MS + 1)
    assert not second.transport.is_unread()  # it has waited longer
    assert first.transport.is_unread()


def test_a_client_that_goes_away_in_the_middle_of_a_request_leaves_its_room_to_others(jar: Jar) -> None:
    first, second = jar.connect(), jar.connect()
    begin_large_produce(jar, first)
    begin_large_produce(jar, second)
    assert second.transport.is_unread()
    first.close()
    jar.loop.settle()
    assert not second.transport.is_unread()


def test_a_client_that_sends_no_further_is_closed_when_others_wait_for_its_room(
    jar: Jar, caplog: pytest.LogCaptureFixture
) -> None:
    stalled, waiting = jar.connect(), jar.connect()
    begin_large_produce(jar, stalled)
    jar.pass_ms(2 * STALLED_MS)
    assert not stalled.transport.is_closing()  # no other client waits

    rest = begin_large_produce(jar, waiting)
    with caplog.at_level(logging.WARNING):
        jar.pass_ms(1100)
    assert stalled.is_closed
    assert "queued.max.request.bytes" in caplog.text
    assert not waiting.transport.is_unread()
    waiting.send_bytes(rest)
    jar.pass_ms(DISK_MS + 1)
    assert len(waiting.new_answers()) == 1


def test_a_client_that_sends_slowly_is_not_closed(jar: Jar) -> None:
    slow, waiting = jar.connect(), jar.connect()
    rest = begin_large_produce(jar, slow)
    begin_large_produce(jar, waiting)
    for start in range(0, len(rest), 40_000):
        jar.pass_ms(STALLED_MS - 2000)
        slow.send_bytes(rest[start : start + 40_000])
    jar.pass_ms(DISK_MS + 1)
    assert not slow.is_closed
    assert len(slow.new_answers()) == 1
    assert not waiting.is_closed


def test_a_client_that_reads_no_responses_is_closed_when_others_wait_for_its_room(jar: Jar) -> None:
    stalled, waiting = jar.connect(), jar.connect()
    stalled.transport.reads = False
    stalled.transport.high_water_bytes = 1
    stalled.send_bytes(stalled.request(ApiKey.METADATA, 5, MetadataRequest(None)))
    stalled.send_bytes(large_produce(jar, stalled))
    begin_large_produce(jar, waiting)
    assert waiting.transport.is_unread()
    jar.pass_ms(STALLED_MS + 1100)
    assert stalled.is_closed
    assert not waiting.transport.is_unread()


def test_a_request_that_waits_for_an_event_does_not_count(new_jar: NewJar) -> None:
    jar = new_jar(queued_max_request_bytes=1)
    consumer, producer = jar.connect(), jar.connect()
    consumer.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=10_000))
    assert memory_of(jar).held_bytes == memory_of(jar).pending_bytes == 0
    # What it waits for can be received
    producer.send_bytes(begin_large_produce(jar, producer))
    jar.pass_ms(DISK_MS + 1)
    assert len(consumer.new_answers()) == len(producer.new_answers()) == 1


def test_a_client_that_waits_for_room_is_not_idle(new_jar: NewJar) -> None:
    jar = new_jar(connections_max_idle_ms=1000)
    producer, other = jar.connect(), jar.connect()
    jar.disk.delay_ms = 5000
    assert send(jar, producer, large_produce(jar, producer)) == []
    assert is_answered(jar, other)
    jar.pass_ms(4000)
    assert not other.is_closed
    jar.pass_ms(1100)
    assert is_answered(jar, other)
    assert len(producer.new_answers()) == 1


def test_a_connection_that_is_being_closed_gives_back_what_was_not_decided(jar: Jar) -> None:
    client = jar.connect()
    client.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=500))
    client.send_bytes(large_produce(jar, client))
    assert memory_of(jar).pending_bytes > SMALL_REQUEST_BYTES
    client.protocol.stop()
    assert memory_of(jar).pending_bytes == 0


def test_what_is_answered_or_waits_for_the_disk_is_not_counted_as_received_too(new_jar: NewJar) -> None:
    jar = new_jar(queued_max_request_bytes=LARGE_BYTES + 50_000)
    client = jar.connect()
    rest = begin_large_produce(jar, client)
    client.send_bytes(rest + large_produce(jar, client)[:1000])
    assert memory_of(jar).held_bytes > LARGE_BYTES
    assert not client.transport.is_unread()


def test_a_client_whose_request_waits_for_the_broker_is_not_closed(jar: Jar) -> None:
    patient, waiting = jar.connect(), jar.connect()
    patient.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=3 * STALLED_MS))
    patient.send_bytes(large_produce(jar, patient))
    begin_large_produce(jar, waiting)
    assert waiting.transport.is_unread()
    jar.pass_ms(2 * STALLED_MS)
    assert not patient.is_closed
    jar.pass_ms(STALLED_MS + DISK_MS + 1)
    assert len(patient.new_answers()) == 2
    assert not waiting.transport.is_unread()
