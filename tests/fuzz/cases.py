"""Cases for the fuzzer: each makes an input from a seed, and both cores must make the same of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from random import Random
from struct import error as struct_error
from struct import pack
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID, Buffer
from klamm.records import _pure
from klamm.records.arrow import BinaryInput, FixedInput, HeadersInput, Region, Want
from klamm.records.layout import HEADER, HEADER_BYTES, CommitBlock, OffsetCommitValue, PartitionCommit, Record

MAX_INT64: Final = (1 << 63) - 1
EDGES: Final = (0, 1, -1, 2, 127, 128, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**62)
TOPIC_ID: Final = bytes(range(16))


def exact(data: Buffer) -> memoryview:
    """The same bytes in a block that ends with them: bytes and bytearray have a zero behind their end."""
    return memoryview(array("B", bytes(data))[:])  # a slice is allocated without room to grow


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns, or the kind of error with which it refuses its input."""
    try:
        return call(*arguments)
    except DecodeError:
        return DecodeError
    except (ValueError, OverflowError, struct_error) as error:
        return OverflowError if isinstance(error, OverflowError) else ValueError


def same(core: ModuleType, name: str, *arguments: Any) -> Any:
    """What both cores return for a call; AssertionError when they differ."""
    compiled = outcome(getattr(core, name), *arguments)
    pure = outcome(getattr(_pure, name), *arguments)
    assert compiled == pure, f"{name}{arguments!r}: {compiled!r} compiled, {pure!r} pure"
    return compiled


def int64(random: Random) -> int:
    return random.choice(EDGES) if random.random() < 0.3 else random.randrange(-(2**63), 2**63)


def clamped(number: int, bits: int = 64) -> int:
    return max(-(1 << bits - 1), min(number, (1 << bits - 1) - 1))


def field(random: Random) -> bytes | None:
    size = random.choice((-1, 0, 1, 3, 20, 70, 300))
    return None if size < 0 else random.randbytes(size)


def headers(random: Random) -> tuple[tuple[str, bytes | None], ...]:
    names = ("", "a", "é€", "😀", "x" * 200)
    return tuple((random.choice(names), field(random)) for _ in range(random.choice((0, 0, 0, 1, 2, 40))))


def records(random: Random) -> list[Record]:
    offset = random.randrange(2**62)
    made = []
    for _ in range(random.randint(1, 6)):
        made.append(Record(offset, int64(random), field(random), field(random), headers(random)))
        offset += random.choice((1, 1, 1, 2, 2**20))
    return made


def damaged(random: Random, data: Buffer) -> memoryview:
    """The bytes with some of them changed, removed, repeated or added."""
    broken = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        at = random.randrange(len(broken) + 1)
        match random.randrange(6):
            case 0:
                broken[at : at + 1] = random.randbytes(1)
            case 1:  # lengths at their limits: very large, negative, longer than a varint may be
                broken[at : at + 1] = random.choice(
                    (b"\xfe\xff\xff\xff\x0f", b"\x01", b"\xff" * 11, b"\x80", b"\x7f", b"\xfe\xff\x03")
                )
            case 2:
                del broken[at : at + random.randint(1, 9)]
            case 3:
                broken[at:at] = random.randbytes(random.randint(1, 9))
            case 4:
                broken[at : at + 8] = pack(">q", random.choice(EDGES[:4] + EDGES[-3:]))
            case _:
                broken[at:at] = broken[at : at + random.randint(1, 40)]
    if random.random() < 0.2:
        del broken[random.randrange(len(broken) + 1) :]
    return exact(broken)


def region(random: Random, make: Callable[[Random], list[Record]] = records) -> Region:
    made = make(random)
    base_offset, base_ms = made[0].offset, made[0].timestamp_ms
    data = _pure.encode_region(made, base_offset, base_ms)
    count = random.choice((len(made), len(made), len(made), random.choice(EDGES[:8])))
    if random.random() < 0.2:
        base_offset = int64(random)
    append_ms = int64(random) if random.random() < 0.3 else None
    return Region(damaged(random, data), count, base_offset, base_ms, append_ms)


def batch(random: Random, data: bytes | bytearray, count: int) -> bytes:
    """A header, mostly of a plausible batch, with a true checksum, in front of a region."""
    base_offset = clamped(int64(random) if random.random() < 0.1 else random.randrange(2**40))
    delta = random.choice((count - 1, count - 1, count - 1, clamped(int64(random), 32)))
    length = HEADER_BYTES - 12 + len(data)
    attributes = random.choice((0, 0, 0, 0, 8, 16, 1, -1, 0x7F))
    fields = (
        attributes,
        delta,
        int64(random),
        int64(random),
        random.choice((-1, 7)),
        0,
        random.choice((-1, 0, 9)),
    )
    head = bytearray(HEADER.pack(base_offset, length, -1, 2, 0, *fields, count))
    head[17:21] = pack(">I", _pure.crc32c(bytes(head[21:]) + bytes(data)))
    return bytes(head) + bytes(data)


