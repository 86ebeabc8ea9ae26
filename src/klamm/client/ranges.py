"""Reads a range of offsets of one partition, without a group; fetches run ahead of the caller.

The client's thread sends and receives; the caller's thread decodes whole fetches meanwhile.
Where the range cannot be read, an error with the available range is raised, and the caller decides.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self

from klamm.client.admin.offsets import EARLIEST, LATEST, list_offsets
from klamm.client.calls import Calls, Deadline, RetryPolicy
from klamm.client.runtime import ClientThread
from klamm.errors import (
    BrokerError,
    KlammError,
    KlammTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    broker_error,
)
from klamm.net.network import Node
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from klamm.protocol.types import ZERO_ID, Buffer, TopicPartition
from klamm.records.batch import iter_headers

NAMES_VERSION: Final = 12  # the last version with topic names; later ones use topic ids
UNKNOWN_TOPIC: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)


class OffsetsGoneError(KlammError):
    """The log does not have the requested offset; it begins at `start_offset`."""

    def __init__(self, partition: TopicPartition, offset: int, start_offset: int, next_offset: int) -> None:
        super().__init__(
            f"{partition} has no offset {offset}: its log goes from {start_offset} to below {next_offset}"
        )
        self.partition = partition
        self.offset = offset
        self.start_offset = start_offset
        self.next_offset = next_offset


class TopicGoneError(KlammError):
    """The topic was deleted, or deleted and created again: its records no longer exist."""


class NothingCameError(KlammTimeoutError):
    """The log ends before the range does, and nothing was added in time."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSettings:
    """How a range is fetched."""

    is_read_committed: bool = False
    max_partition_bytes: int = 1_048_576
    max_bytes: int = 52_428_800
    min_bytes: int = 1
    max_wait_ms: int = 500
    ahead_bytes: int = 8 * 1_048_576  # fetched and not taken yet; the next fetch waits when there is more
    poll_timeout_ms: int = 120_000  # without any progress
    missing_topic_ms: int = 3_000  # metadata may be this much behind
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class Fetch(NamedTuple):
    """The data of one response: whole batches, which may begin before the requested offset."""

    data: Buffer
    start_offset: int
    next_offset: int
    aborted: tuple[tuple[int, int], ...]  # (producer id, first offset) of transactions to leave out


