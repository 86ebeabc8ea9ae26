"""Strangers send nonsense on many connections at once; a client that means well notices nothing."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

from interop.processes import KlammProcess
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.batch import ATTRIBUTES_AT, HEADER_BYTES, LENGTH_AT, reseal
from klamm.records.compression import Codec, compress
from klamm.records.record import Record, decode_records, encode_batch
from klamm.testing.wire import WireClient, request_bytes

STRANGERS: Final = 4
ATTACKS_EACH: Final = 90
HELD_OPEN_EACH: Final = 60  # connections that announce much, send little and stay
MAX_GROWTH_MB: Final = 32
SETTINGS: Final = {
    "auto.create.topics.enable": "false",  # else strangers may fill the disk with what they are allowed to do
    "klamm.decompress.max.bytes": str(1 << 20),
}
TOPIC: Final = "good"
COMPACTED: Final = "compacted"  # whose records are looked at, so that a bomb is met

Attack = Callable[[Random], bytes]


def a_batch() -> bytes:
    return encode_batch([Record(0, SystemClock().timestamp_ms(), b"k", b"value")])


def a_produce(batch: bytes, topic: str = TOPIC) -> ProduceRequest:
    return ProduceRequest(
        None, -1, 10_000, [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])]
    )


def a_fetch(offset: int) -> FetchRequest:
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    )


def a_bomb(codec: Codec) -> bytes:
    """A batch of a few kilobytes that wants to be 32 megabytes."""
    batch = bytearray(a_batch()[:HEADER_BYTES]) + compress(codec, bytes(32 << 20))
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    reseal(batch)
    return bytes(batch)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, *, tags: bytes = b"") -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1) + tags


BOMBS: Final = [
    request_bytes(ApiKey.PRODUCE, 9, a_produce(a_bomb(codec), COMPACTED)) for codec in list(Codec)[1:]
]
SANE: Final = [
    request_bytes(ApiKey.PRODUCE, 9, a_produce(a_batch())),
    request_bytes(ApiKey.FETCH, 12, a_fetch(0)),
    request_bytes(ApiKey.METADATA, 12, MetadataRequest(None)),
    request_bytes(
        ApiKey.LIST_OFFSETS,
        7,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, -1)])]),
    ),
]
SERVED: Final = [(int(key), version) for key in ApiKey for version in range(14)]


def noise(random: Random) -> bytes:
    return random.randbytes(random.randint(1, 4096))


def a_frame_of_an_impossible_size(random: Random) -> bytes:
    size = random.choice([-1, -(2**31), 0, 7, 2**31 - 1, 104_857_601])
    return struct.pack(">i", size) + random.randbytes(64)


def a_cut_frame(random: Random) -> bytes:
    whole = random.choice(SANE)
    return whole[: random.randint(1, len(whole) - 1)]


def a_changed_request(random: Random) -> bytes:
    changed = bytearray(random.choice(SANE))
    for _ in range(random.randint(1, 6)):
        changed[random.randint(8, len(changed) - 1)] = random.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])
    return bytes(changed)


def a_body_of_noise(random: Random) -> bytes:
    key, version = random.choice(SERVED)
    return framed(
        header(key, version, tags=random.choice([b"", b"\0"])) + random.randbytes(random.randint(0, 300))
    )


def an_unknown_request(random: Random) -> bytes:
    key, version = random.choice([(999, 0), (-1, 0), (68, 0), (3, 99), (1, -5), (18, 99), (18, -1), (0, 1)])
    return framed(header(key, version) + random.randbytes(20))


def an_absurd_count(random: Random) -> bytes:
    count = random.choice([2**31 - 1, -2, 10_000_000])
    long_count = b"\xff\xff\xff\xff\x0f"
    return random.choice(
        [
            framed(header(ApiKey.METADATA, 1) + struct.pack(">i", count)),
            framed(header(ApiKey.METADATA, 12, tags=b"\0") + long_count + bytes(30)),
            framed(header(ApiKey.METADATA, 12, tags=long_count) + bytes(30)),  # tags of the header
            framed(header(ApiKey.METADATA, 12, tags=b"\1\0\xff\xff\xff\xff\x0f") + bytes(30)),  # a long tag
            framed(header(ApiKey.METADATA, 12, tags=b"\0") + b"\1\1\0\0" + long_count),  # tags of the body
            framed(header(ApiKey.METADATA, 1) + struct.pack(">i", 1_000_000) + bytes(2_000_000)),
            framed(header(ApiKey.PRODUCE, 7) + struct.pack(">hhii", -1, -1, 1000, count)),
        ]
    )


def a_wrong_checksum(random: Random) -> bytes:
    batch = bytearray(a_batch())
    batch[random.randint(HEADER_BYTES, len(batch) - 1)] ^= 0x55
    return request_bytes(ApiKey.PRODUCE, 9, a_produce(bytes(batch)))


def a_decompression_bomb(random: Random) -> bytes:
    return random.choice(BOMBS)


ATTACKS: Final[Sequence[Attack]] = [
    noise,
    a_frame_of_an_impossible_size,
    a_cut_frame,
    a_changed_request,
    a_body_of_noise,
    an_unknown_request,
    an_absurd_count,
    a_wrong_checksum,
    a_decompression_bomb,
]


def attack(address: tuple[str, int], seed: int) -> None:
    """One stranger: every kind of nonsense, each on a connection of its own, and some that stay."""
    random = Random(seed)
    held: list[socket.socket] = []
    try:
        for number in range(HELD_OPEN_EACH):
            held.append(socket.create_connection(address, timeout=10))
            # A hundred megabytes announced: only Produce may, and memory follows what comes.
            announced = struct.pack(">i", 100_000_000) + header(ApiKey.PRODUCE, 7) + bytes(number)
            held[-1].sendall(announced)
        for number in range(ATTACKS_EACH):
            with socket.create_connection(address, timeout=10) as connection:
                try:
                    connection.sendall(ATTACKS[number % len(ATTACKS)](random))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    continue  # thrown out in the middle of it, as it deserves
    finally:
        for connection in held:
            connection.close()


def resident_mb(pid: int) -> float:
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


class GoodClient:
    """Produces one record after the other and reads each back."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.written = 0

    def go_on(self) -> None:
        line = self._client.ask(ApiKey.PRODUCE, 9, a_produce(a_batch())).responses[0].partition_responses[0]
        assert line.error_code == 0
        partition = self._client.ask(ApiKey.FETCH, 12, a_fetch(line.base_offset)).responses[0].partitions[0]
        assert partition.error_code == 0
        (record,) = decode_records(partition.records)[:1]
        assert (record.offset, record.value) == (line.base_offset, b"value")
        self.written += 1


