"""The map of last offsets, within its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.records.record import Record
from klamm.storage.cleaning_map import KeyOffsetMap


def records(*pairs: tuple[int, bytes | None]) -> list[Record]:
    return [Record(offset, 0, key, b"v") for offset, key in pairs]


def is_latest(mapped: KeyOffsetMap, key: bytes, offset: int) -> bool:
    return bool(mapped.kept(records((offset, key)), with_tombstones=True))


def test_the_last_offset_of_a_key_wins() -> None:
    mapped = KeyOffsetMap(1 << 20)
    assert mapped.add(records((1, b"a"), (2, b"b"), (3, b"a")), 0)
    assert [is_latest(mapped, b"a", offset) for offset in (1, 2, 3)] == [False, False, True]
    assert is_latest(mapped, b"unknown", 0)
    assert mapped.last_offset == 3
    mapped.clear()
    assert len(mapped) == 0


def test_what_stays_is_the_last_of_each_key_and_all_that_is_not_mapped() -> None:
    mapped = KeyOffsetMap(1 << 20)
    mapped.add(records((1, b"a"), (2, b"b"), (3, b"a")), 0)
    candidates = [
        Record(1, 0, b"a", b"v"),
        Record(2, 0, b"b", None),
        Record(3, 0, b"a", b"v"),
        Record(3, 0, None, b"v"),
        Record(4, 0, None, b"v"),
        Record(5, 0, b"a", None),
    ]
    assert [r.offset for r in mapped.kept(candidates, with_tombstones=True)] == [2, 3, 4, 5]
    assert [r.offset for r in mapped.kept(candidates, with_tombstones=False)] == [3, 4, 5]


def test_keyless_records_and_those_before_the_start_are_passed_over() -> None:
    mapped = KeyOffsetMap(1 << 20)
    assert mapped.add(records((1, b"a"), (2, None), (3, b"b")), 2)
    assert len(mapped) == 1
    assert is_latest(mapped, b"a", 0)


def test_a_full_map_says_so_and_remembers_how_far_it_came() -> None:
    # Given room for two keys, as Kafka counts
    mapped = KeyOffsetMap(54, load_factor=1.0)
    assert mapped.add(records((1, b"a"), (2, b"a")), 0)
    # When more keys come than fit
    assert not mapped.add(records((3, b"a"), (4, b"b"), (5, b"c")), 0)
    # Then those that came in count, and known keys still find room
    assert mapped.last_offset < 5
    assert not mapped.add(records((6, b"d")), 0)
    assert mapped.add(records((7, b"a")), 0)


def test_long_keys_do_not_make_the_map_larger_than_its_buffer() -> None:
    mapped = KeyOffsetMap(100_000)
    taken = 0
    while mapped.add(records((taken, b"%0999d" % taken)), 0):
        taken += 1
    assert 400 < taken < 700
    assert all(is_latest(mapped, b"%0999d" % index, index) for index in range(taken))
    assert not is_latest(mapped, b"%0999d" % 5, 4)


def test_gaps_count_as_mapped() -> None:
    mapped = KeyOffsetMap(1 << 20)
    mapped.advance(9)
    mapped.advance(5)
    assert mapped.last_offset == 9


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"b", b"x" * 32, b"x" * 33, b"y" * 40]))))
def test_the_map_agrees_with_a_dictionary(keys: list[tuple[bytes]]) -> None:
    mapped, expected = KeyOffsetMap(1 << 20), {}
    for offset, (key,) in enumerate(keys):
        mapped.add(records((offset, key)), 0)
        expected[key] = offset
    for key, offset in expected.items():
        assert is_latest(mapped, key, offset)
        assert not is_latest(mapped, key, offset - 1)
