"""A side whose answers may come later, and whose members have names of its own."""

from __future__ import annotations

import re
import select
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from interop.differential.sides import CLIENT_ID, CLOSED, Side
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class GroupSide(Side):
    """One broker and the members of its groups."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self._real_members: dict[str, str] = {}
        self._member_stand_ins: dict[str, str] = {}
        self._received: dict[int, bytearray] = {}

    # Members

    def learn_member(self, stand_in: str, real: str, instance_id: str | None) -> None:
        """What a joiner was called."""
        if not real or real in self._member_stand_ins:
            return
        assert re.fullmatch(
            f"{re.escape(CLIENT_ID if instance_id is None else instance_id)}-{_UUID}", real
        ), real
        self._real_members[stand_in], self._member_stand_ins[real] = real, stand_in

    def member_stand_in(self, real: str) -> str:
        if not real:
            return ""
        return self._member_stand_ins.get(real, real if not re.search(_UUID, real) else "somebody")

    def _real_field(self, name: str, value: Any) -> Any:
        if name == "member_id" and isinstance(value, str):
            return self._real_members.get(value, value)
        return super()._real_field(name, value)

    # Answers that are waited for

    def post(self, frame: bytes, connection: int) -> None:
        """Send; `collect` finds the answer."""
        if connection not in self._connections:
            # A broker that has still to accept it would hear what comes on other connections first.
            self.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), connection=connection)
        self.send(frame, connection=connection)
        self._received.setdefault(connection, bytearray())

    def exchange_all(self, frames: Sequence[bytes], connection: int) -> list[bytes | str]:
        """Send all of them before any answer is read; the answers, to the first that does not come."""
        answers: list[bytes | str] = []
        opened = self._open(connection)
        opened.sendall(b"".join(frames))
        try:
            for _ in frames:
                (size,) = struct.unpack(">i", self._exactly(opened, 4))
                answers.append(self._exactly(opened, size))
        except OSError:
            self.close(connection)
            answers.append(CLOSED)
        return answers

    def sockets(self, connections: Iterable[int]) -> dict[socket.socket, int]:
        """Where answers are waited for."""
        return {self._open(connection): connection for connection in connections}

    def take(self, opened: socket.socket, connection: int) -> bytes | str | None:
        try:
            data = opened.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.close(connection)
            return CLOSED
        buffer = self._received[connection]
        buffer += data
        if len(buffer) < 4:
            return None
        (size,) = struct.unpack_from(">i", buffer)
        if len(buffer) < 4 + size:
            return None
        assert len(buffer) == 4 + size, "an answer that nobody waits for"
        frame = bytes(buffer[4:])
        buffer.clear()
        return frame

    def find_coordinator(self, group_id: str) -> int:
        """The error code that FindCoordinator answers."""
        request = FindCoordinatorRequest(key=group_id)
        code: int = self.ask(ApiKey.FIND_COORDINATOR, 1, request).error_code
        return code

    def stranger_beats(self, group_id: str) -> int:
        """The error code that a heartbeat of nobody gets: that of loading, or of a stranger."""
        code: int = self.ask(ApiKey.HEARTBEAT, 0, HeartbeatRequest(group_id, 0, "nobody")).error_code
        return code


def collect(
    sides: Sequence[GroupSide], missing: Sequence[Iterable[int]], timeout_s: float
) -> list[dict[int, bytes | str]]:
    """Answers that are there, or the next that comes within the time, by side and connection."""
    answers: list[dict[int, bytes | str]] = [{} for _ in sides]
    waiting = {
        opened: (number, connection)
        for number, side in enumerate(sides)
        for opened, connection in side.sockets(missing[number]).items()
    }
    readable, _, _ = select.select(list(waiting), [], [], timeout_s)
    for opened in readable:
        number, connection = waiting[opened]
        answer = sides[number].take(opened, connection)
        if answer is not None:
            answers[number][connection] = answer
    return answers
