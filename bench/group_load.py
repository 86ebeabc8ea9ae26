"""Consumer groups as bytes on plain sockets, the same for every broker: no client library in the way.

Requests are encoded once; a member's id and its generation are put into their places when they are known.
Members whose join or sync waits have a connection each, as Kafka takes one request per connection at a time.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.headers import read_response_header, request_frame, response_has_tags
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.sync_group import SyncGroupRequest

Address = tuple[str, int]

CLIENT_ID = "bench"
TOPIC = "orders"
JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5  # the versions that today's clients speak
SESSION_MS = 1_200_000  # no session ends while others are measured
SUBSCRIPTION = bytes.fromhex("000000000001") + struct.pack(">h", len(TOPIC)) + TOPIC.encode() + b"\xff" * 4
ASSIGNMENT = SUBSCRIPTION[:-4] + bytes.fromhex("0000000100000000ffffffff")
_SOME_ID = CLIENT_ID + "-" + "#" * 36  # as long as every id that brokers hand out
_SOME_GENERATION = 0x5EED5EED
_ERROR_AT = 13  # of an answer of these versions: size, correlation id, tags, throttle time, error
_LEADER_AT = (
    _ERROR_AT + 2 + 4 + len("\0consumer\0range\0")
)  # of a join that was let in: behind the generation
_REJOIN = (int(ErrorCode.rebalance_in_progress), int(ErrorCode.illegal_generation))
_ID_REQUIRED = int(ErrorCode.member_id_required)
_MOST_AT_ONCE = 1 << 16  # a larger buffer is fetched from the system each time


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


def _uvarint(value: int) -> bytes:
    return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80,)) + _uvarint(value >> 7)


class Template:
    """A request with places for a member's id and, before it, its generation."""

    def __init__(self, api_key: ApiKey, version: int, request: Any) -> None:
        before, self._end = frame(api_key, version, request).split(_SOME_ID.encode())
        self._parts = before.split(struct.pack(">i", _SOME_GENERATION))
        self._start, self._generation = self._parts[0], -1
        assert len(self._parts) <= 2

    def __call__(self, member_id: bytes, generation: int = -1) -> bytes:
        if generation != self._generation:
            self._start = generation.to_bytes(4, "big").join(self._parts)
            self._generation = generation
        return self._start + member_id + self._end


# What a member is doing. Plain numbers: an enum's member takes as long to look up as an answer to handle.
ASKING, JOINING, SYNCING, ASSIGNED, BEATING = range(5)  # the first: for an id
_DOING = ("asking", "joining", "syncing", "assigned", "beating")


class _Member:
    """One member on its own connection."""

    __slots__ = ("connection", "doing", "generation", "id", "receive", "received", "send")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.send = connection.send
        self.receive = connection.recv
        self.received = b""
        self.doing = ASSIGNED
        self.id = b""
        self.generation = -1


class Crowd:
    """Connections on which members join groups, and come back when they must."""

    def __init__(self, address: Address, size: int) -> None:
        self._connections = [connect(address) for _ in range(size)]
        for connection in self._connections:
            connection.setblocking(False)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def settle(self, group_id: str, size: int) -> Group:
        """Let so many members join a new group, all at once."""
        group = Group(group_id, [_Member(connection) for connection in self._connections[:size]])
        group.run(size)
        return group

    def one_more(self, group: Group) -> None:
        """Let another one join; all others notice by their heartbeats, which they send at once."""
        group.members.append(_Member(self._connections[len(group.members)]))
        group.run(1)


