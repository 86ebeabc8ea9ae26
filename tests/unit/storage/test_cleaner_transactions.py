"""Compaction and transactions: aborted data, markers, and the index of aborted transactions."""

from __future__ import annotations

from unit.storage.cleaning_world import World

DAY_MS = 86_400_000


def kinds(world: World) -> list[str]:
    return [
        f"{header.base_offset}{'M' if header.is_control else 'd'}{header.record_count}"
        for header, _ in world.batches()
    ]


def cleaned_again(world: World, after_ms: int) -> None:
    """Let time pass, make some dirt, and clean."""
    world.clock.advance(after_ms)
    world.append((b"dirt", b"x"))
    world.roll()
    world.clean()


def test_nothing_at_or_above_an_open_transaction_is_cleaned() -> None:
    # scenario 92 of transactions
    world = World()
    world.append((b"a", b"1"))
    world.append((b"a", b"2"))
    world.roll()
    world.append((b"a", b"3"), producer_id=1, transactional=True)
    world.append((b"a", b"4"))
    world.roll()
    world.clean()
    assert world.pairs() == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]
    assert world.clean() is None
    world.end(1, commit=True)
    world.clean()
    assert (3, b"a", b"4") in world.pairs()
    assert (1, b"a", b"2") not in world.pairs()


def test_aborted_data_goes_and_supersedes_nothing() -> None:
    # scenario 91 of transactions
    world = World()
    world.append((b"a", b"good"))
    world.append((b"a", b"bad"), producer_id=1, transactional=True)
    world.end(1, commit=False)
    world.append((b"z", b"1"))
    world.roll()
    view = world.committed_view()
    world.clean()
    assert world.committed_view() == view == {b"a": b"good", b"z": b"1"}
    # The header tells the producer's sequence, and the marker ends what it began.
    assert kinds(world) == ["0d1", "1d0", "2M1", "3d1"]
    assert [entry.first_offset for entry in world.log.aborted_transactions(0, 4)] == [1]


def test_an_abort_leaves_its_data_first_then_its_marker_and_index_entry() -> None:
    world = World()
    world.append((b"a", b"bad"), producer_id=1, transactional=True)
    world.end(1, commit=False)
    world.append((b"b", b"1"))
    world.roll()
    world.log.expire_producers(world.clock.timestamp_ms() + 2 * DAY_MS, DAY_MS)
    # The first pass takes the data: for this one the marker is still needed.
    world.clean()
    assert kinds(world) == ["1M1", "2d1"]
    assert len(world.log.aborted_transactions(0, 3)) == 1
    # The second finds nothing left of it and sets the marker's horizon.
    cleaned_again(world, 1)
    assert kinds(world)[:2] == ["1M1", "2d1"]
    assert world.batches()[0][0].has_delete_horizon
    assert len(world.log.aborted_transactions(0, 3)) == 0
    # After that it goes.
    cleaned_again(world, DAY_MS)
    assert kinds(world)[0] == "2d1"


def test_a_commit_marker_stays_while_its_data_does() -> None:
    world = World()
    world.append((b"a", b"1"), producer_id=1, transactional=True)
    world.end(1, commit=True)
    world.append((b"b", b"1"))
    world.roll()
    for _ in range(3):
        cleaned_again(world, 2 * DAY_MS)
    assert kinds(world)[:3] == ["0d1", "1M1", "2d1"]
    assert not world.batches()[1][0].has_delete_horizon


def test_a_commit_marker_goes_after_its_data() -> None:
    # scenario 93 of transactions
    world = World()
    world.append((b"a", b"1"), producer_id=1, transactional=True)
    world.end(1, commit=True)
    world.append((b"a", b"2"))
    world.roll()
    world.log.expire_producers(world.clock.timestamp_ms() + 2 * DAY_MS, DAY_MS)
    world.clean()
    assert kinds(world) == ["1M1", "2d1"]
    cleaned_again(world, 1)
    cleaned_again(world, DAY_MS)
    assert kinds(world)[0] == "2d1"


def test_the_epoch_that_only_a_marker_tells_survives() -> None:
    # scenario 93 of transactions
    # Given a producer of which the log knows nothing but a marker with a newer epoch
    world = World()
    world.append((b"a", b"1"), producer_id=1, transactional=True)
    world.end(1, commit=True, epoch=5)
    world.append((b"a", b"2"))
    world.roll()
    # When everything else of it is gone
    for _ in range(4):
        cleaned_again(world, 2 * DAY_MS)
    world.forget_snapshots()
    # Then a load from the batches alone still knows the epoch
    entry = world.log.producer_state.get(1)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence) == (5, -1)


def test_a_transaction_over_several_segments_is_followed_through() -> None:
    world = World()
    world.append((b"a", b"good"))
    world.append((b"a", b"bad"), producer_id=1, transactional=True)
    world.roll()
    world.append((b"b", b"bad"), producer_id=1, transactional=True)
    world.roll()
    world.append((b"c", b"good"))
    world.end(1, commit=False)
    view = world.committed_view()
    # The marker is in the active segment; the transaction is decided all the same.
    world.clean()
    assert world.committed_view() == view == {b"a": b"good", b"c": b"good"}
    assert [record[1:] for record in world.pairs()] == [(b"a", b"good"), (b"c", b"good")]
    assert [entry.first_offset for entry in world.log.aborted_transactions(0, 5)] == [1]


def test_an_old_abort_does_not_condemn_a_later_commit_of_its_producer() -> None:
    world = World()
    world.append((b"a", b"bad"), producer_id=1, transactional=True)
    world.end(1, commit=False)
    world.roll()
    world.clean()
    world.append((b"a", b"good"), producer_id=1, transactional=True)
    world.end(1, commit=True)
    world.append((b"b", b"1"))
    world.roll()
    world.clean()
    assert world.committed_view() == {b"a": b"good", b"b": b"1"}