class RangeReader:
    """The fetches that cover a range, one after the other. Leaving it, as a context manager, stops fetching.

    Raises OffsetsGoneError, TopicGoneError, NothingCameError, or whatever else the broker refuses with.
    """

    def __init__(
        self,
        thread: ClientThread,
        partition: TopicPartition,
        start_offset: int,
        next_offset: int,
        settings: RangeSettings,
        *,
        topic_id: bytes = ZERO_ID,
    ) -> None:
        self._thread = thread
        self._partition = partition
        self._position = start_offset
        self._end = next_offset
        self._settings = settings
        self._topic_id = topic_id  # of the topic that is meant; zero when it is not known
        self._changed = threading.Condition()
        self._waiting: deque[Fetch] = deque()
        self._waiting_bytes = 0
        self._is_over = False
        self._error: BaseException | None = None
        self._is_closed = False
        self._room: Promise[None] | None = None
        self._calls = Calls(
            thread.core,
            RetryPolicy(settings.poll_timeout_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms),
        )
        self._thread.run(self._run).add_done_callback(lambda done: self._over(done.exception()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop fetching; safe to call twice."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._waiting_bytes = 0
        self._thread.reactor.submit(self._make_room)

    def __iter__(self) -> Iterator[Fetch]:
        while True:
            with self._changed:
                while not self._waiting and not self._is_over:
                    self._changed.wait()
                if not self._waiting:
                    if self._error is not None:
                        raise self._error
                    return
                fetch = self._waiting.popleft()
                self._waiting_bytes -= len(fetch.data)
                needs_wake = self._room is not None
            if needs_wake:
                self._thread.reactor.submit(self._make_room)
            yield fetch

    # From here on everything runs on the client's thread.

    def _over(self, error: BaseException | None) -> None:
        with self._changed:
            self._is_over = True
            self._error = error
            self._changed.notify_all()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.resolve(None)

    async def _run(self) -> None:
        while self._position < self._end and not self._is_closed:
            fetch = await self._next()
            with self._changed:
                if len(fetch.data) and not self._is_closed:
                    self._waiting.append(fetch)
                    self._waiting_bytes += len(fetch.data)
                    self._changed.notify_all()
                self._position = fetch.next_offset
                room = Promise[None]()
                if self._waiting_bytes >= self._settings.ahead_bytes:
                    self._room = room
                else:
                    room.resolve(None)
            await room

    async def _next(self) -> Fetch:
        """The next fetch that moves the position on; patient until `poll_timeout_ms` is over."""
        what = f"reading {self._partition} at offset {self._position}"
        deadline = self._calls.deadline(what)
        missing_since_ms: int | None = None
        while True:
            try:
                data = await self._ask(deadline)
            except (OffsetsGoneError, TopicGoneError):
                raise
            except KlammError as error:
                if isinstance(error, BrokerError) and error.error_code in UNKNOWN_TOPIC:
                    now_ms = self._thread.core.now_ms
                    missing_since_ms = now_ms if missing_since_ms is None else missing_since_ms
                    if now_ms - missing_since_ms >= self._settings.missing_topic_ms:
                        raise TopicGoneError(f"{self._partition} no longer exists: {error}") from error
                elif not error.retriable:
                    raise
                self._thread.core.metadata.request_update()
                await deadline.pause(_retriable(error))
                continue
            fetch = self._fetched(data)
            if fetch is not None or self._is_closed:
                return fetch or Fetch(b"", self._position, self._end, ())
            if self._is_out_of_time(deadline):
                raise NothingCameError(
                    f"{self._partition} ends at offset {data.high_watermark}, before the end of the range at "
                    f"{self._end}, and no data arrived within {self._settings.poll_timeout_ms} ms",
                    self._position,
                )

    def _is_out_of_time(self, deadline: Deadline) -> bool:
        try:
            deadline.remaining_ms()
        except KlammTimeoutError:
            return True
        return False

    async def _ask(self, deadline: Deadline) -> PartitionData:
        partition = self._partition
        broker_id, topic_id = await self._leader(deadline)
        if self._is_another(topic_id):
            # The cached metadata of the topic may be older than the plan.
            await self._calls.refresh(deadline)
            broker_id, topic_id = await self._leader(deadline)
            if self._is_another(topic_id):
                raise TopicGoneError(f"{partition.topic} was deleted and created again")
        request = self._request(topic_id)
        core = self._thread.core
        response: FetchResponse = await core.tasks.request(
            Node("broker", broker_id),
            ApiKey.FETCH,
            request,
            # The broker may delay the response for `fetch.max.wait.ms`, however little time is left.
            timeout_ms=core.network.config.request_timeout_ms + request.max_wait_ms,
            max_version=NAMES_VERSION if topic_id == ZERO_ID else 32767,
        )
        if response.error_code:
            raise broker_error(response.error_code, f"fetching {partition}")
        data = response.responses[0].partitions[0] if response.responses else PartitionData()
        if data.error_code == ErrorCode.offset_out_of_range:
            await self._explain_out_of_range()
        if data.error_code:
            raise broker_error(data.error_code, f"fetching {partition} at offset {self._position}")
        return data

    async def _leader(self, deadline: Deadline) -> tuple[int, bytes]:
        """The broker to fetch from, and the current id of the topic."""
        led, failed = await self._calls.leaders_of([self._partition], deadline)
        if self._partition in failed:
            raise failed[self._partition]
        (broker_id,) = led
        return broker_id, self._thread.core.metadata.cluster.topics[self._partition.topic].topic_id

    def _is_another(self, topic_id: bytes) -> bool:
        return ZERO_ID not in (self._topic_id, topic_id) and topic_id != self._topic_id

    def _request(self, topic_id: bytes) -> FetchRequest:
        settings = self._settings
        wanted = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=self._position,
            partition_max_bytes=settings.max_partition_bytes,
        )
        return FetchRequest(
            max_wait_ms=min(settings.max_wait_ms, settings.poll_timeout_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.is_read_committed),
            topics=[FetchTopic(topic_id=topic_id, topic=self._partition.topic, partitions=[wanted])],
        )

    async def _explain_out_of_range(self) -> None:
        """Raise what the log has instead, unless it turns out to have the offset after all."""
        bounds = []
        for place in (EARLIEST, LATEST):
            found = await list_offsets(
                self._calls,
                {self._partition: place},
                read_committed=False,
                timeout_ms=self._thread.core.network.config.request_timeout_ms,
            )
            bounds.append(found.unwrap()[self._partition].offset)
        if not bounds[0] <= self._position <= bounds[1]:
            raise OffsetsGoneError(self._partition, self._position, bounds[0], bounds[1])
        raise broker_error(ErrorCode.not_leader_or_follower, f"fetching {self._partition}")

    def _fetched(self, data: PartitionData) -> Fetch | None:
        """The whole batches of a response; None if it has none."""
        records = data.records if data.records is not None else b""
        if not len(records):
            return None
        next_offset = -1
        try:
            for _, header in iter_headers(records):
                next_offset = header.next_offset
        except DecodeError as error:
            place = f"after offset {next_offset - 1}" if next_offset >= 0 else f"at offset {self._position}"
            raise ProtocolError(f"{self._partition}: the batch {place} cannot be read: {error}") from error
        if next_offset < 0:
            raise RecordTooLargeError(
                f"{self._partition}: the batch at offset {self._position} does not fit into a fetch; "
                "raise max.partition.fetch.bytes and fetch.max.bytes"
            )
        if next_offset <= self._position:
            return None
        aborted: tuple[tuple[int, int], ...] = ()
        if self._settings.is_read_committed:
            aborted = tuple((item.producer_id, item.first_offset) for item in data.aborted_transactions or ())
        return Fetch(records, self._position, next_offset, aborted)


def _retriable(error: KlammError) -> KlammError:
    """The same error as a retriable one: a deadline raises all others at once."""
    if error.retriable:
        return error
    return KlammTimeoutError(str(error))