def test_strangers_harm_nobody(tmp_path: Path) -> None:
    stderr_path = tmp_path / "klamm.log"
    broker = KlammProcess(tmp_path / "data", stderr_path=stderr_path, settings=SETTINGS)
    try:
        host, _, port = broker.bootstrap.rpartition(":")
        address = (host, int(port))
        with WireClient(broker.bootstrap) as client, ThreadPoolExecutor(STRANGERS) as strangers:
            compact = [CreatableTopicConfig("cleanup.policy", "compact")]
            topics = [CreatableTopic(TOPIC, 1, 1), CreatableTopic(COMPACTED, 1, 1, configs=compact)]
            assert all(
                not each.error_code
                for each in client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics)).topics
            )
            good = GoodClient(client)
            attack(address, seed=0)  # once alone: every code path is loaded, every buffer has its size
            good.go_on()
            before_mb = resident_mb(broker.pid)
            attacks: list[Future[None]] = [
                strangers.submit(attack, address, seed) for seed in range(1, STRANGERS + 1)
            ]
            largest_mb = before_mb
            while not all(each.done() for each in attacks):
                good.go_on()
                largest_mb = max(largest_mb, resident_mb(broker.pid))
            for each in attacks:
                each.result()
            good.go_on()
        assert good.written > 10
        assert largest_mb - before_mb < MAX_GROWTH_MB
        assert broker.stop() == 0
    finally:
        broker.kill()
    said = stderr_path.read_text(encoding="utf-8")
    assert "Traceback" not in said
    assert "closed: " in said, "the operator is told, though not of each"
    assert said.count("\n") < 100
