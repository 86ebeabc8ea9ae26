"""Bytes that are not requests, and requests that are not served: they close their connection."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.requests import a_fetch


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def metadata() -> MetadataRequest:
    return MetadataRequest(None)


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def log_end(jar: Jar) -> int:
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    return partition.log.log_end_offset


@pytest.mark.parametrize(
    ("key", "version"), [(0, 1), (0, 2), (0, 14), (999, 0), (68, 0), (1, 3), (3, 14), (-1, 0), (3, -1)]
)
def test_an_api_or_version_that_is_not_served_closes_the_connection(
    jar: Jar, client: JarClient, key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        client.send_bytes(frame(struct.pack(">hhihb", key, version, 1, -1, 0) + bytes(40)))
        jar.loop.settle()
    assert client.is_closed
    assert client.frames() == []
    assert log_end(jar) == 0
    (line,) = [record.getMessage() for record in caplog.records if "closed" in record.getMessage()]
    assert "10.0.0.1" in line


@pytest.mark.parametrize("size", [-1, 0, 7, 104_857_601])
def test_a_frame_of_an_impossible_size_closes_the_connection(jar: Jar, client: JarClient, size: int) -> None:
    client.send_bytes(struct.pack(">i", size) + bytes(20))
    jar.loop.settle()
    assert client.is_closed


@pytest.mark.parametrize(
    ("data", "cause"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")]
)
def test_another_protocol_is_named_in_the_log(
    jar: Jar, client: JarClient, data: bytes, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        client.send_bytes(data)
        jar.loop.settle()
    assert client.is_closed
    assert cause in caplog.text


def metadata_frame(version: int, body: bytes) -> bytes:
    return frame(struct.pack(">hhih", 3, version, 1, -1) + (b"\0" if version >= 9 else b"") + body)


@pytest.mark.parametrize(
    "request_frame",
    [
        metadata_frame(1, b"\x7f\xff\xff\xff"),
        metadata_frame(1, b"\xff\xff\xff\xfe"),
        metadata_frame(1, b"\0\0\0\1\0\7abc"),
        metadata_frame(1, b"\0\0\0\1\0\2\xc3\x28"),
        metadata_frame(9, b"\xff\xff\xff\xff\xff\x01"),
        metadata_frame(1, b"\0\x0f\x42\x40" + bytes(2_000_000)),  # a million empty names
    ],
    ids=[
        "count beyond the frame",
        "count -2",
        "string beyond the frame",
        "bad UTF-8",
        "long varint",
        "million",
    ],
)
def test_a_body_that_makes_no_sense_closes_the_connection(
    jar: Jar, client: JarClient, request_frame: bytes
) -> None:
    client.send_bytes(request_frame)
    jar.loop.settle()
    assert client.is_closed


def test_what_came_whole_before_the_nonsense_is_served(jar: Jar, client: JarClient) -> None:
    client.send_bytes(client.request(ApiKey.METADATA, 5, metadata()) + b"GET / HTTP/1.1\r\n\r\n")
    jar.loop.settle()
    assert len(client.new_answers()) == 1
    assert client.is_closed


def test_nonsense_behind_a_parked_request_closes_when_that_is_answered(jar: Jar, client: JarClient) -> None:
    client.send_bytes(
        client.request(ApiKey.FETCH, 12, a_fetch(jar, offset=0, max_wait_ms=200)) + struct.pack(">i", -1)
    )
    jar.pass_ms(100)
    assert not client.is_closed
    jar.pass_ms(110)
    assert len(client.new_answers()) == 1
    assert client.is_closed
