"""Load on a group coordinator from plain sockets, the same for every broker.

Heartbeats and commits are built once and sent again and again, answers are counted by their size. Members of
a rebalance are small state machines on one event loop: join, sync, and join again when told to.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import response_decoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.wire import WireClient, request_bytes

JOIN, SYNC, HEARTBEAT, COMMIT, FETCH = 5, 3, 3, 7, 5  # versions, the last before flexible ones
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("0000000000010001740000000100000000ffffffff")
REMINDER_S = 0.02  # how often those who have settled too early ask whether they must join again


def wait_for_coordinator(address: str, group: str) -> None:
    """Ask until the group has a coordinator that serves."""
    with WireClient(address, timeout_s=60) as client:
        while client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(group)).error_code:
            time.sleep(0.02)
        wait_until_loaded(client, [group])


def wait_until_loaded(client: WireClient, groups: Iterable[str]) -> None:
    for group in groups:
        request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic("t", [0])])
        while client.ask(ApiKey.OFFSET_FETCH, FETCH, request).error_code:
            time.sleep(0.005)


class Member(asyncio.Protocol):
    """One member of the group, which does what it is told as fast as it can."""

    def __init__(self, rally: Rally) -> None:
        self._rally = rally
        self._received = bytearray()
        self._expects = ApiKey.JOIN_GROUP
        self._transport: Any = None  # a transport once connected
        self.member_id = ""
        self.generation = -1
        self.is_settled = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._answered(frame)

    def join(self) -> None:
        self.is_settled = False
        self._send(
            ApiKey.JOIN_GROUP,
            JOIN,
            JoinGroupRequest(
                group_id=self._rally.group,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
            ),
        )

    def heartbeat(self) -> None:
        """Ask whether to join again, unless an answer is on its way."""
        if self.is_settled and self._expects is not ApiKey.HEARTBEAT:
            request = HeartbeatRequest(self._rally.group, self.generation, self.member_id)
            self._send(ApiKey.HEARTBEAT, HEARTBEAT, request)

    def close(self) -> None:
        self._transport.close()

    def _send(self, api_key: ApiKey, version: int, request: object) -> None:
        self._expects = api_key
        self._transport.write(request_bytes(api_key, version, request))

    def _answered(self, frame: bytes) -> None:
        version = {ApiKey.JOIN_GROUP: JOIN, ApiKey.SYNC_GROUP: SYNC, ApiKey.HEARTBEAT: HEARTBEAT}
        answered, self._expects = self._expects, ApiKey.METADATA
        response: Any = response_decoder(answered, version[answered])(frame, 4)
        error = ErrorCode(response.error_code)
        if answered is ApiKey.JOIN_GROUP:
            self._joined(response, error)
        elif error in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            self.join()
        elif error is not ErrorCode.none:
            self._rally.fail(f"{answered.name} was answered {error.name}")
        elif answered is ApiKey.SYNC_GROUP:
            self.is_settled = True
            self._rally.settled(self)

    def _joined(self, response: JoinGroupResponse, error: ErrorCode) -> None:
        self.member_id = response.member_id
        if error is ErrorCode.member_id_required:
            self.join()
            return
        if error is not ErrorCode.none:
            self._rally.fail(f"JoinGroup was answered {error.name}")
            return
        self.generation = response.generation_id
        assignments = [SyncGroupRequestAssignment(each.member_id, ASSIGNMENT) for each in response.members]
        if response.leader == self.member_id:
            self._rally.sizes[self.generation] = len(assignments)
        request = SyncGroupRequest(
            self._rally.group, self.generation, self.member_id, assignments=assignments
        )
        self._send(ApiKey.SYNC_GROUP, SYNC, request)


class Rally:
    """Members that come together in one group."""

    def __init__(self, host: str, port: int, group: str) -> None:
        self.group = group
        self.members: list[Member] = []
        self.sizes: dict[int, int] = {}  # members by generation
        self._host, self._port = host, port
        self._done: asyncio.Future[None] | None = None

    async def gather(self, count: int) -> float:
        """Let so many more join; milliseconds until all members are settled in one generation."""
        loop = asyncio.get_running_loop()
        newcomers: list[Member] = []
        for _ in range(count):
            _, member = await loop.create_connection(lambda: Member(self), self._host, self._port)
            newcomers.append(member)
        self.members += newcomers
        self._done = loop.create_future()
        started = time.perf_counter()
        for member in newcomers:
            member.join()
        reminder = asyncio.ensure_future(self._remind())
        await asyncio.wait_for(self._done, 120)
        reminder.cancel()
        return (time.perf_counter() - started) * 1_000

    async def _remind(self) -> None:
        while True:
            for member in self.members:
                member.heartbeat()
            await asyncio.sleep(REMINDER_S)

    def settled(self, member: Member) -> None:
        if self.sizes.get(member.generation) == len(self.members) and all(
            each.is_settled and each.generation == member.generation for each in self.members
        ):
            assert self._done is not None
            if not self._done.done():
                self._done.set_result(None)

    def fail(self, reason: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(RuntimeError(reason))

    def close(self) -> None:
        for member in self.members:
            member.close()


def heartbeat_frames(rally: Rally) -> list[bytes]:
    return [
        request_bytes(
            ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(rally.group, member.generation, member.member_id)
        )
        for member in rally.members
    ]


def commit_frames(groups: Sequence[str], topic: str, partitions: int) -> list[bytes]:
    return [
        request_bytes(
            ApiKey.OFFSET_COMMIT,
            COMMIT,
            OffsetCommitRequest(
                group_id=group,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitRequestPartition(index, 1234, 0, "") for index in range(partitions)
                        ],
                    )
                ],
            ),
        )
        for group in groups
    ]


def pipelined(
    address: tuple[str, int],
    frames: Sequence[bytes],
    *,
    connections: int,
    in_flight: int,
    goes_on: Callable[[int], bool],
) -> float:
    """Answers per second while so many requests are in flight on each connection; all answers are equal.

    `goes_on` is asked with the number of answers so far; what came before its first asking counts as well.
    """
    selector = selectors.DefaultSelector()
    expected = b""
    for number in range(connections):
        connection = socket.create_connection(address, timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = cycle(frames[number::connections])
        connection.sendall(next(own))
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        expected = connection.recv(size, socket.MSG_WAITALL)
        connection.sendall(b"".join(next(own) for _ in range(in_flight)))
        selector.register(connection, selectors.EVENT_READ, (own, bytearray()))
    answer = len(expected).to_bytes(4, "big") + expected
    answered = 0
    started = time.perf_counter()
    try:
        while goes_on(answered):
            for key, _ in selector.select(1):
                own, pending = key.data
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                pending += sock.recv(1 << 20)
                whole = len(pending) // len(answer)
                if whole:
                    if pending[: len(answer)] != answer:
                        raise RuntimeError(f"another answer came: {bytes(pending[: len(answer)])!r}")
                    del pending[: whole * len(answer)]
                    sock.sendall(b"".join([next(own) for _ in range(whole)]))
                    answered += whole
    finally:
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        selector.close()
    return answered / (time.perf_counter() - started)
