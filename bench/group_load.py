"""Consumer groups as bytes on plain sockets, the same for every broker: no client library in the way.

Members whose join or sync waits have a connection each, as Kafka takes one request per connection at a time.
They are in a program of their own, `bench/group_crowd`, in Go: one in Python takes a fourth more processor
time, of which the machine has little besides the broker.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from interop.kafka_tools import cache_dir
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

Address = tuple[str, int]

CLIENT_ID = "bench"
TOPIC = "orders"
CONSUMER_HEARTBEAT, HEARTBEAT, LEAVE = 1, 4, 5  # the versions that today's clients speak


def connect(address: Address) -> socket.socket:
    """A connection that sends at once."""
    connection = socket.create_connection(address, timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exactly(connection: socket.socket, size: int) -> bytearray:
    """So many bytes, as soon as they are there."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            raise ConnectionError("the broker closed the connection")
        view = view[received:]
    return buffer


def frame(api_key: ApiKey, version: int, request: Any) -> bytes:
    """One request as it goes over the wire. Its correlation id is always the same."""
    body = request_encoder(api_key, version)(request)
    return b"".join(request_frame(api_key, version, 7, CLIENT_ID, body))


def ask(connection: socket.socket, api_key: ApiKey, version: int, request: Any) -> Any:
    """Send one request and wait for its answer, decoded."""
    connection.sendall(frame(api_key, version, request))
    (size,) = struct.unpack(">i", exactly(connection, 4))
    answer = bytes(exactly(connection, size))
    _, position = read_response_header(answer, has_tags=response_has_tags(api_key, version))
    return response_decoder(api_key, version)(answer, position)


def wait_for_coordinator(address: Address, group_ids: Sequence[str]) -> None:
    """Until these groups have a coordinator that has loaded: their topic is made when first asked for."""
    deadline = time.monotonic() + 60
    with connect(address) as connection:
        while True:
            request = FindCoordinatorRequest(coordinator_keys=list(group_ids))
            answer = ask(connection, ApiKey.FIND_COORDINATOR, 4, request)
            if not any(found.error_code for found in answer.coordinators):
                described = ask(connection, ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(list(group_ids)))
                if not any(group.error_code for group in described.groups):
                    return
            if time.monotonic() > deadline:
                raise TimeoutError("no coordinator after a minute")
            time.sleep(0.05)


@cache
def crowd_program() -> Path:
    """`bench/group_crowd`, built."""
    program = cache_dir() / "bench" / "group_crowd"
    fetched = cache_dir() / "bin" / "go"
    build = [str(fetched) if fetched.exists() else "go", "build", "-buildvcs=false", "-o", str(program), "."]
    folder = Path(__file__).with_name("group_crowd")
    subprocess.run(build, cwd=folder, env={**os.environ, "GOTOOLCHAIN": "local"}, check=True)
    return program


class Group:
    """The members of one group, after each of them had its assignment in the same generation."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.member_ids: list[str] = []
        self.generation = -1
        self.took_s = 0.0  # the last rebalance

    def heartbeats(self) -> list[bytes]:
        """One heartbeat of each member."""
        return [
            frame(ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(self.group_id, self.generation, member_id))
            for member_id in self.member_ids
        ]

    def keep_alives(self) -> list[bytes]:
        """One heartbeat of each member of the consumer protocol."""
        return [
            frame(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                CONSUMER_HEARTBEAT,
                ConsumerGroupHeartbeatRequest(
                    self.group_id, member_id, self.generation, topic_partitions=None
                ),
            )
            for member_id in self.member_ids
        ]

    def leave(self, address: Address) -> None:
        """All members go, in one request."""
        leaving = [MemberIdentity(member_id) for member_id in self.member_ids]
        with connect(address) as connection:
            answer = ask(connection, ApiKey.LEAVE_GROUP, LEAVE, LeaveGroupRequest(self.group_id, leaving))
        if answer.error_code:
            raise RuntimeError(f"leaving {self.group_id}: error {answer.error_code}")


class Crowd:
    """Connections on which members join groups, and come back when they must."""

    def __init__(self, address: Address, size: int) -> None:
        host, port = address
        self._process = subprocess.Popen(
            [crowd_program(), host, str(port), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == ["ready"]

    def close(self) -> None:
        self._process.communicate()

    def settle(self, group_id: str, size: int) -> Group:
        """Let so many members join a new group, all at once."""
        group = Group(group_id)
        self._order(f"settle {group_id} {size}", group)
        return group

    def gather(self, group: Group, newcomers: int, partitions: int) -> None:
        """Let members of the consumer protocol join, until all are at one epoch and have all partitions."""
        self._order(f"gather {group.group_id} {newcomers} {partitions}", group)

    def one_more(self, group: Group) -> None:
        """Let another one join; all others notice by their heartbeats, which they send at once."""
        self._order(f"one_more {group.group_id}", group)

    def _order(self, line: str, group: Group) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        took_ns, generation, *group.member_ids = self._answer()
        group.took_s, group.generation = int(took_ns) / 1e9, int(generation)

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the members' program ended")  # it has said why
        return line.split()
