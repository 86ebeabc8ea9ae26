"""Promises of compaction, over random histories and crashes at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.cleaner import CleanerSettings
from klamm.storage.engines.simulated_disk import PowerLossError
from unit.storage.cleaning_world import ALWAYS, Pair, World

DAY_MS = 86_400_000
PRODUCERS = (1, 2, 3)  # 3 writes outside transactions

keys = st.sampled_from([None, b"a", b"b", b"c", b"d", b"e" * 40])
values = st.sampled_from([None, b"1", b"2", b"3"])
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("write"), pairs, st.sampled_from((-1, 3)), st.sampled_from((0, 1, 4))),
        st.tuples(st.just("write in transaction"), pairs, st.sampled_from((1, 2))),
        st.tuples(st.just("end"), st.sampled_from((1, 2)), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("wait"), st.sampled_from((1, 1000, DAY_MS))),
        st.tuples(st.just("clean")),
        st.tuples(st.just("restart")),
    ),
    max_size=50,
)


class History:
    """A world and, apart from it, what a reader of it must find."""

    def __init__(self, dedupe_buffer_bytes: int) -> None:
        self.world = World(settings=CleanerSettings(dedupe_buffer_bytes=dedupe_buffer_bytes))
        self.written: list[tuple[int, Pair, int]] = []  # offset, key and value, transaction or 0
        self.decided: dict[int, bool] = {0: True}
        self.open: dict[int, int] = {}  # producer to transaction
        self.transactions = 0

    def play(self, move: tuple[object, ...]) -> None:
        match move:
            case ("write", list(content), int(producer_id), int(codec)):
                base_offset = self.world.append(*content, producer_id=producer_id, codec=codec)
                self._note(base_offset, content, 0)
            case ("write in transaction", list(content), int(producer_id)):
                base_offset = self.world.append(*content, producer_id=producer_id, transactional=True)
                if producer_id not in self.open:
                    self.transactions += 1
                    self.open[producer_id] = self.transactions
                self._note(base_offset, content, self.open[producer_id])
            case ("end", int(producer_id), bool(commit)):
                if (transaction := self.open.pop(producer_id, None)) is not None:
                    self.world.end(producer_id, commit=commit)
                    self.decided[transaction] = commit
            case ("roll",):
                self.world.roll()
            case ("wait", int(duration_ms)):
                self.world.clock.advance(duration_ms)
            case ("clean",):
                self.clean()
            case ("restart",):
                self.world.restart()

    def _note(self, base_offset: int, content: list[Pair], transaction: int) -> None:
        self.written += [(base_offset + index, pair, transaction) for index, pair in enumerate(content)]

    def clean(self) -> None:
        """One pass; nothing but records may change."""
        before = self.state()
        self.world.clean()
        assert self.state() == before
        assert self.world.cleaner.uncleanable == {}

    def state(self) -> object:
        log = self.world.log
        return (
            log.log_start_offset,
            log.log_end_offset,
            log.last_stable_offset,
            log.epochs.entries,
            self.producers(),
        )

    def producers(self) -> dict[int, tuple[int, int, int]]:
        return {
            entry.producer_id: (entry.epoch, entry.last_sequence, entry.txn_first_offset)
            for entry in self.world.log.producer_state
        }

    def expected_view(self) -> dict[bytes, bytes]:
        view: dict[bytes, bytes] = {}
        for offset, (key, value), transaction in self.written:
            if (
                key is None
                or offset >= self.world.log.last_stable_offset
                or not self.decided.get(transaction)
            ):
                continue
            if value is None:
                view.pop(key, None)
            else:
                view[key] = value
        return view

    def check(self) -> None:
        assert self.world.committed_view() == self.expected_view()
        offsets = [record.offset for record in self.world.records()]
        assert offsets == sorted(set(offsets))


@settings(max_examples=50, deadline=None)
@given(moves, st.sampled_from((600, 1200, 1 << 20)))
def test_cleaning_changes_nothing_that_a_reader_or_a_producer_could_tell(
    history: list[tuple[object, ...]], dedupe_buffer_bytes: int
) -> None:
    told = History(dedupe_buffer_bytes)
    for move in history:
        told.play(move)
        told.check()
    # However much of it is cleaned, and from batches alone
    told.world.roll()
    for _ in range(3):
        told.world.clock.advance(DAY_MS)
        told.clean()
        told.check()
    producers = told.producers()
    told.world.forget_snapshots()
    told.check()
    assert told.producers() == producers


@settings(max_examples=25, deadline=None)
@given(moves)
def test_a_clean_log_holds_each_key_once(history: list[tuple[object, ...]]) -> None:
    told = History(1 << 20)
    for move in history:
        told.play(move)
    for producer_id in PRODUCERS:
        told.play(("end", producer_id, True))
    told.world.roll()
    told.world.clean_all()
    live = [record.key for record in told.world.records()]
    assert None not in live
    assert len(live) == len(set(live))
    # Tombstones have their day, counted from the pass that met them first.
    told.world.clock.advance(DAY_MS)
    told.world.append((b"z", b"1"))
    told.world.roll()
    told.world.clean_all()
    assert all(record.value is not None for record in told.world.records())


# -- crashes


def two_small_segments() -> World:
    """Keys a and b, each superseded in the second segment."""
    world = World()
    for value in (b"1", b"2"):
        world.append((b"a", value), (b"b", value))
        world.append((b"only%s" % value, value))
        world.roll()
    return world


def a_dead_tail() -> World:
    """Two groups; all that ends the first one is superseded by the second."""
    world = World(replace(ALWAYS, segment_bytes=1024))
    world.append((b"x", b"1"))
    world.append((b"x", b"2"))
    world.roll()
    world.append((b"k", b"1"))
    world.roll()
    world.append((b"l", b"1"))
    world.roll()
    world.append((b"k", b"2" * 400), (b"l", b"2" * 400))
    world.roll()
    return world


def several_groups() -> World:
    """Segments too large to become one."""
    world = World(replace(ALWAYS, segment_bytes=1024))
    for value in (b"1", b"2", b"3"):
        world.append((b"a", value * 400), (b"b", value * 400))
        world.roll()
    return world


def between(pairs: list[tuple[int, bytes | None, bytes | None]], start: int, until: int) -> list[object]:
    return [pair for pair in pairs if start <= pair[0] < until]


@pytest.mark.parametrize("build", [two_small_segments, a_dead_tail, several_groups])
@pytest.mark.parametrize("seed", range(2))
def test_a_power_loss_at_any_step_leaves_old_or_new_and_never_both(
    build: Callable[[], World], seed: int
) -> None:
    finished = build()
    job = finished.cleaner.plan()
    assert job is not None
    job.run()
    starts = [group.old[0].base_offset for group in job.groups]
    finished.finish(job)
    new = finished.pairs()
    step = 0
    while True:
        step += 1
        # Given a log that is on disk, and a pass that the power cuts short at this step
        world = build()
        world.sync()
        world.store.start_checkpoint()()
        view, end_offset, old = world.committed_view(), world.log.log_end_offset, world.pairs()
        world.files._random.seed(seed * 1000 + step)
        world.files.power_fails_at = world.files.counters.total + step
        try:
            world.clean()
            world.files.power_fails_at = None
            is_whole = True
        except PowerLossError:
            is_whole = False
        # When it starts again
        world.restart_after_power_loss()
        # Then a reader cannot tell, nothing of the attempt lies about, and the pass can be made again
        assert world.committed_view() == view
        assert world.log.log_end_offset == end_offset
        for start, until in zip(starts, [*starts[1:], end_offset], strict=True):
            found = between(world.pairs(), start, until)
            assert found in (between(old, start, until), between(new, start, until))
        leftovers = (names.CLEANED_SUFFIX, names.SWAP_SUFFIX, names.DELETED_SUFFIX)
        assert not [name for name in world.file_names() if name.endswith(leftovers)]
        world.clean_all()
        assert world.committed_view() == view
        if is_whole:
            break
    assert step > 10
