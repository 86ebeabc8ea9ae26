"""Ids of topics and clusters."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import PartitionRegistration, follow_on, new_topic_id


@given(st.integers())
def test_a_topic_id_is_a_random_uuid_that_does_not_look_like_an_option(seed: int) -> None:
    topic_id = new_topic_id(Random(seed))
    assert len(topic_id) == 16
    assert topic_id[6] >> 4 == 4
    assert topic_id[8] >> 6 == 2
    assert not id_to_text(topic_id).startswith("-")


def test_an_id_that_would_start_with_a_dash_is_drawn_again() -> None:
    class Drawn(Random):
        def getrandbits(self, _k: int, /) -> int:
            return draws.pop(0)

    draws = [0b111110 << 122, 7]
    assert int.from_bytes(new_topic_id(Drawn()), "big") & 0xFF == 7
    assert draws == []


def test_new_partitions_follow_the_old_ones() -> None:
    states = [PartitionRegistration(partition, (1,), 1, 0) for partition in (2, 3)]
    assert follow_on(2, states)
    assert not follow_on(1, states)
    assert follow_on(5, [])
