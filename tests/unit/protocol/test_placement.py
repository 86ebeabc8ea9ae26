"""Where groups live."""

from __future__ import annotations

from random import Random

import pytest

from klamm.protocol import placement
from klamm.protocol.placement import Places, java_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "expected_hash", "partition"),
    [
        ("testgroup", -1172783827, 27),
        ("consumerGroupId", -437965020, 20),
        ("group", 98629247, 47),
        ("my-group", -1906497762, 12),
        ("connect-cluster", 1440343063, 13),
        ("", 0, 0),
        ("polygenelubricants", -2147483648, 0),
        ("消费者组", 871131088, 38),
        ("g😀", 1871882, 32),
    ],
)
def test_a_group_lives_where_java_says(group_id: str, expected_hash: int, partition: int) -> None:
    assert java_hash(group_id) == expected_hash
    assert partition_for(group_id, 50) == partition


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 1000, 32_767])
def test_the_hash_of_a_long_text_is_that_of_its_units_one_by_one(length: int) -> None:
    random = Random(length)
    text = "".join(random.choice(("a", "\uffff", "消", "😀", "\ud800", "\0")) for _ in range(length))
    units = text.encode("utf-16-be", "surrogatepass")
    expected = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        expected = (31 * expected + high * 256 + low) % 2**32
    assert java_hash(text) % 2**32 == expected
    assert -(2**31) <= java_hash(text) < 2**31


def test_places_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_PLACES_KEPT", 100)
    monkeypatch.setattr(placement, "_CHARACTERS_KEPT", 5000)
    places = Places(50)
    assert places["group"] == partition_for("group", 50)
    assert "group" in places
    # Short keys are bounded by number, long ones by length
    for number in range(250):
        assert places[str(number)] == partition_for(str(number), 50)
        assert len(places) <= 100
    for number in range(20):
        assert places[f"{number:01000}"] == partition_for(f"{number:01000}", 50)
        assert sum(map(len, places)) <= 5000
    assert places
