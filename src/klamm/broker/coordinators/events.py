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
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
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
RESEND_AFTER_S: Final = 1.0  # to another broker, which may be starting or moving the partition

_as_text: Final = json.JSONEncoder(ensure_ascii=False).encode
_log = logging.getLogger(__name__)


class EventWriter:
    """Collects events and writes them a little later. No request waits for that."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self._unlogged: list[Event] = []
        self._due: Handle | None = None
        self._put_offs = 0
        self._is_news = False  # an event was added since the last check
        self._creating: Task[None] | None = None
        self.watchers: list[Callable[[Event], None]] = []  # called with each event
        self._sending: Task[None] | None = None  # to the broker that leads the topic

    def tell(self, event: Event) -> None:
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
                _log.log(level, "%s", event.line())
            if more := sum(1 for _ in alike):
                _log.log(level, "%s: %d more events like this one are in %s", key, more, EVENTS_TOPIC)

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
            if self._append(partition) and self._waiting:
                self._due = services.loop.call_soon(self._write)
            return
        state = services.image.partition(EVENTS_TOPIC, 0)
        if state is None:
            if self._creating is None:
                self._creating = services.loop.create_task(self._create())
        elif self._waiting and self._sending is None:
            self._sending = services.loop.create_task(self._send(state.leader_id))

    async def _send(self, leader_id: int) -> None:
        """Send one batch to the broker that leads the topic; keep it if that fails."""
        count = min(len(self._waiting), PER_BATCH)
        events = [self._waiting.popleft() for _ in range(count)]
        batch = PartitionProduceData(0, _encoded(events))
        topic = self._services.image.topic(EVENTS_TOPIC)
        request = ProduceRequest(
            acks=1,
            timeout_ms=SEND_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic.topic_id if topic else ZERO_ID, EVENTS_TOPIC, [batch])],
        )
        try:
            answer = await self._services.peers.ask(leader_id, ApiKey.PRODUCE, request)
            error_code = answer.responses[0].partition_responses[0].error_code
            failure = ErrorCode(error_code).name if error_code else ""
        except KlammError as error:
            failure = str(error)
        finally:
            self._sending = None
        if failure:
            _log.debug("sending %d events to broker %d failed: %s", count, leader_id, failure)
            room = MAX_WAITING - len(self._waiting)
            self._waiting.extendleft(reversed(events[max(0, count - room) :]))
        if self._waiting and self._due is None:
            self._due = self._services.loop.call_later(RESEND_AFTER_S if failure else 0, self._write)

    def _append(self, partition: Partition) -> bool:
        """Append one batch; whether that succeeded."""
        clock = self._services.clock
        count = min(len(self._waiting), PER_BATCH)
        batch = _encoded([self._waiting.popleft() for _ in range(count)])
        try:
            partition.log.append(
                batch,
                now_ms=clock.now_ms(),
                timestamp_ms=clock.timestamp_ms(),
                origin=AppendOrigin.COORDINATOR,
            )
        except LogError as error:
            partition.note(error)
            _log.warning("%d coordinator events dropped: %s", count, error)
            return False
        self._services.flusher.mark(partition)
        return True

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