def offset_key(random: Random) -> bytes:
    group, topic = random.choice((b"g", b"group-1", b"")), random.choice((b"t", b"\xff\xfe"))
    version = random.choice((0, 1, 1, 1, 1, 2))
    partition = random.choice((0, 1, 2, 3, 40, 2**31 - 1, -1))
    return pack(">hh", version, len(group)) + group + pack(">h", len(topic)) + topic + pack(">i", partition)


def offset_value(random: Random) -> bytes | None:
    metadata = random.choice((b"", b"", b"m", b"host-1", b"\xff", b"x" * 126, b"x" * 127))
    match random.randrange(5):
        case 0:
            return None
        case 1:
            return pack(">hqh", 1, int64(random), len(metadata)) + metadata + pack(">qq", int64(random), -1)
        case _:
            head = pack(">hqiB", 4, int64(random), random.choice((-1, 7)), len(metadata) + 1)
            tags = random.choice(
                (b"\x00", b"\x01\x00\x10" + TOPIC_ID, b"\x01\x00\x10" + ZERO_ID, b"\x01\x01\x00")
            )
            return head + metadata + pack(">q", int64(random)) + tags


def offset_records(random: Random) -> list[Record]:
    made = []
    for offset in range(random.randint(1, 12)):
        key: Buffer = offset_key(random)
        value: Buffer | None = offset_value(random)
        if random.random() < 0.2:
            key = damaged(random, key)
        if value is not None and random.random() < 0.2:
            value = damaged(random, value)
        made.append(Record(offset, 0, bytes(key), None if value is None else bytes(value)))
    return made


def walk(core: ModuleType, random: Random) -> None:
    parts = []
    for _ in range(random.randint(1, 3)):
        made = records(random)
        parts.append(batch(random, _pure.encode_region(made, made[0].offset, 0), len(made)))
    log = damaged(random, b"".join(parts)) if random.random() < 0.7 else exact(b"".join(parts))
    position = random.choice((0, 0, random.randint(-2, len(log) + 2)))
    target = random.choice((0, random.randrange(2**41), int64(random)))
    same(core, "parse_header", log, position)
    same(core, "find_batch", log, position, target)
    same(core, "last_whole_batch_end", log, position, random.randint(-1, len(log) + 9), target)
    same(core, "scan", log, position)
    same(
        core,
        "sound_header",
        exact(parts[0]),
        random.choice((10**6, len(parts[0]) - 1)),
        random.choice((0, 4)),
    )
    same(core, "sound_header", log, 10**6, 4)


def decode(core: ModuleType, random: Random) -> None:
    same(core, "decode_region", *region(random))


def columns_from_records(core: ModuleType, random: Random) -> None:
    several = [region(random) for _ in range(random.randint(0, 3))]
    limit = random.choice((2**31 - 1, random.randrange(2000)))
    first, until = random.choice(((-(2**63), MAX_INT64), (int64(random), int64(random))))
    same(core, "decode_columns", several, random.randrange(int(Want.ALL) + 1), first, until, limit)


def columns_from_commits(core: ModuleType, random: Random) -> None:
    several = [region(random, offset_records) for _ in range(random.randint(0, 3))]
    limit = random.choice((2**31 - 1, random.randrange(2000)))
    same(core, "decode_offset_commits", several, 0, MAX_INT64, limit)


def loose_binary(random: Random) -> BinaryInput | None:
    if random.random() < 0.2:
        return None
    rows = random.randrange(9)
    cuts = (
        sorted(random.randrange(40) for _ in range(rows))
        if random.random() < 0.7
        else [clamped(int64(random), 32) for _ in range(rows)]
    )
    validity = None if random.random() < 0.5 else exact(random.randbytes(random.randrange(3)))
    values = None if random.random() < 0.1 else exact(random.randbytes(random.choice((0, 10, 40))))
    return BinaryInput(validity, exact(array("i", cuts).tobytes()), values, first_row(random))


def loose_numbers(random: Random) -> FixedInput | None:
    if random.random() < 0.3:
        return None
    validity = None if random.random() < 0.5 else exact(random.randbytes(random.randrange(3)))
    return FixedInput(validity, exact(random.randbytes(random.choice((0, 7, 48)))), first_row(random))


