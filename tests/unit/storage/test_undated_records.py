"""Records without a timestamp: retention goes by the date of their file."""

from __future__ import annotations

from klamm.records.record import Record, encode_batch
from klamm.storage.topic_config import TopicConfig
from unit.storage.cleaning_world import World

UNDATED = encode_batch([Record(0, -1, b"k", b"v")])


def test_undated_records_stay_as_long_as_retention_says_from_their_writing() -> None:
    # Given two segments without a timestamp, written an hour apart
    world = World(TopicConfig(retention_ms=86_400_000))
    world.put(UNDATED)
    world.roll()
    world.clock.advance(3_600_000)
    world.put(UNDATED)
    # When retention looks at once, and when the first one's time has come
    kept = world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms())
    world.clock.advance(86_400_000 - 3_599_999)
    gone = world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms())
    # Then it goes, and not before
    assert (kept, gone, world.log.log_start_offset) == (0, 1, 1)


def test_a_cleaned_segment_of_undated_records_keeps_its_date() -> None:
    config = TopicConfig(
        cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000, min_cleanable_dirty_ratio=0.0
    )
    world = World(config)
    world.put(UNDATED)
    world.roll()
    world.clock.advance(1000)
    assert world.clean() is not None
    assert world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms()) == 0
    world.clock.advance(1)
    assert world.log.delete_old_segments(world.clock.now_ms(), world.clock.timestamp_ms()) == 1


def test_an_undated_batch_rolls_no_segment_of_dated_ones() -> None:
    world = World(TopicConfig(segment_ms=1))
    world.put(encode_batch([Record(0, world.clock.timestamp_ms(), b"k", b"v")]))
    world.clock.advance(3_600_000)
    world.put(UNDATED)
    assert world.log.in_active_segment(0)
    # One after undated ones goes by the age of their segment, whatever it says itself.
    world.roll()
    world.put(UNDATED)
    world.clock.advance(2)
    world.put(UNDATED)
    assert not world.log.in_active_segment(2)