class Group:
    """The members of one group, driven until each of them has its assignment in the same generation."""

    def __init__(self, group_id: str, members: list[_Member]) -> None:
        self.group_id = group_id
        self.members = members
        self.took_s = 0.0
        self.generation = -1
        protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
        join = JoinGroupRequest(group_id, SESSION_MS, SESSION_MS, "", None, "consumer", protocols)
        self._first_join = frame(ApiKey.JOIN_GROUP, JOIN, join)
        join.member_id = _SOME_ID
        self._join = Template(ApiKey.JOIN_GROUP, JOIN, join)
        sync = SyncGroupRequest(group_id, _SOME_GENERATION, _SOME_ID, None, "consumer", "range")
        self._sync = Template(ApiKey.SYNC_GROUP, SYNC, sync)
        beat = HeartbeatRequest(group_id, _SOME_GENERATION, _SOME_ID)
        self._beat = Template(ApiKey.HEARTBEAT, HEARTBEAT, beat)
        self._before = -1  # the generation that is to be left
        self._assigned: dict[int, int] = {}  # generation -> how many have their assignment

    @property
    def member_ids(self) -> list[bytes]:
        return [member.id for member in self.members]

    def heartbeats(self) -> list[bytes]:
        """One heartbeat of each member."""
        return [self._beat(member.id, self.generation) for member in self.members]

    def run(self, newcomers: int) -> None:
        """Let the last so many members join, until all members are assigned."""
        members = self.members
        self._assigned = {}
        self._before = self.generation
        polling = select.epoll(len(members))
        by_fd = {member.connection.fileno(): member for member in members}
        for fd in by_fd:
            polling.register(fd, select.EPOLLIN)
        others = members[: len(members) - newcomers]
        started_at = time.perf_counter()
        for member in members[len(members) - newcomers :]:
            member.doing = ASKING
            member.send(self._first_join)
        while self._assigned.get(self.generation, 0) < len(members):
            ready = polling.poll(0.005)
            for fd, _ in ready:
                self._receive(by_fd[fd])
            if others:
                if members[-1].doing != ASKING:
                    self._look_around(others)
                    others = []
            elif not ready:
                # Whoever has an assignment learns from its heartbeat that it must join again.
                self._look_around([each for each in members if each.doing == ASSIGNED])
                if time.perf_counter() - started_at > 120:
                    doing = [_DOING[each.doing] for each in members]
                    counts = {name: doing.count(name) for name in set(doing)}
                    raise TimeoutError(f"{self.group_id} does not settle: {self._assigned}, {counts}")
        self.took_s = time.perf_counter() - started_at
        while any(member.doing == BEATING for member in members):
            for fd, _ in polling.poll(1):
                self._receive(by_fd[fd])
        polling.close()

    def _look_around(self, members: Sequence[_Member]) -> None:
        for member in members:
            member.doing = BEATING
            member.send(self._beat(member.id, member.generation))

    def _receive(self, member: _Member) -> None:
        answer = member.receive(_MOST_AT_ONCE)
        if not answer:
            raise ConnectionError("the broker closed the connection")
        if member.received or len(answer) < 4 or len(answer) != 4 + int.from_bytes(answer[:4], "big"):
            answer = member.received + answer
            if len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
                member.received = answer
                return
            member.received = b""
        error_code = int.from_bytes(answer[_ERROR_AT : _ERROR_AT + 2], "big")
        doing = member.doing
        if error_code:
            self._refused(member, answer, error_code)
        elif doing == JOINING:
            member.generation = int.from_bytes(answer[_ERROR_AT + 2 : _ERROR_AT + 6], "big")
            member.doing = SYNCING
            if answer.startswith(member.id, _LEADER_AT):
                self._assign(member)
            else:
                member.send(self._sync(member.id, member.generation))
        elif doing == SYNCING:
            member.doing = ASSIGNED
            self.generation = max(self.generation, member.generation)
            self._assigned[member.generation] = self._assigned.get(member.generation, 0) + 1
        elif doing == ASKING:
            raise RuntimeError(f"JoinGroup without an id was answered without an error: {answer[:200]!r}")
        elif member.generation <= self._before:
            member.send(self._beat(member.id, member.generation))  # the newcomer has not come through yet
        else:
            member.doing = ASSIGNED

    def _refused(self, member: _Member, answer: bytes, error_code: int) -> None:
        if member.doing == ASKING:
            if error_code != _ID_REQUIRED:
                raise RuntimeError(
                    f"JoinGroup without an id was answered with error {error_code}: {answer[:200]!r}"
                )
            # generation, no protocol type and name, no leader, no assignment to skip
            start = _ERROR_AT + 2 + 4 + 4
            member.id = answer[start + 1 : start + answer[start]]
            assert len(member.id) == len(_SOME_ID)
        elif error_code in _REJOIN:
            if member.doing == BEATING and self._assigned.get(member.generation):
                self._assigned[member.generation] -= 1
        else:
            raise RuntimeError(f"{member.id!r}, {_DOING[member.doing]}: error {error_code}")
        member.doing = JOINING
        member.send(self._join(member.id))

    def _assign(self, leader: _Member) -> None:
        leader.connection.setblocking(True)
        leader.connection.sendall(self._assigning(leader))
        leader.connection.setblocking(False)

    def _assigning(self, leader: _Member) -> bytes:
        """The leader's SyncGroup, with a part for every possible member of its generation."""
        whole = self._sync(leader.id, leader.generation)
        assert whole.endswith(b"\x01\x00"), "an empty array and no tags"
        given = _uvarint(len(ASSIGNMENT) + 1) + ASSIGNMENT + b"\0"
        parts = [_uvarint(len(each.id) + 1) + each.id + given for each in self.members if each.id]
        body = whole[4:-2] + _uvarint(len(parts) + 1) + b"".join(parts) + b"\0"
        return struct.pack(">i", len(body)) + body

    def leave(self, address: Address) -> None:
        """All members go, in one request."""
        leaving = [MemberIdentity(member.id.decode()) for member in self.members]
        with connect(address) as connection:
            answer = ask(connection, ApiKey.LEAVE_GROUP, LEAVE, LeaveGroupRequest(self.group_id, leaving))
        if answer.error_code:
            raise RuntimeError(f"leaving {self.group_id}: error {answer.error_code}")
