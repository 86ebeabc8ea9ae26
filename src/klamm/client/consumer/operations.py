"""What a consumer can do, written once for its faces. Arguments are checked before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klamm.client.consumer import arguments
from klamm.client.consumer.engine import Engine
from klamm.client.consumer.fetching import EARLIEST, LATEST
from klamm.client.consumer.hosts import Host
from klamm.client.consumer.offset_lookup import FoundOffset, find_offsets
from klamm.client.consumer.polling import Poller
from klamm.client.consumer.records import Records
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import Status, SubscriptionType
from klamm.client.errors import IllegalStateError, KlammTimeoutError
from klamm.protocol.types import TopicPartition


class Operations:
    """The consumer, less the question who may call it when."""

    def __init__(self, host: Host, settings: ConsumerSettings) -> None:
        self.host = host
        self.settings = settings
        self.engine = Engine(host.core, settings, host.signal)
        self.state = self.engine.state
        self.poller = Poller(self.engine, host)
        self.is_closed = False

    # --- subscription -----------------------------------------------------------------------------------

    async def assign(self, partitions: Any) -> None:
        """Take exactly these partitions, without a group."""
        wanted = arguments.partitions_of(partitions)
        self.state.check_type(SubscriptionType.USER_ASSIGNED)
        if not wanted:
            await self.unsubscribe()
            return
        with self.state.lock:
            self.state.assign_manually(wanted)
        topics = {partition.topic for partition in wanted}
        self.host.submit(lambda: self.engine.core.metadata.want_only(topics))
        self.engine.inbox.needs_attention = True

    async def unsubscribe(self) -> None:
        """Give up everything."""
        with self.state.lock:
            self.state.unsubscribe()
        self.engine.buffer.clear()

    # --- records ----------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float | None, limit: int) -> Records:
        if self.state.type is SubscriptionType.NONE:
            raise IllegalStateError("nothing to poll: subscribe to topics, or assign partitions, first")
        return await self.poller.poll(arguments.due_at(self.host.clock.now_ms(), timeout_s), limit)

    # --- positions --------------------------------------------------------------------------------------

    async def position(self, partition: Any, timeout_s: float | None = None) -> int:
        """The offset of the next record, looked up if need be."""
        wanted = arguments.a_partition(partition)
        limit_ms = arguments.timeout_ms(timeout_s, self.settings.default_api_timeout_ms)
        due_at_ms = self.host.clock.now_ms() + limit_ms
        self.engine.is_polling = True
        self.host.submit(self.engine.on_poll)
        try:
            while True:
                self.host.signal.clear()
                with self.state.lock:
                    found = self.state[wanted]
                    if found.status is Status.FETCHING:
                        return found.offset
                if self.engine.inbox.failures:
                    raise self.engine.inbox.failures.popleft()
                self.poller.raise_if_woken()
                self.host.check()
                if self.host.clock.now_ms() >= due_at_ms:
                    raise KlammTimeoutError(f"no position of {wanted} within {limit_ms} ms")
                await self.host.signal.wait(due_at_ms)
        finally:
            self.engine.is_polling = False

    def seek(self, partition: Any, offset: Any, leader_epoch: int = -1) -> None:
        """Go to an offset; the next poll reads from there."""
        wanted, target = arguments.a_partition(partition), arguments.an_offset(offset)
        with self.state.lock:
            self.state[wanted].seek(target, leader_epoch)
        self.engine.inbox.needs_attention = True

    def seek_to(self, partitions: Any, timestamp: int) -> None:
        """Go to the beginning (-2) or the end (-1), found out by the next poll; no partitions: all."""
        wanted = arguments.partitions_of(partitions) or list(self.state.partitions)
        with self.state.lock:
            for state in [self.state[partition] for partition in wanted]:
                state.request_reset(timestamp)
        self.engine.inbox.needs_attention = True

    def seek_to_committed(self, partitions: Any) -> None:
        """Go back to what was committed, found out by the next poll; no partitions: all."""
        wanted = arguments.partitions_of(partitions) or list(self.state.partitions)
        with self.state.lock:
            for state in [self.state[partition] for partition in wanted]:
                state.initialize()
        self.engine.inbox.needs_attention = True

    def set_paused(self, partitions: Any, *, is_paused: bool) -> None:
        """Stop or go on handing out records of partitions; what is buffered stays."""
        wanted = arguments.partitions_of(partitions)
        with self.state.lock:
            for state in [self.state[partition] for partition in wanted]:
                state.is_paused = is_paused
        self.engine.inbox.needs_attention = True

    def paused(self) -> set[TopicPartition]:
        with self.state.lock:
            return {partition for partition, state in self.state.partitions.items() if state.is_paused}

    def lag(self, partition: Any) -> int | None:
        """How many records lie between the position and the end; None while either is unknown."""
        wanted = arguments.a_partition(partition)
        with self.state.lock:
            state = self.state[wanted]
            end = state.last_stable_offset if self.settings.is_read_committed else state.high_watermark
            if not state.has_position or end < 0:
                return None
            return max(0, end - state.offset)

    # --- lookups ----------------------------------------------------------------------------------------

    async def offsets_for_times(
        self, timestamps: Any, timeout_s: float | None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after a time, for each partition; None where there is none."""
        if not isinstance(timestamps, Mapping):
            raise TypeError("offsets_for_times takes a mapping of TopicPartition to milliseconds")
        wanted = {arguments.a_partition(key): value for key, value in timestamps.items()}
        for partition, timestamp_ms in wanted.items():
            if not isinstance(timestamp_ms, int):
                raise TypeError(f"{partition}: a timestamp is a number of milliseconds, not {timestamp_ms!r}")
            if timestamp_ms < 0:
                raise ValueError(f"{partition}: timestamp {timestamp_ms} is negative")
        found = await self._find(wanted, timeout_s)
        return {key: item if item.offset >= 0 else None for key, item in found.items()}

    async def edge_offsets(
        self, partitions: Any, timestamp: int, timeout_s: float | None
    ) -> dict[TopicPartition, int]:
        """First (-2) or next (-1) offsets of partitions, assigned or not."""
        wanted = dict.fromkeys(arguments.partitions_of(partitions), timestamp)
        return {key: item.offset for key, item in (await self._find(wanted, timeout_s)).items()}

    async def _find(
        self, wanted: Mapping[TopicPartition, int], timeout_s: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        calls = self.engine.calls
        limit_ms = arguments.timeout_ms(timeout_s, self.settings.default_api_timeout_ms)
        return await self.poller.ask(
            lambda: find_offsets(
                calls,
                wanted,
                calls.deadline("looking up offsets", limit_ms),
                is_read_committed=self.settings.is_read_committed,
            )
        )

    # --- the end ----------------------------------------------------------------------------------------

    async def close(self, timeout_s: float | None = 30.0) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.host.submit(self.engine.fetching.end_sessions)
        self.host.stop()


EDGES = {"beginning": EARLIEST, "end": LATEST}
