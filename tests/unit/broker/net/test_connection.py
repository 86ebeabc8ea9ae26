"""Connections: order, bounds, bad input, ends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.net.context import RequestContext
from klamm.broker.net.intake import MAX_UNDECIDED
from klamm.broker.net.outbox import AT_ONCE
from klamm.broker.net.throttling import Quotas, throttled
from klamm.broker.services import Services
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.testing.requests import a_batch, a_fetch, a_produce
from klamm.testing.wire import request_bytes


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


def log_end(jar: Jar, topic: str = "t") -> int:
    partition = jar.services.partitions.get(topic, 0)
    assert partition is not None
    return partition.log.log_end_offset


def test_pipelined_requests_are_answered_in_order_with_their_own_numbers(jar: Jar, client: JarClient) -> None:
    data = b"".join(
        request_bytes(ApiKey.METADATA, 5, metadata(), correlation_id=number) for number in (5, 5, 9)
    )
    client.send_bytes(data)
    jar.loop.settle()
    assert [struct.unpack(">i", each[:4])[0] for each in client.frames()] == [5, 5, 9]
    assert client.transport.writes == 1  # one burst in, one burst out


def test_a_request_that_comes_byte_by_byte_is_served(jar: Jar, client: JarClient) -> None:
    for byte in client.request(ApiKey.METADATA, 12, metadata()):
        client.send_bytes(bytes([byte]))
    jar.loop.settle()
    assert len(client.new_answers()) == 1


@pytest.mark.parametrize("version", [99, -1, 5])
def test_api_versions_in_an_unknown_version_is_answered_as_version_0(
    jar: Jar, client: JarClient, version: int
) -> None:
    client.send_bytes(frame(struct.pack(">hhih", 18, version, 7, -1)))
    jar.loop.settle()
    assert bytes(client.transport.received) == bytes.fromhex("00000010000000070023000000010012 00000004")
    client.transport.received.clear()
    assert client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("kafka", "1")).error_code == 0


def test_an_unknown_version_of_api_versions_waits_its_turn(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=100))
    client.send_bytes(frame(struct.pack(">hhih", 18, 99, 7, -1)))
    jar.pass_ms(50)
    assert client.frames() == []
    jar.pass_ms(60)
    assert [struct.unpack(">i", each[:4])[0] for each in client.frames()] == [1, 7]


def test_the_answer_to_api_versions_has_no_tags_in_its_header(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("kafka", "1"))
    jar.loop.settle()
    (answer,) = client.frames()
    assert answer[:6] == b"\0\0\0\1\0\0"  # correlation id, then at once the error code


@pytest.mark.parametrize("name", ["kafka!", "", "-x", "x.", "a b"])
def test_a_client_must_name_its_software_properly(jar: Jar, client: JarClient, name: str) -> None:
    answer = client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest(name, "1"))
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.api_keys == []
    assert not answer.finalized_features
    assert answer.finalized_features_epoch == -1
    assert not client.is_closed


def test_features_are_told_as_each_version_can_bear_them(jar: Jar, client: JarClient) -> None:
    third = client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("kafka", "1"))
    fourth = client.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("kafka", "1"))
    for answer in (third, fourth):
        assert {
            (each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features
        } == {("transaction.version", 2, 2), ("group.version", 1, 1)}
        assert answer.finalized_features_epoch >= 0
    assert not third.supported_features
    assert {(each.name, each.min_version, each.max_version) for each in fourth.supported_features} == {
        ("transaction.version", 0, 2),
        ("group.version", 0, 1),
    }


def test_api_versions_tells_what_the_routes_serve_in_ascending_order(jar: Jar, client: JarClient) -> None:
    answer = client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    told = [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    assert told == sorted(told)
    assert told[0] == (0, 0, 13)  # Produce is served from 3 on, and told from 0 on
    assert (1, 4, 18) in told
    served = {route.api_key for route in jar.services.routes.routes}
    assert {key for key, _, _ in told} == served - OWN_APIS


def test_unknown_tags_in_header_and_body_are_skipped(jar: Jar, client: JarClient) -> None:
    header = struct.pack(">hhih", 3, 12, 4, -1) + b"\x02\x05\x02ab\x63\x00"
    body = b"\x01\x00\x00\x01\x07\x03xyz"  # no topics, no creation, no operations, one tag
    client.send_bytes(frame(header + body))
    jar.loop.settle()
    (answer,) = client.frames()
    assert answer[:4] == b"\0\0\0\4"


def test_a_parked_fetch_holds_up_its_own_connection_and_no_other(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=500))
    client.send(ApiKey.METADATA, 5, metadata())
    jar.pass_ms(400)
    assert client.frames() == []
    assert len(jar.connect().ask(ApiKey.METADATA, 5, metadata()).topics) == 1
    jar.pass_ms(110)
    assert [number for number, _ in client.answers()] == [1, 2]


def test_nothing_behind_a_parked_request_is_decided(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=500))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(400)
    assert log_end(jar) == 0
    jar.pass_ms(200)
    assert log_end(jar) == 1


def test_five_pipelined_produces_share_one_flush(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 10
    before = jar.services.flusher.rounds
    client.send_bytes(
        b"".join(
            client.request(
                ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, producer_id=7, base_sequence=number))
            )
            for number in range(5)
        )
    )
    jar.pass_ms(5)
    assert log_end(jar) == 5
    assert client.frames() == []
    jar.pass_ms(10)
    answers = client.answers()
    assert [number for number, _ in answers] == [1, 2, 3, 4, 5]
    assert [answer.responses[0].partition_responses[0].base_offset for _, answer in answers] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert jar.services.flusher.rounds == before + 1


def test_a_quick_answer_waits_behind_a_held_one(jar: Jar, client: JarClient) -> None:
    jar.disk.delay_ms = 10
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    client.send(ApiKey.METADATA, 5, metadata())
    jar.pass_ms(5)
    assert client.frames() == []
    jar.pass_ms(10)
    assert [number for number, _ in client.answers()] == [1, 2]


def test_a_producer_without_acks_may_send_and_hang_up(jar: Jar, client: JarClient) -> None:
    client.send_bytes(b"".join(client.request(ApiKey.PRODUCE, 9, a_produce(jar, acks=0)) for _ in range(10)))
    client.close()
    jar.loop.settle()
    assert log_end(jar) == 10


def test_whole_requests_behind_a_parked_one_are_carried_out_when_the_peer_goes(
    jar: Jar, client: JarClient
) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=30_000))
    for _ in range(3):
        client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=3, max_wait_ms=30_000))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    client.close()
    jar.loop.settle()
    assert log_end(jar) == 4
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    assert not partition.watchers


def test_a_parked_request_is_forgotten_when_its_peer_goes(jar: Jar, client: JarClient) -> None:
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=30_000))
    jar.loop.settle()
    assert len(partition.watchers) == 1
    client.close()
    jar.loop.settle()
    assert not partition.watchers
    assert jar.broker.server.connection_count == 0


def test_reading_ahead_ends_at_64_undecided_requests(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=500))
    for _ in range(MAX_UNDECIDED - 1):
        client.send(ApiKey.METADATA, 5, metadata())
    assert not client.transport.is_unread()
    client.send(ApiKey.METADATA, 5, metadata())
    assert client.transport.is_unread()
    jar.pass_ms(510)
    assert not client.transport.is_unread()
    assert len(client.frames()) == MAX_UNDECIDED + 1


def test_reading_ahead_ends_at_one_mebibyte(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=500))
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(600_000))))
    assert not client.transport.is_unread()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(600_000))))
    assert client.transport.is_unread()
    jar.pass_ms(510)
    assert not client.transport.is_unread()
    assert log_end(jar) == 2


def test_the_next_request_of_a_slow_reader_waits_until_it_has_read(jar: Jar, client: JarClient) -> None:
    for _ in range(8):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, a_batch(jar, value=bytes(1_000_000))))
    client.transport.reads = False
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_bytes=10_000_000))
    jar.loop.settle()
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(1000)
    assert client.transport.is_unread()
    assert log_end(jar) == 8
    assert len(jar.connect().ask(ApiKey.METADATA, 5, metadata()).topics) == 1
    client.transport.read_on()
    jar.loop.settle()
    assert log_end(jar) == 9
    assert not client.transport.is_unread()


def test_a_silent_connection_is_closed(jar: Jar, client: JarClient) -> None:
    jar.pass_ms(300_000)
    client.ask(ApiKey.METADATA, 5, metadata())
    jar.pass_ms(599_000)
    assert not client.is_closed
    jar.pass_ms(2000)
    assert client.is_closed


def test_a_connection_that_waits_for_an_answer_is_not_silent(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=700_000))
    jar.pass_ms(701_000)
    assert len(client.new_answers()) == 1
    jar.pass_ms(598_000)
    assert not client.is_closed
    jar.pass_ms(602_000)
    assert client.is_closed


def test_a_negative_idle_time_closes_nobody() -> None:
    jar = Jar({"connections.max.idle.ms": "-1"})
    client = jar.connect()
    jar.pass_ms(1_000_000)
    assert not client.is_closed
    jar.close()


def test_metadata_may_be_the_first_request(jar: Jar, client: JarClient) -> None:
    answer = client.ask(ApiKey.METADATA, 5, MetadataRequest([MetadataRequestTopic(name="t")]))
    assert [topic.name for topic in answer.topics] == ["t"]


def test_a_handler_that_breaks_answers_in_its_own_shape(
    jar: Jar, client: JarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(jar.services.partitions, "get", broken)
    produced = client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    (partition,) = produced.responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (-1, -1)
    fetched = client.ask(ApiKey.FETCH, 12, a_fetch(jar))
    assert fetched.responses[0].partitions[0].error_code == -1
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    jar.loop.settle()
    assert client.is_closed


def test_a_broken_handler_that_was_waited_for_answers_too(
    jar: Jar, client: JarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=100))
    monkeypatch.setattr(jar.services.fetch_sessions, "answer", None)
    jar.pass_ms(110)
    (answer,) = client.new_answers()
    assert answer.error_code == -1


def test_an_answer_that_cannot_be_encoded_closes_its_connection_alone(
    jar: Jar, client: JarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = jar.connect()
    monkeypatch.setattr(jar.services.image, "cluster_id", 17)
    client.send(ApiKey.METADATA, 5, metadata())
    jar.loop.settle()
    assert client.is_closed
    assert not other.is_closed


def test_a_stopping_broker_drops_what_is_parked_and_answers_what_waits_for_the_disk(jar: Jar) -> None:
    parked, held = jar.connect(), jar.connect()
    jar.disk.delay_ms = 50
    parked.send(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=30_000))
    held.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(10)
    jar.loop.run(jar.broker.server.stop())
    assert parked.is_closed
    assert parked.frames() == []
    assert held.is_closed
    (answer,) = held.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_client_that_sends_on_after_its_connection_was_refused_is_not_heard(
    jar: Jar, client: JarClient
) -> None:
    client.send_bytes(
        frame(struct.pack(">hhih", 999, 0, 1, -1)) + client.request(ApiKey.PRODUCE, 9, a_produce(jar))
    )
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    assert log_end(jar) == 0


# --- contexts and throttling ------------------------------------------------------------------------------


def test_a_context_does_not_change_while_its_handler_waits(
    jar: Jar, client: JarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[RequestContext] = []

    async def handle(services: Services, context: RequestContext, request: object) -> MetadataResponse:
        contexts.append(context)
        before = context.client_id
        await asyncio.sleep(0.01)
        assert context.client_id == before
        return MetadataResponse()

    monkeypatch.setattr("klamm.broker.apis.metadata.handle", handle)
    for client_id in ("first", "second", "second"):
        client.send_bytes(request_bytes(ApiKey.METADATA, 5, metadata(), client_id=client_id))
    jar.pass_ms(50)
    assert [each.client_id for each in contexts] == ["first", "second", "second"]
    assert contexts[1] is contexts[2]
    assert {each.client_host for each in contexts} == {"/10.0.0.1"}


def test_software_is_remembered_for_the_connection(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("kafka", "1"))
    client.send_bytes(request_bytes(ApiKey.METADATA, 5, metadata(), client_id="another"))
    jar.loop.settle()
    assert client.protocol.client_software == ("kafka", "1")


class SlowDown(Quotas):
    """Throttles one client."""

    def __init__(self) -> None:
        self.counted: list[tuple[ApiKey, int]] = []

    def settle(
        self, context: RequestContext, api_key: ApiKey, request_bytes: int, response: Any, /
    ) -> tuple[Any, int]:
        self.counted.append((api_key, request_bytes))
        throttle_ms = 70 if context.client_id == "greedy" else 0
        return throttled(response, throttle_ms), throttle_ms

    def spent(self, context: RequestContext, since_s: float, /) -> None:
        """Time is not limited."""


def test_a_throttle_time_goes_to_the_client_that_caused_it_and_to_no_other(jar: Jar) -> None:
    jar.services.quotas = SlowDown()
    greedy, modest = jar.connect(client_id="greedy"), jar.connect(client_id="modest")
    alive = HeartbeatRequest("g", 1, "nobody")  # its answer is one object for all clients
    for _ in range(2):
        assert greedy.ask(ApiKey.HEARTBEAT, 4, alive).throttle_time_ms == 70
        assert modest.ask(ApiKey.HEARTBEAT, 4, alive).throttle_time_ms == 0
        jar.pass_ms(70)
        assert greedy.ask(ApiKey.PRODUCE, 9, a_produce(jar)).throttle_time_ms == 70
        jar.pass_ms(70)
    assert greedy.ask(ApiKey.API_VERSIONS, 1, ApiVersionsRequest()).throttle_time_ms == 70
    jar.pass_ms(70)
    assert (
        greedy.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).throttle_time_ms == 0
    )  # has no place for it


def test_a_throttled_client_is_not_read_until_its_time_is_over(jar: Jar) -> None:
    jar.services.quotas = SlowDown()
    greedy = jar.connect(client_id="greedy")
    # The second request is in the same segment, the third comes later.
    both = b"".join(greedy.request(ApiKey.METADATA, 5, metadata()) for _ in range(2))
    greedy.send_bytes(both)
    jar.loop.settle()
    assert len(greedy.new_answers()) == 1
    assert greedy.transport.is_unread()
    greedy.send(ApiKey.METADATA, 5, metadata())
    jar.pass_ms(69)
    assert greedy.new_answers() == []
    jar.pass_ms(1)
    assert len(greedy.new_answers()) == 1
    jar.pass_ms(70)
    assert len(greedy.new_answers()) == 1
    jar.pass_ms(70)
    assert not greedy.transport.is_unread()


def test_a_produce_without_an_answer_mutes_its_connection(jar: Jar) -> None:
    quotas = jar.services.quotas = SlowDown()
    greedy = jar.connect(client_id="greedy")
    silent = greedy.request(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    greedy.send_bytes(silent)
    greedy.send(ApiKey.METADATA, 5, metadata())
    jar.pass_ms(69)
    assert greedy.frames() == []
    assert quotas.counted == [(ApiKey.PRODUCE, len(silent) - 4)]
    jar.pass_ms(2)
    assert len(greedy.frames()) == 1


def test_what_was_decided_before_a_throttle_time_is_answered_within_it(jar: Jar) -> None:
    jar.disk.delay_ms = 20
    jar.services.quotas = SlowDown()
    greedy = jar.connect(client_id="greedy")
    greedy.send_bytes(
        b"".join(greedy.request(ApiKey.PRODUCE, 9, a_produce(jar)) for _ in range(2))
        + greedy.request(ApiKey.METADATA, 5, metadata())
    )
    jar.pass_ms(60)
    assert len(greedy.new_answers()) == 2
    jar.pass_ms(70)
    assert len(greedy.new_answers()) == 1


def test_bytes_that_cannot_be_read_end_a_muted_connection_when_its_time_is_over(jar: Jar) -> None:
    jar.services.quotas = SlowDown()
    greedy = jar.connect(client_id="greedy")
    greedy.send_bytes(greedy.request(ApiKey.METADATA, 5, metadata()) + frame(b"") * 2)
    jar.pass_ms(69)
    assert not greedy.is_closed
    jar.pass_ms(2)
    assert greedy.is_closed


def test_a_muted_connection_ends_with_its_client_and_with_its_broker(jar: Jar) -> None:
    jar.services.quotas = SlowDown()
    gone, left = (jar.connect(client_id="greedy") for _ in range(2))
    for each in (gone, left):
        each.ask(ApiKey.METADATA, 5, metadata())
    gone.close()
    jar.loop.settle()
    assert jar.broker.server.connection_count == 1
    left.protocol.stop()
    jar.loop.settle()
    assert left.is_closed
    assert jar.broker.server.connection_count == 0
    jar.pass_ms(200)


def test_a_turn_of_the_loop_ends_while_clients_that_are_answered_send_on(jar: Jar, client: JarClient) -> None:
    count = AT_ONCE + 1
    sent_at_once = []

    async def one_turn() -> None:
        for _ in range(count):
            client.send(ApiKey.METADATA, 9, metadata())
        sent_at_once.append(len(client.answers()))

    jar.loop.run(one_turn())
    jar.loop.settle()
    assert sent_at_once == [AT_ONCE]
    assert len(client.answers()) == count
