"""Records that go from files to real sockets without a copy in the broker."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import klamm
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.testing.wire import WireClient, request_bytes

PARTITIONS = 3
BATCHES = 8
VALUE_BYTES = 300_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[klamm.Broker]:
    with klamm.Broker(tmp_path / "data") as broker:
        with WireClient(broker.bootstrap) as client:
            create = CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)])
            assert client.ask(ApiKey.CREATE_TOPICS, 7, create).topics[0].error_code == 0
            random = Random(1)
            for number in range(BATCHES * PARTITIONS):
                # The last partition has small batches: several slices of one response, some of them small.
                value = random.randbytes(VALUE_BYTES if number % PARTITIONS < 2 else 9_000)
                batch = encode_batch([Record(0, SystemClock().timestamp_ms(), None, value)])
                part = PartitionProduceData(number % PARTITIONS, batch)
                data = TopicProduceData(name="t", partition_data=[part])
                answer = client.ask(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 30_000, [data]))
                assert answer.responses[0].partition_responses[0].error_code == 0
        yield broker


def a_fetch() -> FetchRequest:
    wanted = [
        FetchPartition(index, fetch_offset=0, partition_max_bytes=1 << 24) for index in range(PARTITIONS)
    ]
    topics = [FetchTopic(topic="t", partitions=wanted)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 26, session_epoch=-1, topics=topics)


def stored(folder: Path, partition: int) -> bytes:
    (path,) = (folder / "data" / f"t-{partition}").glob("*.log")
    return path.read_bytes()


def check(client: WireClient, folder: Path) -> None:
    """The next answer brings what the files have."""
    _, answer = client.receive(ApiKey.FETCH, 12)
    for partition in answer.responses[0].partitions:
        assert bytes(partition.records) == stored(folder, partition.partition_index)


def test_records_come_as_they_are_in_the_files(
    broker: klamm.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    sendfile = os.sendfile

    def counted(out: int, file: int, position: int, length: int) -> int:
        sent.append(sendfile(out, file, position, length))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counted)
    with WireClient(broker.bootstrap) as client:
        for _ in range(3):
            client.send(ApiKey.FETCH, 12, a_fetch())
            check(client, tmp_path)
    # At least the large ones; of the small ones some are read with what is beside them
    assert sum(sent) > 3 * 2 * (BATCHES - 1) * VALUE_BYTES


def test_a_client_that_reads_slowly_gets_everything_in_order(broker: klamm.Broker, tmp_path: Path) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(30)
        slow.connect((host, int(port)))
        with WireClient(broker.bootstrap) as client:
            client.socket.close()
            client.socket = slow
            for _ in range(3):
                client.send(ApiKey.FETCH, 12, a_fetch())
                client.send(ApiKey.METADATA, 12, MetadataRequest(None))
            for _ in range(3):
                check(client, tmp_path)
                _, answer = client.receive(ApiKey.METADATA, 12)
                assert len(answer.topics) == 1


@pytest.mark.parametrize("works_first", [False, True])
def test_records_are_copied_where_sendfile_does_not_work(
    broker: klamm.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works_first: bool
) -> None:
    sendfile, calls = os.sendfile, []

    def refuse(out: int, file: int, position: int, length: int) -> int:
        calls.append(length)
        if works_first and len(calls) == 1:
            return sendfile(out, file, position, 1000)
        raise OSError(errno.EINVAL, "not on this file system")

    monkeypatch.setattr(os, "sendfile", refuse)
    with WireClient(broker.bootstrap) as client:
        for _ in range(2):
            client.send(ApiKey.FETCH, 12, a_fetch())
            check(client, tmp_path)
    assert calls


@pytest.mark.parametrize("fault", ["EIO", "end of file"])
def test_a_file_that_cannot_be_read_costs_the_connection_and_no_other(
    broker: klamm.Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    def fail(out: int, file: int, position: int, length: int) -> int:
        if fault == "EIO":
            raise OSError(errno.EIO, "Input/output error")
        return 0

    with WireClient(broker.bootstrap) as client, WireClient(broker.bootstrap) as other:
        with monkeypatch.context() as patched:
            patched.setattr(os, "sendfile", fail)
            client.send(ApiKey.FETCH, 12, a_fetch())
            with pytest.raises(ConnectionError):
                client.receive_frame()
        assert other.ask(ApiKey.METADATA, 12, MetadataRequest(None)).topics
    assert "sending a response to 127.0.0.1" in caplog.text


def test_clients_that_disconnect_in_the_middle_of_a_response_disturb_no_other(
    broker: klamm.Broker, tmp_path: Path
) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    for _ in range(20):
        with socket.create_connection((host, int(port)), timeout=10) as hasty:
            hasty.sendall(request_bytes(ApiKey.FETCH, 12, a_fetch()) * 5)
            hasty.recv(1000)
            # An abrupt end: the broker learns of it when it sends
            hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with WireClient(broker.bootstrap) as client:
        client.send(ApiKey.FETCH, 12, a_fetch())
        check(client, tmp_path)