def first_row(random: Random) -> int:
    return random.choice((0, 0, 0, 0, 1, 3, -2, MAX_INT64, -MAX_INT64 - 1))


def columns_to_records(core: ModuleType, random: Random) -> None:
    rows = random.randint(-1, 6)
    partitions = exact(
        array("i", [random.choice((0, 1, 2, 2**31 - 1, -1)) for _ in range(random.randrange(8))]).tobytes()
    )
    names, values, listed = loose_binary(random), loose_binary(random), loose_binary(random)
    column = None
    if names is not None and values is not None and listed is not None:
        column = HeadersInput(listed.validity, listed.offsets, names, values, listed.first_row)
    key, value, numbers = loose_binary(random), loose_binary(random), loose_numbers(random)
    same(core, "partition_rows", rows, key, numbers, random.randint(0, 5), random.randint(-1, 5))
    size = random.choice((0, 100, MAX_INT64))
    same(core, "encode_columns", rows, partitions, key, value, column, numbers, int64(random), size)


def encode(core: ModuleType, random: Random) -> None:
    made = records(random)
    base_offset = random.choice((made[0].offset, clamped(made[0].offset - 2**31), int64(random)))
    same(core, "encode_region", made, base_offset, int64(random))
    limit_bytes = random.choice((0, 100, 2000))
    builders = [module.BatchBuilder(limit_bytes) for module in (core, _pure)]
    for record in made:
        indexes = {builder.append(*record[1:]) for builder in builders}
        assert len(indexes) == 1, indexes
    for read in ("size_bytes", "record_count", "base_timestamp_ms", "max_timestamp_ms"):
        assert getattr(builders[0], read) == getattr(builders[1], read), read
    assert builders[0].region() == builders[1].region()
    for builder in builders:
        builder.release()
        assert builder.append(0, b"", b"") == -1
    opened = [module.OpenBatches(module.Place) for module in (core, _pure)]
    for module, batches in zip((core, _pure), opened, strict=True):
        batches["t"] = SimpleNamespace(builder=module.BatchBuilder(limit_bytes))
    for record in made:
        places = [batches.append("t", record.timestamp_ms, record.key, record.value) for batches in opened]
        indexes = {None if place is None else place._index for place in places}
        assert len(indexes) == 1, indexes
    regions = [batches.get("t").builder.region() for batches in opened]
    assert regions[0] == regions[1]


def tables_of(module: ModuleType) -> dict[bytes, Any]:
    prefixes = (
        b"\x00\x01\x00\x01g\x00\x01t",
        b"\x00\x01\x00\x07group-1\x00\x01t",
        b"\x00\x01\x00\x00\x00\x02\xff\xfe",
    )
    return {prefix: module.OffsetTable() for prefix in prefixes}


def contents(tables: dict[bytes, Any]) -> list[Any]:
    return [table.items() for table in tables.values()]


def stored_records(core: ModuleType, random: Random) -> None:
    given = region(random, offset_records)
    results = []
    for module in (core, _pure):
        tables = tables_of(module)
        handed_out: list[Record] = []
        error = None
        try:
            handed_out += module.store_records(given.data, given.record_count, given.base_offset, tables)
        except DecodeError:
            error = DecodeError
        results.append((handed_out, error, contents(tables)))
    assert results[0] == results[1], f"{given!r}: {results!r}"


def stored_batches(core: ModuleType, random: Random) -> None:
    parts = []
    for _ in range(random.randint(1, 4)):
        made = offset_records(random)
        data: Buffer = _pure.encode_region(made, 0, 0)
        if random.random() < 0.3:
            data = damaged(random, data)
        parts.append(
            batch(random, bytes(data), random.choice((len(made), len(made), len(made), -1, 2**31 - 1)))
        )
    log = damaged(random, b"".join(parts)) if random.random() < 0.3 else exact(b"".join(parts))
    position = random.choice((0, 0, random.randint(-1, len(log) + 1)))
    results = []
    for module in (core, _pure):
        # A batch that the tables cannot hold may be stored in part, so only the ends are compared.
        results.append(outcome(module.store_batches, log, position, tables_of(module)))
    assert results[0] == results[1], f"{log!r}: {results!r}"


