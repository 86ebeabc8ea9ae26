"""Walking batches in a buffer, on both cores."""

from __future__ import annotations

from functools import partial
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.errors import DecodeError
from klamm.records import _pure
from klamm.records.batch import reseal, stamp
from klamm.records.layout import ScanEnd
from klamm.records.record import Record, encode_batch
from unit.records.cores import compiled_core, outcome
from unit.records.properties import few, many
from unit.records.samples import ABORT, DATA, EMPTIED, TIME_MS, TOMBSTONE
from unit.records.strategies import damaged


def a_batch(base_offset: int, count: int) -> bytes:
    return encode_batch(
        [Record(base_offset + i, TIME_MS, b"k", b"v") for i in range(count)], base_offset=base_offset
    )


BATCHES = [a_batch(10, 3), a_batch(13, 1), a_batch(20, 5)]  # offsets 14 to 19 were compacted away
LOG = b"".join(BATCHES)
STARTS = [0, len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])]


def misplaced(base_offset: int, last_offset_delta: int = 0) -> bytes:
    batch = bytearray(a_batch(0, 1))
    stamp(batch, base_offset, 0)
    batch[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    reseal(batch)
    return bytes(batch)


IMPOSSIBLE = {
    ScanEnd.LENGTH: DATA[:8] + bytes(4) + DATA[12:],
    ScanEnd.MAGIC: DATA[:16] + b"\x01" + DATA[17:],
    ScanEnd.OFFSETS: misplaced(-1),
}


class TestEachCore:
    @pytest.mark.parametrize(
        ("target", "expected"),
        [(0, 0), (10, 0), (12, 0), (13, 1), (14, 2), (20, 2), (24, 2)],
    )
    def test_a_batch_is_found_by_its_last_offset(self, core: ModuleType, target: int, expected: int) -> None:
        assert core.find_batch(LOG, 0, target) == STARTS[expected]

    def test_nothing_is_found_beyond_the_end(self, core: ModuleType) -> None:
        assert core.find_batch(LOG, 0, 25) == -1
        assert core.find_batch(LOG, len(LOG), 0) == -1

    def test_a_search_starts_at_its_position(self, core: ModuleType) -> None:
        assert core.find_batch(LOG, STARTS[1], 0) == STARTS[1]

    def test_a_batch_is_found_by_its_header_alone(self, core: ModuleType) -> None:
        assert core.find_batch(LOG[: STARTS[2] + 61], 0, 24) == STARTS[2]
        assert core.find_batch(LOG[: STARTS[2] + 60], 0, 24) == -1

    @pytest.mark.parametrize(
        ("limit", "until_offset", "whole"),
        [
            (10**9, 100, 3),
            (10**9, 25, 3),
            (10**9, 24, 2),
            (10**9, 13, 1),
            (10**9, 12, 0),
            (len(LOG), 100, 3),
            (len(LOG) - 1, 100, 2),
            (STARTS[1], 100, 1),
            (STARTS[1] - 1, 100, 0),
            (0, 100, 0),
            (-5, 100, 0),
        ],
    )
    def test_whole_batches_are_measured_by_bytes_and_offset(
        self, core: ModuleType, limit: int, until_offset: int, whole: int
    ) -> None:
        end = core.last_whole_batch_end(LOG, 0, limit, until_offset)
        assert end == sum(len(batch) for batch in BATCHES[:whole])

    def test_a_measure_starts_at_its_position(self, core: ModuleType) -> None:
        assert core.last_whole_batch_end(LOG, STARTS[1], len(LOG) - 1, 100) == STARTS[2]

    def test_a_sound_log_is_scanned_to_its_end(self, core: ModuleType) -> None:
        batches, end, stopped_by = core.scan(LOG)
        assert [position for position, _ in batches] == STARTS
        assert [header for _, header in batches] == [_pure.parse_header(LOG, at) for at in STARTS]
        assert (end, stopped_by) == (len(LOG), ScanEnd.WHOLE)

    def test_a_scan_continues_where_another_ended(self, core: ModuleType) -> None:
        batches, end, _ = core.scan(LOG, STARTS[2])
        assert [position for position, _ in batches] == [STARTS[2]]
        assert end == len(LOG)

    def test_nothing_is_scanned_of_nothing(self, core: ModuleType) -> None:
        assert core.scan(b"") == ([], 0, ScanEnd.WHOLE)

    @pytest.mark.parametrize("left", [1, 60, 61, len(DATA) - 1])
    def test_a_scan_stops_before_a_cut_batch(self, core: ModuleType, left: int) -> None:
        batches, end, stopped_by = core.scan(ABORT + DATA[:left])
        assert (len(batches), end, stopped_by) == (1, len(ABORT), ScanEnd.TRUNCATED)

    @pytest.mark.parametrize("at", [17, 21, 60, len(DATA) - 1])
    def test_a_scan_stops_before_a_damaged_batch(self, core: ModuleType, at: int) -> None:
        broken = bytearray(ABORT + DATA + TOMBSTONE)
        broken[len(ABORT) + at] ^= 0x10
        batches, end, stopped_by = core.scan(broken)
        assert (len(batches), end, stopped_by) == (1, len(ABORT), ScanEnd.CHECKSUM)

    @pytest.mark.parametrize("reason", IMPOSSIBLE)
    def test_what_cannot_be_a_batch_stops_every_walk(self, core: ModuleType, reason: ScanEnd) -> None:
        log = ABORT + IMPOSSIBLE[reason]
        assert core.scan(log)[1:] == (len(ABORT), reason)
        with pytest.raises(DecodeError):
            core.find_batch(log, 0, 1000)
        with pytest.raises(DecodeError):
            core.last_whole_batch_end(log, 0, 1000, 1000)

    @pytest.mark.parametrize(("base_offset", "delta"), [(2**63 - 1, 1), (0, -1), (-(2**63), 5)])
    def test_offsets_that_cannot_be_stop_a_scan(self, core: ModuleType, base_offset: int, delta: int) -> None:
        assert core.scan(misplaced(base_offset, delta)).stopped_by is ScanEnd.OFFSETS

    def test_zeros_after_a_log_are_no_batch(self, core: ModuleType) -> None:
        assert core.scan(DATA + bytes(100))[1:] == (len(DATA), ScanEnd.MAGIC)

    @pytest.mark.parametrize("position", [-1, len(LOG) + 1])
    def test_a_position_outside_the_buffer_is_our_own_mistake(self, core: ModuleType, position: int) -> None:
        with pytest.raises(ValueError, match="position"):
            core.find_batch(LOG, position, 0)
        with pytest.raises(ValueError, match="position"):
            core.last_whole_batch_end(LOG, position, 100, 100)
        with pytest.raises(ValueError, match="position"):
            core.scan(LOG, position)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_kind_of_buffer_is_walked(self, core: ModuleType, kind: type) -> None:
        assert core.scan(kind(LOG)).end == len(LOG)
        assert core.parse_header(kind(LOG), STARTS[2]).base_offset == 20


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    batches = draw(st.lists(st.sampled_from([*BATCHES, ABORT, EMPTIED, TOMBSTONE]), max_size=3))
    return draw(damaged(b"".join(batches)))


def test_the_compiled_walk_does_not_rely_on_the_twin_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.records._pure.walk.parse_header", lambda buffer, position: None)
    with pytest.raises(DecodeError, match="no batch header at position 0"):
        compiled_core().find_batch(bytes(200), 0, 0)
    with pytest.raises(DecodeError, match="no batch header at position 0"):
        compiled_core().last_whole_batch_end(bytes(200), 0, 200, 1)


class TestBothCores:
    @many
    @given(damaged_logs(), st.integers(0, 50))
    def test_they_walk_alike(self, log: bytes, target: int) -> None:
        compiled = compiled_core()
        assert compiled.scan(log) == _pure.scan(log)
        for one, other in (
            (compiled.parse_header, _pure.parse_header),
            (
                partial(compiled.find_batch, target_offset=target),
                partial(_pure.find_batch, target_offset=target),
            ),
        ):
            assert outcome(partial(one, log, target)) == outcome(partial(other, log, target))
        limits = (log, 0, target * 8, target)
        assert outcome(partial(compiled.last_whole_batch_end, *limits)) == outcome(
            partial(_pure.last_whole_batch_end, *limits)
        )

    @few
    @given(st.binary(max_size=80), st.integers(-2, 82))
    def test_they_read_headers_alike(self, noise: bytes, position: int) -> None:
        compiled = compiled_core()
        buffer = noise[:8] + b"\x00\x00\x00" + noise[8:12] + b"\x02" + noise[12:]
        assert outcome(lambda: compiled.parse_header(buffer, position)) == outcome(
            lambda: _pure.parse_header(buffer, position)
        )
