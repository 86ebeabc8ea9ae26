"""Incremental fetch sessions: what is sent after the first request, and when all begins anew."""

from __future__ import annotations

from klamm.client.consumer.fetch.fetch_session import NodeFetchSession, SessionPart, Wanted
from klamm.protocol.types import ZERO_ID, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID_A, ID_B, ID_C = b"a" * 16, b"b" * 16, b"c" * 16


def wanted(topic_id: bytes, offset: int = 0) -> Wanted:
    return Wanted(topic_id, offset, 0, 1000)


def sent(part: SessionPart) -> list[tuple[str, int]]:
    return [(topic.topic, item.fetch_offset) for topic in part.topics for item in topic.partitions]


def forgotten(part: SessionPart) -> list[tuple[bytes, list[int]]]:
    return [(topic.topic_id, list(topic.partitions)) for topic in part.forgotten]


def test_the_first_request_is_full_and_the_next_ones_hold_what_changed() -> None:
    session = NodeFetchSession()
    first = session.build({A: wanted(ID_A), B: wanted(ID_B)})
    assert (first.session_id, first.session_epoch, sent(first)) == (0, 0, [("a", 0), ("b", 0)])
    session.answered(77)
    second = session.build({A: wanted(ID_A, 5), B: wanted(ID_B)})
    assert (second.session_id, second.session_epoch, sent(second)) == (77, 1, [("a", 5)])
    session.answered(77)
    third = session.build({A: wanted(ID_A, 5), B: wanted(ID_B)})
    assert (third.session_epoch, sent(third), forgotten(third)) == (2, [], [])


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    session = NodeFetchSession()
    session.build({A: wanted(ID_A), B: wanted(ID_B)})
    session.answered(77)
    assert forgotten(session.build({B: wanted(ID_B)})) == [(ID_A, [0])]


def test_a_topic_that_was_made_anew_is_forgotten_by_its_old_id() -> None:
    session = NodeFetchSession()
    session.build({A: wanted(ID_A)})
    session.answered(77)
    part = session.build({A: wanted(ID_C)})
    assert sent(part) == [("a", 0)]
    assert forgotten(part) == [(ID_A, [0])]
    assert session.name_of(ID_C) == "a"
    assert session.name_of(ID_A) is None


def test_a_broker_that_keeps_no_session_gets_everything_each_time() -> None:
    session = NodeFetchSession()
    for _ in range(2):
        part = session.build({A: wanted(ID_A)})
        assert (part.session_id, part.session_epoch, sent(part)) == (0, 0, [("a", 0)])
        session.answered(0)


def test_a_session_that_is_replaced_lets_the_broker_drop_the_old_one() -> None:
    session = NodeFetchSession()
    session.build({A: wanted(ID_A)})
    session.answered(77)
    session.replace()
    part = session.build({A: wanted(ID_A)})
    assert (part.session_id, part.session_epoch, sent(part)) == (77, 0, [("a", 0)])
    session.answered(78)
    assert session.build({A: wanted(ID_A)}).session_epoch == 1


def test_a_topic_without_an_id_is_spoken_of_by_name_in_a_new_session() -> None:
    session = NodeFetchSession()
    session.build({A: wanted(ID_A)})
    session.answered(77)
    part = session.build({A: wanted(ID_A), B: wanted(ZERO_ID)})
    assert not part.uses_topic_ids
    assert (part.session_id, part.session_epoch) == (0, 0)
    assert sent(part) == [("a", 0), ("b", 0)]


def test_after_the_last_epoch_comes_the_first() -> None:
    session = NodeFetchSession()
    session.build({A: wanted(ID_A)})
    session.answered(77)
    session._next_epoch = 2**31 - 1
    session.build({A: wanted(ID_A)})
    session.answered(77)
    assert session.build({A: wanted(ID_A)}).session_epoch == 1
