"""Offsets as text: one order, and the start of the first batch beside them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.config import ConfigError
from klamm.protocol.types import TopicPartition
from klamm.spark.read.positions import (
    check_same_partitions,
    from_json,
    initial_of,
    is_initial,
    listed,
    parse_partitions,
    parse_positions,
    parse_times,
    to_json,
)

positions = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "orders", "Z", "ä"]), st.integers(0, 30)),
    st.integers(0, 1 << 60),
    max_size=12,
)


def test_topics_are_sorted_and_partitions_are_sorted_as_numbers() -> None:
    written = to_json({TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3})
    assert json.dumps(written) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'


@given(positions, st.randoms())
def test_equal_positions_are_equal_texts_and_come_back(
    found: dict[TopicPartition, int], random: st.DataObject
) -> None:
    shuffled = dict(sorted(found.items(), key=lambda _item: random.random()))  # type: ignore[attr-defined]  # a Random
    assert json.dumps(to_json(shuffled)) == json.dumps(to_json(found))
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


@given(positions, positions)
def test_the_start_of_the_first_batch_rides_along(
    found: dict[TopicPartition, int], initial: dict[TopicPartition, int]
) -> None:
    written = json.loads(json.dumps(to_json(found, initial)))
    assert (from_json(written), initial_of(written)) == (found, initial)
    assert is_initial(written) == (found == initial)
    assert initial_of(to_json(found)) is None
    assert not is_initial(to_json(found))


def test_a_checkpoint_of_sparks_own_connector_is_understood() -> None:
    assert from_json(json.loads('{"t":{"2":5,"0":23}}')) == {
        TopicPartition("t", 0): 23,
        TopicPartition("t", 2): 5,
    }


def test_partitions_and_offsets_are_read_as_users_write_them() -> None:
    assert parse_partitions("assign", '{"b": [1, 0], "a": [2, 2]}') == (
        TopicPartition("a", 2),
        TopicPartition("b", 0),
        TopicPartition("b", 1),
    )
    assert parse_partitions("assign", "{}") == ()
    assert parse_positions("startingOffsets", '{"a": {"0": 23, "1": -2, "2": -1}}') == {
        TopicPartition("a", 0): 23,
        TopicPartition("a", 1): -2,
        TopicPartition("a", 2): -1,
    }
    assert parse_times("startingOffsetsByTimestamp", '{"a": {"0": 1700000000000, "1": -1, "2": -2}}') == {
        TopicPartition("a", 0): 1_700_000_000_000,
        TopicPartition("a", 1): -1,
        TopicPartition("a", 2): -2,
    }


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_partitions, '{"a": 1}', "needs a list"),
        (parse_partitions, '{"a": [-1]}', "no partition -1"),
        (parse_partitions, '{"a": [true]}', "no partition True"),
        (parse_partitions, "[1]", "as in"),
        (parse_partitions, "{", "is not JSON"),
        (parse_partitions, '{"": [0]}', "is not a topic name"),
        (parse_positions, '{"a": {"x": 1}}', "no partition 'x'"),
        (parse_positions, '{"a": {"0": "1"}}', "whole number"),
        (parse_positions, '{"a": {"0": true}}', "whole number"),
        (parse_positions, '{"a": {"0": -3}}', "expected an offset, -2 or -1"),
        (parse_positions, '{"a": 3}', "needs its partitions"),
        (parse_positions, '{"$initial": {"0": 3}}', "is not a topic name"),
        (parse_times, '{"a": {"0": -3}}', "milliseconds since 1970"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(parse: object, text: str, said: str) -> None:
    assert callable(parse)
    with pytest.raises(ConfigError) as refused:
        parse("someOption", text)
    assert said in str(refused.value)
    assert "someOption" in str(refused.value)


def test_an_option_must_name_exactly_what_is_read() -> None:
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    check_same_partitions("startingOffsets", [a, b], {b, a})
    with pytest.raises(ConfigError, match="b-0 missing"):
        check_same_partitions("startingOffsets", [a], [a, b])
    with pytest.raises(ConfigError, match="b-0 not read by this query"):
        check_same_partitions("startingOffsets", [a, b], [a])


def test_a_message_lists_the_first_few_partitions() -> None:
    assert listed([TopicPartition("t", number) for number in range(12)], limit=2) == "t-0, t-1 and 10 more"
