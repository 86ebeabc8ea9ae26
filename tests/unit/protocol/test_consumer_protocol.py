"""Subscriptions and assignments as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.consumer_protocol import (
    Assignment,
    StickyMemory,
    Subscription,
    decode_assignment,
    decode_generation,
    decode_sticky_memory,
    decode_subscription,
    encode_assignment,
    encode_generation,
    encode_sticky_memory,
    encode_subscription,
    subscribed_topics,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition


def tps(text: str) -> tuple[TopicPartition, ...]:
    """`"t0-0 t0-2"` as partitions."""
    pairs = (name.rsplit("-", 1) for name in text.split())
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in pairs)


OWNS_TWO = tps("t0-0 t0-2")

SUBSCRIPTIONS = [
    (0, Subscription(("t0", "t1")), "0000000000020002743000027431ffffffff"),
    (
        1,
        Subscription(("t0",), owned=OWNS_TWO),
        "00010000000100027430ffffffff0000000100027430000000020000000000000002",
    ),
    (
        2,
        Subscription(("t0",), owned=OWNS_TWO, generation=5),
        "00020000000100027430ffffffff000000010002743000000002000000000000000200000005",
    ),
    (
        3,
        Subscription(("t0",), owned=OWNS_TWO, generation=5, rack="r1"),
        "00030000000100027430ffffffff00000001000274300000000200000000000000020000000500027231",
    ),
    (3, Subscription(("t0",)), "00030000000100027430ffffffff00000000ffffffffffff"),
    (
        3,
        Subscription(("t0",), user_data=encode_generation(None)),
        "0003000000010002743000000004ffffffff00000000ffffffffffff",
    ),
]

ASSIGNMENTS = [
    (
        0,
        Assignment(tps("t0-0 t0-1 t1-0")),
        "00000000000200027430000000020000000000000001000274310000000100000000ffffffff",
    ),
    (3, Assignment(), "000300000000ffffffff"),
    (1, Assignment(tps("t0-0"), b"\x01\x02"), "000100000001000274300000000100000000000000020102"),
]


@pytest.mark.parametrize(("version", "subscription", "text"), SUBSCRIPTIONS)
def test_a_subscription_is_written_and_read(version: int, subscription: Subscription, text: str) -> None:
    raw = bytes.fromhex(text)
    assert encode_subscription(subscription, version) == raw
    assert decode_subscription(raw) == subscription
    assert subscribed_topics(raw) == frozenset(subscription.topics)


@pytest.mark.parametrize(("version", "assignment", "text"), ASSIGNMENTS)
def test_an_assignment_is_written_and_read(version: int, assignment: Assignment, text: str) -> None:
    raw = bytes.fromhex(text)
    assert encode_assignment(assignment, version) == raw
    assert decode_assignment(raw) == assignment


def test_the_highest_version_is_written_unless_told_otherwise() -> None:
    assert encode_subscription(Subscription())[:2] == b"\x00\x03"
    assert encode_assignment(Assignment())[:2] == b"\x00\x03"


def test_topics_and_partitions_are_written_sorted_and_once() -> None:
    untidy = Subscription(("b", "a", "b"), owned=tps("b-1 a-10 b-0 a-2 b-1"))
    tidy = Subscription(("a", "b"), owned=tps("a-2 a-10 b-0 b-1"))
    assert encode_subscription(untidy) == encode_subscription(tidy)
    assert decode_subscription(encode_subscription(untidy)) == tidy


def test_a_version_from_the_future_is_read_as_the_highest_known_and_its_tail_ignored() -> None:
    raw = bytearray(encode_subscription(Subscription(("t0",), generation=7, rack="r1")) + b"new field")
    raw[:2] = b"\x00\x09"
    assert decode_subscription(bytes(raw)) == Subscription(("t0",), generation=7, rack="r1")
    assert decode_assignment(bytes.fromhex("000900000000ffffffff") + b"x") == Assignment()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        bytes.fromhex("ffff00000000ffffffff"),  # version -1
        bytes.fromhex("00007fffffff"),  # more topics than bytes
        bytes.fromhex("0000ffffffffffffffff"),  # a null array of topics
        bytes.fromhex("000000000001ffffffffffff"),  # a null topic
        bytes.fromhex("0000000000010002c328ffffffff"),  # a topic that is not UTF-8
        bytes.fromhex("000000000000fffffffe"),  # user data of length -2
        bytes.fromhex("00000000000000000005"),  # user data cut short
    ],
)
def test_bytes_that_are_no_subscription_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(raw)
    assert subscribed_topics(raw) is None


def test_a_subscription_that_ends_before_its_version_says_is_refused() -> None:
    whole = encode_subscription(Subscription(("t0",), owned=OWNS_TWO, generation=5, rack="r1"))
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_subscription(whole[:length])


def test_the_broker_reads_the_topics_even_when_the_tail_of_the_version_is_missing() -> None:
    assert subscribed_topics(bytes.fromhex("00030000000100027430ffffffff")) == frozenset({"t0"})


def test_an_empty_rack_is_none_and_so_is_a_negative_generation() -> None:
    raw = bytes.fromhex("00030000000100027430ffffffff00000000fffffffb0000")
    assert decode_subscription(raw) == Subscription(("t0",))
    assert encode_subscription(Subscription(("t0",), rack="")) == encode_subscription(Subscription(("t0",)))


def test_a_topic_name_that_no_length_can_hold_is_refused_when_writing() -> None:
    with pytest.raises(ValueError, match="32767"):
        encode_subscription(Subscription(("x" * 40_000,)))


STICKY = bytes.fromhex("000000010002743000000002000000000000000100000007")


def test_sticky_memory_is_written_and_read() -> None:
    memory = StickyMemory(tps("t0-0 t0-1"), 7)
    assert encode_sticky_memory(memory) == STICKY
    assert decode_sticky_memory(STICKY) == memory


def test_sticky_memory_without_a_generation_is_read_too() -> None:
    assert decode_sticky_memory(STICKY[:-4]) == StickyMemory(tps("t0-0 t0-1"))
    assert decode_sticky_memory(encode_sticky_memory(StickyMemory(tps("a-1")))) == StickyMemory(tps("a-1"))


@pytest.mark.parametrize("user_data", [None, b"", b"?", STICKY[:-5]])
def test_sticky_memory_that_cannot_be_read_is_no_memory(user_data: bytes | None) -> None:
    assert decode_sticky_memory(user_data) == StickyMemory()


@pytest.mark.parametrize(
    ("user_data", "generation"),
    [(None, None), (b"\x00", None), (b"\xff" * 4, None), (b"\x00\x00\x00\x09", 9)],
)
def test_a_cooperative_member_remembers_only_its_generation(
    user_data: bytes | None, generation: int | None
) -> None:
    assert decode_generation(user_data) == generation
    assert decode_generation(encode_generation(generation)) == generation


names = st.text(min_size=1, max_size=8)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
subscriptions = st.builds(
    Subscription,
    st.sets(names).map(lambda topics: tuple(sorted(topics))),
    st.none() | st.binary(max_size=12),
    st.sets(partitions).map(lambda owned: tuple(sorted(owned))),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | names,
)
assignments = st.builds(
    Assignment,
    st.sets(partitions).map(lambda given: tuple(sorted(given))),
    st.none() | st.binary(max_size=12),
)


@given(subscriptions)
def test_what_is_written_is_read_back(subscription: Subscription) -> None:
    raw = encode_subscription(subscription)
    assert decode_subscription(raw) == subscription
    assert subscribed_topics(raw) == frozenset(subscription.topics)


@given(assignments)
def test_what_is_assigned_is_read_back(assignment: Assignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


@given(
    st.binary(max_size=64) | st.builds(lambda v, tail: bytes([0, v]) + tail, st.integers(0, 4), st.binary())
)
def test_any_bytes_are_a_value_or_refused(raw: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            value = decode(raw)
        except DecodeError:
            continue
        if isinstance(value, Subscription):
            assert subscribed_topics(raw) == frozenset(value.topics)
    subscribed_topics(raw)
    decode_sticky_memory(raw)
    decode_generation(raw)


@given(subscriptions, st.data())
def test_a_damaged_subscription_is_a_value_or_refused(
    subscription: Subscription, data: st.DataObject
) -> None:
    raw = bytearray(encode_subscription(subscription))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        damaged = decode_subscription(bytes(raw))
    except DecodeError:
        subscribed_topics(bytes(raw))
        return
    assert decode_subscription(encode_subscription(damaged)).topics == tuple(sorted(damaged.topics))
