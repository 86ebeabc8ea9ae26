"""Heartbeats and commits as fast as they go, over a few connections that are never idle."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.brokers import cpu_s
from bench.group_load import Address, Crowd, Group, ask, connect, exactly, frame
from bench.warming import WINDOWS, warm_up
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

COMMIT, FETCH = 9, 9
_ALL = slice(None)
_ERROR = slice(13, 15)  # of an answer with a throttle time first


@dataclass(frozen=True, slots=True)
class Rate:
    """How many requests were answered, and what each of them cost the broker."""

    per_second: float
    cpu_us: float


class Lane:
    """One connection: its requests over and over, as many in flight as at the start."""

    def __init__(
        self, address: Address, requests: Sequence[bytes], in_flight: int, checked: slice = _ALL
    ) -> None:
        """All answers are equally long, and `checked` of each are the same bytes."""
        self.connection = connect(address)
        self.connection.sendall(requests[0])
        (size,) = struct.unpack(">i", exactly(self.connection, 4))
        self.answer = struct.pack(">i", size) + exactly(self.connection, size)
        self._round = b"".join(requests)
        self._ends = [0]
        for request in requests:
            self._ends.append(self._ends[-1] + len(request))
        self._in_flight = in_flight
        self._checked = checked
        self._next = 0
        self._received = b""

    def start(self) -> None:
        self._send(self._in_flight)

    def go_on(self) -> int:
        """Take what came; so many answers, so many new requests."""
        data = self.connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker closed the connection")
        data = self._received + data
        count = len(data) // len(self.answer)
        whole = count * len(self.answer)
        if self._checked == _ALL:
            is_expected = data[:whole] == self.answer * count
        else:
            expected, step = self.answer[self._checked], len(self.answer)
            is_expected = all(
                data[start : start + step][self._checked] == expected for start in range(0, whole, step)
            )
        if not is_expected:
            raise RuntimeError(f"an unexpected answer: {data[:whole][:80].hex()}")
        self._received = data[whole:]
        self._send(count)
        return count

    def _send(self, count: int) -> None:
        first, self._next = self._next, self._next + count
        requests = len(self._ends) - 1
        if self._next < requests:
            self.connection.sendall(self._round[self._ends[first] : self._ends[self._next]])
        else:
            self._next %= requests
            rounds = (first + count) // requests - 1
            tail, head = self._round[self._ends[first] :], self._round[: self._ends[self._next]]
            self.connection.sendall(tail + self._round * rounds + head)


def pipelined(
    address: Address,
    pid: int,
    lanes: Sequence[Sequence[bytes]],
    *,
    in_flight: int | None = None,  # on each lane; None is all of its requests
    checked: slice = _ALL,
    warm_up_s: float,
    measure_s: float,
) -> Rate:
    """So many requests of every lane in flight all the time."""
    selector = selectors.DefaultSelector()
    for requests in lanes:
        lane = Lane(address, requests, in_flight or len(requests), checked)
        if lane.answer[13:15] != b"\0\0" and len(lane.answer) == 16:
            raise RuntimeError(f"an error: {lane.answer.hex()}")
        selector.register(lane.connection, selectors.EVENT_READ, lane)
        lane.start()

    def answered_for(seconds: float) -> tuple[int, float]:
        """Answers of about so many seconds, and how many these were."""
        answered = 0
        started_at = now = time.perf_counter()
        while now < started_at + seconds:
            for key, _ in selector.select(1):
                answered += key.data.go_on()
            now = time.perf_counter()
        return answered, now - started_at

    def rate_of_a_moment() -> float:
        answered, took_s = answered_for(warm_up_s / WINDOWS)
        return answered / took_s

    try:
        warm_up(rate_of_a_moment, warm_up_s)
        cpu_before_s = cpu_s(pid)
        answered, took_s = answered_for(measure_s)
        used_s = cpu_s(pid) - cpu_before_s
    finally:
        for key in list(selector.get_map().values()):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            connection.close()
        selector.close()
    return Rate(answered / took_s, used_s / answered * 1e6)


def heartbeats(
    address: Address, pid: int, *, members: int, lanes: int, warm_up_s: float, measure_s: float
) -> Rate:
    """One group of so many members; each sends its next heartbeat when the last is answered."""
    crowd = Crowd(address, members)
    group = crowd.settle(f"beating-{time.monotonic_ns()}", members)
    crowd.close()
    beats = group.heartbeats()
    split = [beats[lane::lanes] for lane in range(lanes)]
    rate = pipelined(address, pid, split, warm_up_s=warm_up_s, measure_s=measure_s)
    group.leave(address)
    return rate


def consumer_heartbeats(
    address: Address,
    pid: int,
    *,
    groups: int,
    size: int,
    partitions: int,
    lanes: int,
    warm_up_s: float,
    measure_s: float,
) -> Rate:
    """The same of members of the consumer protocol, in groups that are stable."""
    crowd = Crowd(address, size)
    settled = [Group(f"beating-{time.monotonic_ns()}") for _ in range(groups)]
    for group in settled:
        crowd.gather(group, size, partitions)
    crowd.close()
    beats = [beat for group in settled for beat in group.keep_alives()]
    Random(1).shuffle(beats)
    split = [beats[lane::lanes] for lane in range(lanes)]
    return pipelined(
        address, pid, split, in_flight=125, checked=_ERROR, warm_up_s=warm_up_s, measure_s=measure_s
    )


def spread_heartbeats(
    address: Address, pid: int, *, groups: int, size: int, lanes: int, warm_up_s: float, measure_s: float
) -> Rate:
    """So many groups of so many members, all in turn; always the same few heartbeats are in flight."""
    crowd = Crowd(address, size)
    names = [f"spread-{time.monotonic_ns()}" for _ in range(groups)]
    settled = [crowd.settle(name, size) for name in names]
    crowd.close()
    beats = [beat for group in settled for beat in group.heartbeats()]
    Random(1).shuffle(beats)  # neighbours in memory do not beat one after the other
    split = [beats[lane::lanes] for lane in range(lanes)]
    rate = pipelined(address, pid, split, in_flight=12, warm_up_s=warm_up_s, measure_s=measure_s)
    for group in settled:
        group.leave(address)
    return rate


def a_commit(
    group_id: str, partitions: range, *, member_id: str = "", generation: int = -1, topic: str = "orders"
) -> OffsetCommitRequest:
    asked = [OffsetCommitRequestPartition(partition, 1_000_000, 0, "") for partition in partitions]
    return OffsetCommitRequest(
        group_id, generation, member_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=asked)]
    )


def commits(
    address: Address,
    pid: int,
    *,
    groups: int,
    partitions: int,
    lanes: int,
    warm_up_s: float,
    measure_s: float,
) -> Rate:
    """So many groups of one member; each commits again when its last commit is answered."""
    crowd = Crowd(address, 1)
    settled: list[Group] = [crowd.settle(f"committing-{number:03}", 1) for number in range(groups)]
    crowd.close()
    requests = [
        frame(
            ApiKey.OFFSET_COMMIT,
            COMMIT,
            a_commit(
                group.group_id,
                range(partitions),
                member_id=group.member_ids[0],
                generation=group.generation,
            ),
        )
        for group in settled
    ]
    with connect(address) as connection:
        first = settled[0]
        request = a_commit(
            first.group_id,
            range(partitions),
            member_id=first.member_ids[0],
            generation=first.generation,
        )
        answer = ask(connection, ApiKey.OFFSET_COMMIT, COMMIT, request)
        refused = [each.error_code for each in answer.topics[0].partitions if each.error_code]
        if refused or len(answer.topics[0].partitions) != partitions:
            raise RuntimeError(f"commits are refused: {refused}")
    split = [requests[lane::lanes] for lane in range(lanes)]
    rate = pipelined(address, pid, split, warm_up_s=warm_up_s, measure_s=measure_s)
    for group in settled:
        group.leave(address)
    return rate


def fill(address: Address, *, records: int, groups: int, partitions: int) -> list[str]:
    """Write so many offset records, as commits of simple groups; the groups."""
    group_ids = [f"filled-{number:03}" for number in range(groups)]
    requests = [
        frame(ApiKey.OFFSET_COMMIT, COMMIT, a_commit(group_id, range(partitions))) for group_id in group_ids
    ]
    in_flight, left = 0, records // partitions
    with connect(address) as connection:
        sent = 0
        while left or in_flight:
            while left and in_flight < 50:
                connection.sendall(requests[sent % groups])
                sent, left, in_flight = sent + 1, left - 1, in_flight + 1
            (size,) = struct.unpack(">i", exactly(connection, 4))
            exactly(connection, size)
            in_flight -= 1
    if wrong := served(address, group_ids, partitions):
        raise RuntimeError(f"offsets that were committed are not there: error {wrong}")
    return group_ids


def served(address: Address, group_ids: Sequence[str], partitions: int) -> int:
    """0 when the offsets of all these groups can be fetched; else the first error."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[partitions - 1])],
            )
            for group_id in group_ids
        ]
    )
    with connect(address) as connection:
        answer = ask(connection, ApiKey.OFFSET_FETCH, FETCH, request)
    for group in answer.groups:
        if group.error_code:
            return int(group.error_code)
        if group.topics[0].partitions[0].committed_offset != 1_000_000:
            return -1
    return 0
