"""Fetch sessions: what the broker remembers of a client, and what it therefore leaves unsaid."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.fetch_sessions import MAX_EPOCH, FetchSessions
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from klamm.protocol.types import ZERO_ID
from klamm.testing.requests import a_batch, a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", partitions=2)
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def fill(jar: Jar, partition: int = 0, value: bytes = b"value", topic: str = "t") -> None:
    writer = jar.connect()
    batch = a_batch(jar, value=value)
    writer.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, topic=topic, partition=partition))
    writer.close()
    jar.loop.settle()


def begin(jar: Jar, client: JarClient, version: int = 12, *, max_bytes: int = 10**6) -> FetchResponse:
    """A full fetch of both partitions that asks for a session."""
    request = a_fetch(jar, offsets={0: 0, 1: 0}, max_bytes=max_bytes, session_id=0, session_epoch=0)
    response = client.ask(ApiKey.FETCH, version, request)
    assert isinstance(response, FetchResponse)
    return response


def go_on(
    client: JarClient,
    session_id: int,
    epoch: int,
    *,
    offsets: dict[int, int] | None = None,
    forgotten: tuple[int, ...] = (),
    version: int = 12,
    max_bytes: int = 10**6,
) -> FetchResponse:
    """An incremental fetch that does not wait."""
    partitions = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=10**6)
        for index, offset in (offsets or {}).items()
    ]
    request = FetchRequest(
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forgotten)] if forgotten else [],
    )
    response = client.ask(ApiKey.FETCH, version, request)
    assert isinstance(response, FetchResponse)
    return response


def told(response: FetchResponse) -> list[int]:
    """The partitions in an answer."""
    return [each.partition_index for topic in response.responses for each in topic.partitions]


def with_records(response: FetchResponse) -> list[int]:
    return [each.partition_index for topic in response.responses for each in topic.partitions if each.records]


def test_a_session_tells_only_news(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    assert session_id > 0
    quiet = go_on(client, session_id, 1)
    assert (quiet.session_id, told(quiet)) == (session_id, [])
    fill(jar, partition=1)
    assert told(go_on(client, session_id, 2)) == [1]
    # The client moves on: its offset is all it sends
    assert told(go_on(client, session_id, 3, offsets={1: 1})) == []


def test_a_client_without_a_session_hears_everything(jar: Jar, client: JarClient) -> None:
    for _ in range(2):
        response = client.ask(ApiKey.FETCH, 12, a_fetch(jar, offsets={0: 0, 1: 0}))
        assert (response.session_id, told(response)) == (0, [0, 1])


def test_an_epoch_that_was_used_and_an_id_that_never_was_are_refused(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    go_on(client, session_id, 1)
    again = go_on(client, session_id, 1)
    assert (again.error_code, again.session_id, told(again)) == (71, 0, [])
    unknown = go_on(client, session_id ^ 1, 2)
    assert (unknown.error_code, unknown.session_id, told(unknown)) == (70, 0, [])
    assert go_on(client, session_id, 2).error_code == 0


def test_a_session_without_partitions_ends(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    assert go_on(client, session_id, 1, forgotten=(0,)).session_id == session_id
    last = go_on(client, session_id, 2, forgotten=(1,))
    assert (last.error_code, last.session_id, told(last)) == (0, 0, [])
    assert go_on(client, session_id, 3).error_code == 70


def test_a_full_fetch_under_an_id_makes_a_new_session_and_a_final_one_none(
    jar: Jar, client: JarClient
) -> None:
    first = begin(jar, client).session_id
    request = a_fetch(jar, offsets={0: 0}, session_id=first, session_epoch=0)
    second = client.ask(ApiKey.FETCH, 12, request).session_id
    assert second not in (0, first)
    assert go_on(client, first, 1).error_code == 70
    final = a_fetch(jar, offsets={0: 0}, session_id=second, session_epoch=-1)
    response = client.ask(ApiKey.FETCH, 12, final)
    assert (response.session_id, told(response)) == (0, [0])
    assert go_on(client, second, 1).error_code == 70


def test_names_and_ids_do_not_mix_in_a_session(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    response = go_on(client, session_id, 1, version=13)
    assert (response.error_code, response.session_id) == (106, 0)


def test_the_recovery_from_an_error_is_news_once(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    partition.error_code = ErrorCode.not_leader_or_follower
    assert told(go_on(client, session_id, 1)) == [0]
    assert told(go_on(client, session_id, 2)) == [0]  # an error is told each time
    partition.error_code = ErrorCode.none
    assert told(go_on(client, session_id, 3)) == [0]
    assert told(go_on(client, session_id, 4)) == []


def test_busy_partitions_take_turns_in_a_session(jar: Jar, client: JarClient) -> None:
    for partition in (0, 1):
        for _ in range(4):
            fill(jar, partition)
    full = begin(jar, client, max_bytes=1)
    assert with_records(full) == [0]
    offsets, order = {0: 1, 1: 0}, []
    for epoch in range(1, 5):
        (read,) = with_records(go_on(client, full.session_id, epoch, offsets=offsets, max_bytes=1))
        order.append(read)
        offsets[read] += 1
    assert order == [0, 1, 0, 1]


def test_a_session_outlives_its_connection(jar: Jar, client: JarClient) -> None:
    session_id = begin(jar, client).session_id
    client.close()
    assert go_on(jar.connect(), session_id, 1).error_code == 0


def test_an_id_that_is_unknown_stays_in_the_session_until_it_is_known(jar: Jar, client: JarClient) -> None:
    topic_id = jar.create_topic("u")
    topic = jar.services.image.topic("u")
    assert topic is not None
    jar.services.image._names_by_id.pop(topic_id)
    request = a_fetch(jar, topic="", topic_id=topic_id, session_id=0, session_epoch=0)
    response = client.ask(ApiKey.FETCH, 13, request)
    assert response.responses[0].partitions[0].error_code == 100
    jar.services.image._names_by_id[topic_id] = "u"
    fill(jar, topic="u")
    response = go_on(client, response.session_id, 1, version=13)
    assert response.responses[0].partitions[0].error_code == 0
    assert with_records(response) == [0]


def test_a_session_that_moved_on_while_a_fetch_was_parked_refuses_its_answer(
    jar: Jar, client: JarClient
) -> None:
    session_id = begin(jar, client).session_id
    client.send(
        ApiKey.FETCH, 12, FetchRequest(max_wait_ms=100, min_bytes=1, session_id=session_id, session_epoch=1)
    )
    jar.pass_ms(10)
    assert go_on(jar.connect(), session_id, 2).error_code == 0
    jar.pass_ms(100)
    (answer,) = client.new_answers()
    assert (answer.error_code, told(answer)) == (71, [])


def test_a_full_fetch_of_nothing_gets_a_session_too(jar: Jar, client: JarClient) -> None:
    response = client.ask(ApiKey.FETCH, 12, FetchRequest(session_id=0, session_epoch=0))
    assert response.session_id > 0
    assert told(go_on(client, response.session_id, 1, offsets={0: 0})) == [0]


class Slots:
    """Two slots, no broker around them."""

    def __init__(self, slots: int = 2) -> None:
        self.clock = ManualClock()
        self.sessions = FetchSessions(self.clock, Random(1), slots)

    def begin(self, partitions: int = 1) -> int:
        request = FetchRequest(
            session_id=0,
            session_epoch=0,
            topics=[FetchTopic(ZERO_ID, "t", [FetchPartition(index) for index in range(partitions)])],
        )
        plan = self.sessions.plan(request)
        data = [(target, PartitionData(records=b"")) for target in plan.targets]
        return self.sessions.answer(plan, data).session_id

    def use(self, session_id: int, epoch: int = 1) -> ErrorCode:
        return self.sessions.plan(FetchRequest(session_id=session_id, session_epoch=epoch)).error_code


def test_fresh_sessions_keep_their_slots() -> None:
    slots = Slots()
    assert slots.begin() > 0
    assert slots.begin() > 0
    slots.clock.advance(120_000)
    assert slots.begin() == 0


def test_the_session_that_was_idle_longest_makes_room() -> None:
    slots = Slots()
    first, second = slots.begin(), slots.begin()
    slots.clock.advance(120_001)
    slots.use(first)
    third = slots.begin()
    assert third > 0
    assert slots.use(second) is ErrorCode.fetch_session_id_not_found
    assert slots.use(first, 2) is ErrorCode.none
    assert slots.sessions.evictions == 1


def test_a_larger_newcomer_takes_the_place_of_a_smaller_session_of_some_age() -> None:
    slots = Slots()
    small, large = slots.begin(2), slots.begin(5)
    slots.clock.advance(120_001)
    for session_id in (small, large):
        slots.use(session_id)
    assert slots.begin(2) == 0
    assert slots.begin(3) > 0
    assert slots.use(small, 2) is ErrorCode.fetch_session_id_not_found
    assert slots.use(large, 2) is ErrorCode.none


def test_without_slots_there_are_no_sessions() -> None:
    assert Slots(0).begin() == 0


def test_the_highest_epoch_is_followed_by_one() -> None:
    slots = Slots()
    session_id = slots.begin()
    slots.sessions._sessions[session_id].epoch = MAX_EPOCH
    assert slots.use(session_id, MAX_EPOCH) is ErrorCode.none
    assert slots.use(session_id, 1) is ErrorCode.none
