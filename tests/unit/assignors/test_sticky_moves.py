"""Which partition goes back when two members have exchanged some of a topic."""

from __future__ import annotations

import pytest

from klamm.assignors import TopicPartition
from klamm.assignors.sticky_moves import Moves

OTHER = TopicPartition("t", 99)


def test_a_partition_that_came_from_the_target_goes_back_first() -> None:
    moves = Moves()
    came = TopicPartition("t", 0)
    moves.note(came, "A", "B")
    assert moves.better_choice(OTHER, "B", "A") == came
    assert moves.better_choice(OTHER, "B", "C") == OTHER
    assert moves.better_choice(TopicPartition("u", 0), "B", "A") == TopicPartition("u", 0)


def test_what_went_back_counts_as_never_moved() -> None:
    moves = Moves()
    came = TopicPartition("t", 0)
    moves.note(came, "A", "B")
    moves.note(came, "B", "A")
    assert moves.better_choice(OTHER, "B", "A") == OTHER


def test_a_detour_counts_as_one_move_from_where_it_began() -> None:
    moves = Moves()
    came = TopicPartition("t", 0)
    moves.note(came, "A", "B")
    moves.note(came, "B", "C")
    assert moves.better_choice(OTHER, "B", "A") == OTHER
    assert moves.better_choice(OTHER, "C", "A") == came


def test_a_partition_that_moved_is_judged_by_where_it_began() -> None:
    moves = Moves()
    moves.note(OTHER, "A", "B")
    came = TopicPartition("t", 0)
    moves.note(came, "C", "A")
    # C would get OTHER from B; but OTHER began at A, who got something of the topic from C
    assert moves.better_choice(OTHER, "B", "C") == came


@pytest.mark.parametrize(
    ("topic", "count", "first"),
    [
        ("u", 4, 3),
        ("u", 12, 6),
        ("u", 13, 12),
        ("u", 25, 21),
        ("orders", 4, 0),
        ("orders", 12, 7),
        ("orders", 25, 8),
        ("orders", 40, 39),
        ("订单", 12, 3),
    ],
)
def test_of_several_the_first_of_a_java_hash_set_goes_back(topic: str, count: int, first: int) -> None:
    moves = Moves()
    for number in range(count):
        moves.note(TopicPartition(topic, number), "A", "B")
    assert moves.better_choice(TopicPartition(topic, 99), "B", "A") == TopicPartition(topic, first)


@pytest.mark.parametrize("numbers", [(17, 1), (1, 17)])
def test_within_a_bucket_they_stand_as_they_came(numbers: tuple[int, int]) -> None:
    moves = Moves()
    for number in numbers:
        moves.note(TopicPartition("u", number), "A", "B")
    assert moves.better_choice(TopicPartition("u", 99), "B", "A") == TopicPartition("u", numbers[0])
