"""Disks that fill up, hang or hold nonsense: the partition concerned says so, and the others serve."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

import pytest

from faults.load import read_all
from interop.processes import KlammProcess
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from klamm.records.record import Record, encode_batch
from klamm.testing.wire import WireClient

Broker = Callable[[], AbstractContextManager[KlammProcess]]
SEGMENT_BYTES = "4096"
HANGS = "a flush hangs"  # printed by `faults.hanging_disk`


def create(client: WireClient, *names: str, segment_bytes: str = SEGMENT_BYTES) -> None:
    topics = [
        CreatableTopic(name, 1, 1, configs=[CreatableTopicConfig("segment.bytes", segment_bytes)])
        for name in names
    ]
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics))
    assert [item.error_code for item in answer.topics] == [0] * len(names)


def a_produce(topic: str, value: bytes) -> ProduceRequest:
    batch = encode_batch([Record(0, SystemClock().timestamp_ms(), b"key", value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(None, -1, 30_000, [data])


def produce(client: WireClient, topic: str, value: bytes) -> PartitionProduceResponse:
    answer = client.ask(ApiKey.PRODUCE, 9, a_produce(topic, value))
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def fill(client: WireClient, topic: str, count: int) -> list[bytes]:
    values = [b"%d:%s" % (number, Random(number).randbytes(300)) for number in range(count)]
    for value in values:
        assert produce(client, topic, value).error_code == ErrorCode.none
    return values


def values_of(client: WireClient, topic: str) -> list[bytes | None]:
    return [record.value for record in read_all(client, topic, 0)]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Starts a broker on one and the same folder, as often as asked."""
    starts = iter(range(100))
    return lambda: KlammProcess(tmp_path / "data", stderr_path=tmp_path / f"klamm-{next(starts)}.log")


def test_a_damaged_segment_takes_its_partition_offline_and_no_other(broker: Broker, tmp_path: Path) -> None:
    with broker() as first, WireClient(first.bootstrap) as client:
        create(client, "damaged", "sound")
        fill(client, "damaged", 40)
        sound = fill(client, "sound", 40)
        assert first.stop() == 0
    segment = sorted((tmp_path / "data" / "damaged-0").glob("*.log"))[1]
    before = segment.read_bytes()
    segment.write_bytes(b"\xff" * 200 + before[200:])

    with broker() as second, WireClient(second.bootstrap) as client:
        assert values_of(client, "sound") == sound
        assert produce(client, "sound", b"more").error_code == ErrorCode.none
        with pytest.raises(AssertionError, match="error_code=56"):
            read_all(client, "damaged", 0)
        assert "damaged-0" in second.stderr_path.read_text()
        assert second.stop() == 0
    assert segment.read_bytes()[200:] == before[200:], "what is left of it is not touched"


@pytest.mark.parametrize(
    "damage", [b"", b"\xff" * 8, b"\xff" * 13], ids=["empty", "nonsense", "half an entry"]
)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_damaged_index_is_rebuilt(broker: Broker, tmp_path: Path, suffix: str, damage: bytes) -> None:
    with broker() as first, WireClient(first.bootstrap) as client:
        create(client, "t")
        expected = fill(client, "t", 60)
        assert first.stop() == 0
    for index in (tmp_path / "data" / "t-0").glob(f"*.{suffix}"):
        index.write_bytes(damage)
    with broker() as second, WireClient(second.bootstrap) as client:
        assert values_of(client, "t") == expected
        assert produce(client, "t", b"more").base_offset == 60
        assert second.stop() == 0


@pytest.mark.parametrize("tail", [bytes(500), b"\xff" * 77, None], ids=["zeros", "noise", "half a batch"])
def test_a_torn_tail_is_cut_after_a_crash(broker: Broker, tmp_path: Path, tail: bytes | None) -> None:
    with broker() as first, WireClient(first.bootstrap) as client:
        create(client, "t")
        expected = fill(client, "t", 30)
        first.kill()
    segment = sorted((tmp_path / "data" / "t-0").glob("*.log"))[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole + (whole[: len(whole) // 7] if tail is None else tail))
    with broker() as second, WireClient(second.bootstrap) as client:
        assert values_of(client, "t") == expected
        assert produce(client, "t", b"more").base_offset == 30
        assert second.stop() == 0


def test_a_checkpoint_cut_short_costs_a_scan_and_no_data(broker: Broker, tmp_path: Path) -> None:
    with broker() as first, WireClient(first.bootstrap) as client:
        create(client, "t")
        expected = fill(client, "t", 30)
        assert first.stop() == 0
    for checkpoint in (tmp_path / "data").glob("*-checkpoint"):
        checkpoint.write_bytes(checkpoint.read_bytes()[:3])
    with broker() as second, WireClient(second.bootstrap) as client:
        assert values_of(client, "t") == expected
        assert second.stop() == 0


def test_a_disk_that_hangs_delays_neither_heartbeats_nor_metadata(tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    process = KlammProcess(
        tmp_path / "data",
        stderr_path=tmp_path / "klamm.log",
        module="faults.hanging_disk",
        environment={"HANGING_DISK_WHILE": str(hangs)},
    )
    try:
        with WireClient(process.bootstrap) as producer, WireClient(process.bootstrap) as other:
            # Given a coordinator that has loaded, and a topic whose batches go through the journal
            heartbeat = HeartbeatRequest("g", 1, "nobody")
            while other.ask(ApiKey.HEARTBEAT, 4, heartbeat).error_code != ErrorCode.unknown_member_id:
                other.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
            create(producer, "t")
            fill(producer, "t", 3)
            for _ in range(3):
                for _ in range(100):  # some time passes
                    other.ask(ApiKey.HEARTBEAT, 4, heartbeat)
                # When the disk hangs in the flush of the only request there is
                hangs.touch()
                producer.send(ApiKey.PRODUCE, 9, a_produce("t", b"value"))
                assert process.read_line(30) == HANGS
                # Then others are answered
                for _ in range(3):
                    answer = other.ask(ApiKey.HEARTBEAT, 4, heartbeat)
                    assert answer.error_code == ErrorCode.unknown_member_id
                    assert len(other.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers) == 1
                # And the request itself, when the disk works again
                hangs.unlink()
                _, answer = producer.receive(ApiKey.PRODUCE, 9)
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
        assert process.stop() == 0
    finally:
        process.kill()
