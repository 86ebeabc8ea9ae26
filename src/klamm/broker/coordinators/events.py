"""Changes made by coordinators, with causes, in the topic `__klamm_events`: JSON, keyed by group or id."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.topic_names import EVENTS_TOPIC
from klamm.coordinator.runtime.events import Event
from klamm.errors import KlammError
from klamm.printable import printable
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.types import ZERO_ID
from klamm.records.record import Record, encode_batch
from klamm.storage.log import AppendOrigin, LogError

if TYPE_CHECKING:
    from asyncio import Handle, Task

    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services

MAX_WAITING: Final = 10_000  # events kept while the topic is missing; older ones are dropped
PER_BATCH: Final = 200  # one in each turn of the loop
# Not while the members of a rebalance wait for their answers, so when nothing new happened for so long:
WRITE_AFTER_S: Final = 0.1
# A line takes as long as a request of a member: not while these wait, and not one for each of thousands.
LOG_AFTER_S: Final = 0.005
MAX_ALIKE_LINES: Final = 10
MAX_PUT_OFFS: Final = 10  # then it is written in any case
SEND_TIMEOUT_MS: Final = 10_000
RETRY_AFTER_S: Final = 1.0  # a disk may be full, another broker may be starting or moving the partition
TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})

_as_text: Final = json.JSONEncoder(ensure_ascii=False).encode
_MOST_OF_A_LINE: Final = 2000  # in the log; its names have many characters if their clients chose so

_log = logging.getLogger(__name__)


class EventWriter:
    """Collects events and writes them a little later. No request waits for that."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self._per_batch = PER_BATCH  # fewer after a batch was too large
        self._dropped = 0  # since the last batch was written
        self._is_failing = False  # the last batch was not
        self._unlogged: list[Event] = []
        self._due: Handle | None = None
        self._put_offs = 0
        self._is_news = False  # an event was added since the last check
        self._creating: Task[None] | None = None
        self.watchers: list[Callable[[Event], None]] = []  # called with each event
        self._sending: Task[None] | None = None  # to the broker that leads the topic

    def tell(self, event: Event) -> None:
        self._dropped += len(self._waiting) == MAX_WAITING
        self._waiting.append(event)
        self._is_news = True
        if self._due is None:
            self._look_later()
        if not self._unlogged:
            self._services.loop.call_later(LOG_AFTER_S, self._log_lines)
        self._unlogged.append(event)
        for watch in self.watchers:
            watch(event)

    def _log_lines(self) -> None:
        events, self._unlogged = self._unlogged, []
        for (_, key, is_warning), alike in groupby(events, _kind):
            level = logging.WARNING if is_warning else logging.INFO
            for event in islice(alike, MAX_ALIKE_LINES):
                _log.log(level, "%s", printable(event.line(), _MOST_OF_A_LINE))
            if more := sum(1 for _ in alike):
                _log.log(
                    level, "%s: %d more events like this one are in %s", printable(key), more, EVENTS_TOPIC
                )

    def _look_later(self) -> None:
        self._is_news = False
        self._due = self._services.loop.call_later(WRITE_AFTER_S, self._look)

    def _look(self) -> None:
        if self._is_news and self._put_offs < MAX_PUT_OFFS:
            self._put_offs += 1
            self._look_later()
        else:
            self._put_offs = 0
            self._write()

    def _write(self) -> None:
        self._due = None
        services = self._services
        partition = services.partitions.get(EVENTS_TOPIC, 0)
        if partition is not None:
            wait_s = 0 if self._append(partition) else RETRY_AFTER_S
            if self._waiting:
                self._due = services.loop.call_later(wait_s, self._write)
            return
        state = services.image.partition(EVENTS_TOPIC, 0)
        if state is None:
            if self._creating is None:
                self._creating = services.loop.create_task(self._create())
        elif self._waiting and self._sending is None:
            self._sending = services.loop.create_task(self._send(state.leader_id))

    async def _send(self, leader_id: int) -> None:
        """Send one batch to the broker that leads the topic; keep it if that fails."""
        events = self._take()
        batch = PartitionProduceData(0, _encoded(events))
        topic = self._services.image.topic(EVENTS_TOPIC)
        request = ProduceRequest(
            acks=1,
            timeout_ms=SEND_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic.topic_id if topic else ZERO_ID, EVENTS_TOPIC, [batch])],
        )
        try:
            answer = await self._services.peers.ask(leader_id, ApiKey.PRODUCE, request)
            error_code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            failure = error_code.name
        except KlammError as error:
            error_code, failure = ErrorCode.network_exception, str(error)
        finally:
            self._sending = None
        if error_code is NO_ERROR:
            self._written()
            wait_s = 0.0
        else:
            is_next = self._refused(events, error_code, f"broker {leader_id}: {failure}")
            wait_s = 0 if is_next else RETRY_AFTER_S
        if self._waiting and self._due is None:
            self._due = self._services.loop.call_later(wait_s, self._write)

    def _append(self, partition: Partition) -> bool:
        """Append one batch, and keep it if that fails; whether the next one may follow at once."""
        clock = self._services.clock
        events = self._take()
        try:
            partition.log.append(
                _encoded(events),
                now_ms=clock.now_ms(),
                timestamp_ms=clock.timestamp_ms(),
                origin=AppendOrigin.COORDINATOR,
            )
        except LogError as error:
            partition.note(error)
            return self._refused(events, error.error_code, str(error))
        self._services.flusher.mark(partition)
        self._written()
        return True

    # --- a batch, and what becomes of it ---------------------------------------------------------------

    def _take(self) -> list[Event]:
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), self._per_batch))]

    def _written(self) -> None:
        self._per_batch = PER_BATCH
        self._is_failing = False
        if self._dropped:
            _log.warning("%d events were dropped while %s could not be written", self._dropped, EVENTS_TOPIC)
            self._dropped = 0

    def _refused(self, events: list[Event], error_code: ErrorCode, reason: str) -> bool:
        """Keep the events of a batch that was not written; whether there is something to write at once."""
        is_too_large = error_code in TOO_LARGE
        if is_too_large and len(events) == 1:
            _log.warning(
                "an event of %s is too large for %s: %s", printable(events[0].key), EVENTS_TOPIC, reason
            )
            return True
        if is_too_large:
            self._per_batch = len(events) // 2
        elif not self._is_failing:
            self._is_failing = True
            _log.warning(
                "writing %d events to %s failed; they are kept and written later: %s",
                len(events),
                EVENTS_TOPIC,
                reason,
            )
        room = MAX_WAITING - len(self._waiting)
        self._dropped += max(0, len(events) - room)
        self._waiting.extendleft(reversed(events[max(0, len(events) - room) :]))
        return is_too_large

    async def _create(self) -> None:
        try:
            refusals = await self._services.topics.ensure([EVENTS_TOPIC])
        finally:
            self._creating = None
        if refusals:
            _log.warning("creating topic %s failed: %s", EVENTS_TOPIC, refusals[EVENTS_TOPIC].message)
        elif self._waiting and self._due is None:
            self._write()

    def stop(self) -> None:
        """Write the remaining events, if the topic exists."""
        self._log_lines()
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if (partition := self._services.partitions.get(EVENTS_TOPIC, 0)) is not None:
            while self._waiting and self._append(partition):
                pass
        for task in (self._creating, self._sending):
            if task is not None:
                task.cancel()


def _kind(event: Event) -> tuple[type[Event], str, bool]:
    return type(event), event.key, event.is_warning


def _encoded(events: list[Event]) -> bytes:
    return encode_batch(
        [
            Record(
                index,
                event.timestamp_ms,
                event.key.encode(),
                _as_text(event.as_json()).encode(),
            )
            for index, event in enumerate(events)
        ]
    )
