"""Record batches for a broker: good ones, odd ones, and each kind of broken one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Final

from interop.differential.world import Producer, World
from klamm.protocol.errors import DecodeError
from klamm.records._pure.region import decode_region
from klamm.records.batch import reseal
from klamm.records.record import Record, encode_batch

HOUR_MS: Final = 3_600_000

# Where the fields of the header are: (position, struct layout).
BASE_OFFSET: Final = (0, ">q")
LENGTH: Final = (8, ">i")
LEADER_EPOCH: Final = (12, ">i")
MAGIC: Final = (16, ">b")
CRC: Final = (17, ">I")
ATTRIBUTES: Final = (21, ">h")
LAST_OFFSET_DELTA: Final = (23, ">i")
BASE_TIMESTAMP: Final = (27, ">q")
MAX_TIMESTAMP: Final = (35, ">q")
PRODUCER_ID: Final = (43, ">q")
PRODUCER_EPOCH: Final = (51, ">h")
BASE_SEQUENCE: Final = (53, ">i")
COUNT: Final = (57, ">i")


def with_field(batch: bytes, where: tuple[int, str], value: int, *, sealed: bool = True) -> bytes:
    """The batch with one header field changed, and its checksum right again."""
    changed = bytearray(batch)
    struct.pack_into(where[1], changed, where[0], value)
    if sealed:
        reseal(changed)
    return bytes(changed)


def field_of(batch: bytes, where: tuple[int, str]) -> int:
    value: int = struct.unpack_from(where[1], batch, where[0])[0]
    return value


def any_records(world: World, *, count: int | None = None) -> list[Record]:
    """A few records with and without keys, values and headers, dated about the start."""
    random = world.random
    base_ms = world.start_ms + random.choice((0, 0, 1, 5, 10, 1000, -1000, 60_000))
    count = count or random.choice((1, 1, 1, 2, 3, 5, 20))
    return [
        Record(
            offset,
            base_ms + random.choice((0, offset, -offset, random.randint(-50, 50))),
            random.choice((None, b"", b"k%d" % random.randrange(5), b"k1", b"k2")),
            _any_value(random),
            _any_headers(random),
        )
        for offset in range(count)
    ]


def _any_value(random: Random) -> bytes | None:
    chance = random.random()
    if chance < 0.1:
        return None
    if chance < 0.2:
        return b""
    if chance < 0.95:
        return random.randbytes(random.randrange(40))
    if chance < 0.99:
        return bytes(random.randrange(5000))
    return random.randbytes(random.randrange(100_000, 400_000))


def _any_headers(random: Random) -> tuple[tuple[str, bytes | None], ...]:
    if random.random() < 0.8:
        return ()
    return tuple(
        (random.choice(("", "h", "ü", "trace")), random.choice((None, b"", b"x")))
        for _ in range(random.choice((1, 1, 2, 5)))
    )


def any_codec(random: Random, *, zstd: bool) -> int:
    return random.choice((0, 0, 0, 1, 2, 3, 4 if zstd or random.random() < 0.3 else 0))


def good(world: World, *, zstd: bool = True, count: int | None = None) -> bytes:
    return encode_batch(
        any_records(world, count=count),
        codec=any_codec(world.random, zstd=zstd),
        leader_epoch=world.random.choice((-1, 0, 7)),
    )


def sequenced(world: World, topic: str, partition: int, *, zstd: bool = True) -> tuple[bytes, str]:
    """A batch of an idempotent producer: mostly the next one, sometimes not."""
    random = world.random
    while len(world.producers) < 3:
        world.producers.append(
            Producer(random.choice((5, 1000, 2**40)) + len(world.producers) * 7, random.choice((0, 0, 3)))
        )
    producer = random.choice(world.producers)
    key = (topic, partition)
    sent = producer.sent.setdefault(key, [])
    sequence = producer.next_sequences.get(key, 0 if random.random() < 0.8 else 2**31 - 3)
    kind = random.random()
    says = "next"
    if kind < 0.25 and sent:
        return random.choice(sent[-7:]), "duplicate"
    epoch = producer.epoch
    if kind < 0.35:
        shift = random.choice((1, 2, -1, -2, 5, -100))
        sequence = (sequence + shift) % 2**31
        says = f"sequence {shift:+}"
    elif kind < 0.45:
        producer.epoch += random.choice((1, 1, 2))
        epoch, says = producer.epoch, "higher epoch"
        if random.random() < 0.7:
            producer.next_sequences.clear()
            sequence = 0
    elif kind < 0.52:
        epoch, says = max(0, epoch - 1), "lower epoch"
    elif kind < 0.56:
        sequence, says = 0, "sequence 0"
    batch = encode_batch(
        any_records(world),
        codec=any_codec(random, zstd=zstd),
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    if says in ("next", "higher epoch"):
        producer.next_sequences[key] = (sequence + field_of(batch, COUNT)) % 2**31
        sent.append(batch)
    return batch, f"pid {producer.producer_id} epoch {epoch} sequence {sequence}: {says}"


def _flipped(world: World, batch: bytes) -> bytes:
    position = world.random.randrange(len(batch))
    while 8 <= position < 12 or position == 16:  # lengths and magic have rows of their own
        position = world.random.randrange(len(batch))
    bit = 1 << world.random.randrange(8)
    return batch[:position] + bytes([batch[position] ^ bit]) + batch[position + 1 :]


def _wrong_timestamp(world: World, batch: bytes) -> bytes:
    shift_ms = world.random.choice((5 * HOUR_MS, 24 * HOUR_MS, -30 * 24 * HOUR_MS))
    shifted = with_field(batch, BASE_TIMESTAMP, field_of(batch, BASE_TIMESTAMP) + shift_ms)
    return with_field(shifted, MAX_TIMESTAMP, field_of(batch, MAX_TIMESTAMP) + shift_ms)


def _no_timestamp(world: World, batch: bytes) -> bytes:
    return encode_batch([record._replace(timestamp_ms=-1) for record in any_records(world)])


def _negative_timestamp(world: World, batch: bytes) -> bytes:
    return encode_batch([record._replace(timestamp_ms=-2) for record in any_records(world)])


def _undecodable(world: World, batch: bytes) -> bytes:
    region = world.random.randbytes(len(batch) - 61)
    changed = bytearray(batch[:61] + region)
    reseal(changed)
    return bytes(changed)


def _garbled(world: World, batch: bytes) -> bytes:
    """One byte of the records changed, and the checksum right."""
    if field_of(batch, ATTRIBUTES) & 7:
        # Of compressed records Kafka checks so little that it stores what no consumer could read.
        return batch
    changed = bytearray(batch)
    changed[world.random.randrange(61, len(batch))] ^= 1 << world.random.randrange(8)
    reseal(changed)
    try:
        records = decode_region(changed[61:], field_of(batch, COUNT), 0, 0)
    except DecodeError as error:
        # As for a place before the first one.
        return batch if "offset delta" in str(error) else bytes(changed)
    # Records out of their places are refused here, and stored by Kafka.
    return bytes(changed) if [each.offset for each in records] == list(range(len(records))) else batch


def _too_large(world: World, batch: bytes) -> bytes:
    return encode_batch([Record(0, world.start_ms, b"k", world.random.randbytes(1_100_000))])


def _set(where: tuple[int, str], *values: int, sealed: bool = True) -> Callable[[World, bytes], bytes]:
    return lambda world, batch: with_field(batch, where, world.random.choice(values), sealed=sealed)


def _add(where: tuple[int, str], *values: int) -> Callable[[World, bytes], bytes]:
    return lambda world, batch: with_field(batch, where, field_of(batch, where) + world.random.choice(values))


# Each makes something odd of a good batch. What klamm refuses on purpose and Kafka stores is not here:
# from then on the two could not be compared.
ODD: Final[dict[str, Callable[[World, bytes], bytes]]] = {
    "one bit flipped": _flipped,
    "cut short": lambda world, batch: batch[: world.random.randrange(len(batch))],
    "empty": lambda world, batch: b"",
    "two batches": lambda world, batch: batch + good(world),
    "part of another batch": lambda world, batch: batch + batch[: world.random.randrange(1, len(batch))],
    "a tail that is no batch": lambda world, batch: batch + bytes(world.random.choice((11, 12, 70))),
    "append time": lambda world, batch: with_field(batch, ATTRIBUTES, field_of(batch, ATTRIBUTES) | 0x08),
    "base offset": _set(BASE_OFFSET, 1, 5, -1, 2**63 - 1),
    # From 14 to 48 Kafka reads on in the middle of the batch; above 2^31 - 13 it fails.
    "length": _set(LENGTH, 0, 5, 13, -1, -(2**31), 10**6, 2**31 - 13, sealed=False),
    "leader epoch": _set(LEADER_EPOCH, 0, 9, -7),
    "magic": _set(MAGIC, 0, 1, 3, 9, -1, sealed=False),
    "wrong checksum": _set(CRC, 0, 1, 2**32 - 1, sealed=False),
    "control": lambda world, batch: with_field(batch, ATTRIBUTES, field_of(batch, ATTRIBUTES) | 0x20),
    "transactional": lambda world, batch: with_field(batch, ATTRIBUTES, field_of(batch, ATTRIBUTES) | 0x10),
    "unknown attributes": lambda world, batch: with_field(
        batch, ATTRIBUTES, field_of(batch, ATTRIBUTES) | 0x80 << world.random.randrange(8)
    ),
    "count": _add(COUNT, 1, -1, -100, 1000),
    "count and delta": lambda world, batch: with_field(
        with_field(batch, COUNT, field_of(batch, COUNT) + 1),
        LAST_OFFSET_DELTA,
        field_of(batch, LAST_OFFSET_DELTA) + 1,
    ),
    "fewer than there are": lambda world, batch: with_field(
        with_field(batch, COUNT, field_of(batch, COUNT) - 1),
        LAST_OFFSET_DELTA,
        field_of(batch, LAST_OFFSET_DELTA) - 1,
    ),
    "last offset delta": _add(LAST_OFFSET_DELTA, 1, -1, -100, 1000),
    "false latest timestamp": _add(MAX_TIMESTAMP, 1, -1, 1000, 10 * HOUR_MS, -(10**15)),
    "base timestamp": _add(BASE_TIMESTAMP, 1, -1, -1000),
    "wrong timestamp": _wrong_timestamp,
    "no timestamp": _no_timestamp,
    "negative timestamp": _negative_timestamp,
    "pid without sequence": _set(PRODUCER_ID, 7, 0),
    "negative pid": _set(PRODUCER_ID, -2, -(2**63)),
    "epoch without pid": _set(PRODUCER_EPOCH, 0, 5),
    "sequence without pid": _set(BASE_SEQUENCE, 0, 5, -2),
    "undecodable": _undecodable,
    "garbled records": _garbled,
    "too large": _too_large,
}


# Kafka cannot write such batches anew: where it has to, it answers -1. With an append time it gives all
# records that one.
_NOT_REWRITTEN: Final = ("negative pid", "negative timestamp", "append time")


def odd(world: World, topic: str, *, zstd: bool = True) -> tuple[bytes, str]:
    kinds = sorted(ODD)
    if topic in world.rewriting:
        kinds = [kind for kind in kinds if kind not in _NOT_REWRITTEN]
    kind = world.random.choice(kinds)
    return ODD[kind](world, good(world, zstd=zstd)), kind