def wire(core: ModuleType, random: Random) -> None:
    has_epoch, is_flexible = random.choice(((False, False), (True, False), (True, True)))
    count = random.randint(1, 5)
    data = bytearray()
    for _ in range(count):
        data += pack(">iq", random.choice((0, 1, -1, 2**31 - 1)), int64(random)) + bytes(
            4 if has_epoch else 0
        )
        metadata = random.choice((b"", b"m", b"\xff", b"x" * 200))
        data += _length(metadata, is_flexible) + metadata
        data += random.choice((b"\x00", b"\x01\x05\x01\xaa")) if is_flexible else b""
    asked = random.choice((count, count, random.randint(-1, 9), 2**40))
    position = random.choice((0, 0, random.randint(-1, len(data) + 1)))
    buffer = bytes(damaged(random, data))  # this one takes bytes alone
    results = []
    for module in (core, _pure):
        found = outcome(module.read_commits, has_epoch, is_flexible, buffer, position, asked)
        if isinstance(found, tuple):
            commits, end = found
            copied = module.TopicCommits(commits)
            assert list(copied) == list(commits)
            found = (list(commits), commits.lowest, commits.highest, commits.has_metadata, end)
        results.append(found)
    assert results[0] == results[1], f"{buffer!r}: {results!r}"


def _length(text: bytes, is_flexible: bool) -> bytes:
    if not is_flexible:
        return pack(">h", len(text))
    size = len(text) + 1
    return bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))


def commits(module: ModuleType, rows: list[tuple[int, int, int, str | None]]) -> Any:
    return module.TopicCommits([PartitionCommit(*row) for row in rows])  # type: ignore[arg-type]


def offset_tables(core: ModuleType, random: Random) -> None:
    """A table through a life of its own, step by step beside the twin's."""
    compiled, pure = core.OffsetTable(), _pure.OffsetTable()
    width = random.choice((4, 30, 300))
    for _ in range(random.randint(1, 60)):
        partition = random.choice((random.randrange(width), random.randrange(width), 2**31 - 1, -(2**31)))
        match random.randrange(5):
            case 0:
                assert compiled.remove(partition) == pure.remove(partition)
            case 1:
                committed = OffsetCommitValue(int64(random), -1, random.choice(("", "m")), 5, -1, TOPIC_ID)
                compiled.put(partition, 7, committed)
                pure.put(partition, 7, committed)
            case 2:
                for _ in range(random.choice((1, width))):
                    gone = random.randrange(width)
                    assert compiled.remove(gone) == pure.remove(gone)
            case _:
                rows = [
                    (random.randrange(width), int64(random), -1, random.choice((None, "", "m", "é")))
                    for _ in range(random.choice((0, 1, 10, width)))
                ]
                both = commits(core, rows), commits(_pure, rows)
                before = compiled.replaced_by(both[0]), pure.replaced_by(both[1])
                log_offset = random.choice((0, 5, MAX_INT64 - 3))
                results = [
                    outcome(table.store, each, log_offset, 1, -1, TOPIC_ID)
                    for table, each in zip((compiled, pure), both, strict=True)
                ]
                assert results[0] == results[1], results
                for asked in (partition, *(row[0] for row in rows)):
                    assert before[0].get(asked) == before[1].get(asked)
                    assert (asked in before[0]) == (asked in before[1])
        assert compiled.items() == pure.items()
        assert compiled.get(partition) == pure.get(partition)
        assert (partition in compiled) == (partition in pure)
    assert compiled == compiled  # noqa: PLR0124 # compares entry by entry
    compiled.__sizeof__()


def encoded_commits(core: ModuleType, random: Random) -> None:
    results = []
    rows = [
        (random.choice((0, 7, -1)), int64(random), -1, random.choice((None, "", "m", "é" * 300)))
        for _ in range(random.randint(0, 5))
    ]
    texts = ("", "g", "€" * 200, "\ud800", "x" * 0x8000)
    group, topic = random.choice(texts), random.choice(texts[:3])
    topic_id = random.choice((TOPIC_ID, TOPIC_ID, ZERO_ID, b"short"))
    expire_ms = random.choice((-1, -1, int64(random)))
    for module in (core, _pure):
        block = CommitBlock(group, topic, topic_id, commits(module, rows), 5, expire_ms)
        results.append(outcome(module.encode_commits, [block, block], 9))
    assert results[0] == results[1], results
    with suppress(OverflowError):
        commits(core, [(2**31, 0, 0, None)])


def hashes(core: ModuleType, random: Random) -> None:
    data = exact(random.randbytes(random.choice((0, 1, 7, 8, 9, 31, 1000, 9000, 70_000))))
    start = random.randrange(16)
    part = memoryview(data)[start:]
    before = random.randrange(2**32)
    same(core, "crc32c", part, before)
    assert core.crc32c_portable(part, before) == core.crc32c(part, before)
    same(core, "murmur2", part)


CASES: Final = (
    walk,
    decode,
    columns_from_records,
    columns_from_commits,
    columns_to_records,
    encode,
    stored_records,
    stored_batches,
    wire,
    offset_tables,
    encoded_commits,
    hashes,
)
