"""Logs as seen from outside: what was safe once is there for ever, what was read was safe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_records import DeleteRecordsResponse
from klamm.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from klamm.protocol.messages.produce import ProduceRequest, ProduceResponse
from klamm.records.batch import MAGIC_AT, BatchHeader, crc_is_valid, iter_headers, parse_header
from klamm.records.record import decode_records
from klamm.storage.log import EngineLog
from simulation.checkers import Checker, Place
from simulation.network import Exchange

if TYPE_CHECKING:
    from simulation.world import World

_READ_BYTES: Final = 1 << 20


@dataclass(slots=True)
class History:
    """What is known of one partition of one topic, through all its leaders."""

    place: Place
    topic_id: bytes
    log: EngineLog
    safe: dict[int, bytes] = field(default_factory=dict)  # batches below `safe_end`, as stored
    safe_end: int = 0
    tried: dict[int, bytes] = field(default_factory=dict)  # offset -> what was last appended there, unstamped
    start_promised: int = 0
    start_seen: int = 0  # a crash may take back a start that nobody was promised, but somebody began there
    last_end: int = 0
    flush_failures: int = 0

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.log.config.cleanup_policy


def batches(log: EngineLog, offset: int, until_offset: int) -> Iterator[tuple[int, int, int, bytes]]:
    """(base offset, next offset, leader epoch, bytes) of what a log holds."""
    while offset < until_offset:
        data = log.read(offset, until_offset=until_offset, max_bytes=_READ_BYTES, at_least_one=True)
        if not data:
            return
        for position, header in iter_headers(data):
            if not crc_is_valid(data, position, header):
                raise AssertionError(f"a broken batch at {header.base_offset}")
            stored = bytes(data[position : position + header.size_bytes])
            yield header.base_offset, header.next_offset, header.leader_epoch, stored
            offset = header.next_offset


def _was_safe(history: History, header: BatchHeader, stored: bytes) -> bool:
    base = header.base_offset
    if history.is_compacted or history.safe.get(base) == stored:
        return True
    # It became safe and was deleted in one turn of the broker, between two looks at its log.
    is_gone = base < history.log.log_start_offset and header.last_offset < history.safe_end
    return is_gone and history.tried.get(base) == stored[MAGIC_AT:]


class LogChecker(Checker):
    """Invariants of logs, checked whenever the broker has used its disk, and after every start."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.histories: dict[tuple[bytes, int], History] = {}
        self._by_place: dict[Place, list[History]] = {}
        self.topic_names: dict[bytes, str] = {}
        self.recovered_batches = 0

    # -- what the broker does

    def log_opened(self, log: EngineLog) -> None:
        key = (log.topic_id, log.partition)
        history = self.histories.get(key)
        if history is None:
            place = (log.topic, log.partition)
            self.topic_names[log.topic_id] = log.topic
            history = self.histories[key] = History(place, log.topic_id, log)
            self._by_place.setdefault(place, []).append(history)
        else:
            history.log = log
            self._check_recovered(history)
        history.last_end = log.log_end_offset
        history.flush_failures = 0
        self._absorb(history)

    def appending(self, log: EngineLog, batch: bytes) -> None:
        if log.is_being_repaired:
            return  # it refuses: what was cut may be there again after a crash, and nothing in its place
        history = self.histories[log.topic_id, log.partition]
        offset = log.log_end_offset
        for later in [each for each in history.tried if each > offset]:
            del history.tried[later]  # cut off after a failed flush
        history.tried[offset] = batch[MAGIC_AT:]

    def turned(self) -> None:
        broker = self.world.machine.broker
        if broker is None:
            return
        for partition in broker.services.partitions:
            if partition.error_code is not ErrorCode.none:
                continue
            history = self.histories[partition.topic_id, partition.partition]
            log = history.log
            start, stable = log.log_start_offset, log.last_stable_offset
            history.start_seen = max(history.start_seen, start)
            high, end = log.high_watermark, log.log_end_offset
            if not start <= stable <= high <= end:
                self._broken(history, f"start {start}, stable {stable}, high watermark {high}, end {end}")
            if high < history.safe_end:
                self._broken(history, f"the high watermark fell from {history.safe_end} to {high}")
            if end < history.last_end and partition.flush_failures == history.flush_failures:
                self._broken(history, f"the end fell from {history.last_end} to {end}, and no flush failed")
            history.last_end, history.flush_failures = end, partition.flush_failures
            self._absorb(history)

    def _look_again(self, known: list[History]) -> None:
        """Take over what has become safe since the broker's last turn."""
        broker = self.world.machine.broker
        for history in known:
            partition = None if broker is None else broker.services.partitions.get(*history.place)
            if partition is None or partition.error_code is not ErrorCode.none:
                continue
            if partition.topic_id == history.topic_id:
                self._absorb(history)

    def look_again(self, *places: Place) -> None:
        """Take over what has become safe in these partitions since the broker's last turn."""
        for place in places:
            self._look_again(self._by_place.get(place, []))

    def _absorb(self, history: History) -> None:
        """Remember what is below the high watermark now: it may never change again."""
        high = history.log.high_watermark
        if high <= history.safe_end:
            return
        from_offset = max(history.safe_end, history.log.log_start_offset)
        for base, next_offset, _, stored in batches(history.log, from_offset, high):
            if next_offset <= history.safe_end:
                continue
            if stored[MAGIC_AT:] != history.tried.get(base) and not history.is_compacted:
                self._broken(history, f"at {base} is something that nobody appended there")
            history.safe[base] = stored
            history.tried.pop(base, None)
            history.safe_end = next_offset  # now: the power may fail before the next batch is read
            self.world.became_safe(history.log, parse_header(stored), stored)
        history.safe_end = high

    def _check_recovered(self, history: History) -> None:
        """A log was opened again: all that was safe, then a beginning of what was appended after it."""
        log = history.log
        if log.log_end_offset < history.safe_end:
            self._broken(history, f"ends at {log.log_end_offset}, but was safe up to {history.safe_end}")
            return
        if log.log_start_offset < history.start_promised:
            self._broken(history, f"begins at {log.log_start_offset}, deleted up to {history.start_promised}")
        expected_base, last_epoch = None, -1
        tried = {}
        for base, next_offset, epoch, stored in batches(log, log.log_start_offset, log.log_end_offset):
            self.recovered_batches += 1
            if expected_base is not None and not history.is_compacted and base != expected_base:
                self._broken(history, f"a gap from {expected_base} to {base}")
            if epoch < last_epoch:
                self._broken(history, f"leader epoch {epoch} at {base} after {last_epoch}")
            expected_base, last_epoch = next_offset, epoch
            if history.is_compacted:
                continue
            if base < history.safe_end:
                if base not in history.safe and stored[MAGIC_AT:] == history.tried.get(base):
                    # It became safe and was deleted in one turn of the broker; the deletion was lost.
                    history.safe[base] = stored
                if stored != history.safe.get(base):
                    self._broken(history, f"the safe batch at {base} has changed")
            elif stored[MAGIC_AT:] != history.tried.get(base):
                self._broken(history, f"after the crash there is something at {base} that nobody appended")
            else:
                tried[base] = stored[MAGIC_AT:]
        history.tried = tried

    # -- what the broker says

    def answered(self, exchange: Exchange) -> None:
        if exchange.api_key is ApiKey.PRODUCE:
            self._check_produced(exchange.request, exchange.response)
        elif exchange.api_key is ApiKey.FETCH:
            self._check_fetched(exchange.request, exchange.response)
        elif exchange.api_key is ApiKey.DELETE_RECORDS:
            self._note_deleted(exchange.response)

    def _known(self, topic: str, topic_id: bytes, partition: int) -> list[History]:
        """The partition that is meant: one by its id, or all that ever had the name."""
        if topic:
            return self._by_place.get((topic, partition), [])
        history = self.histories.get((topic_id, partition))
        return [] if history is None else [history]

    def _check_produced(self, request: ProduceRequest, response: ProduceResponse) -> None:
        sent = {
            (topic.name, topic.topic_id, data.index): bytes(data.records or b"")
            for topic in request.topic_data
            for data in topic.partition_data
        }
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    continue
                (batch,) = [
                    data
                    for (name, topic_id, index), data in sent.items()
                    if index == answer.index and (name == topic.name or topic_id == topic.topic_id)
                ]
                known = self._known(topic.name, topic.topic_id, answer.index)
                self._look_again(known)
                body, base = batch[MAGIC_AT:], answer.base_offset
                is_safe = any(each.safe.get(base, b"")[MAGIC_AT:] == body for each in known)
                is_tried = any(each.tried.get(base) == body for each in known)
                # Deleted before this answer got its turn behind others of its connection.
                is_deleted = any(base < each.log.log_start_offset for each in known)
                if not is_safe and not is_deleted and (request.acks == -1 or not is_tried):
                    self.world.broken(
                        f"{topic.name}-{answer.index}: {base} was acknowledged and is not there"
                    )

    def _check_fetched(self, request: FetchRequest, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records:
                    known = self._known(topic.topic, topic.topic_id, data.partition_index)
                    self._check_read(request, data, known)

    def _check_read(self, request: FetchRequest, data: PartitionData, known: list[History]) -> None:
        limit = data.last_stable_offset if request.isolation_level == 1 else data.high_watermark
        self._look_again(known)
        assert data.records is not None
        for position, header in iter_headers(data.records):
            if header.last_offset >= limit:
                self._broken(
                    known[0], f"{header.last_offset} was shown, readers may see what is below {limit}"
                )
            stored = bytes(data.records[position : position + header.size_bytes])
            if not any(_was_safe(each, header, stored) for each in known):
                self._broken(known[0], f"a reader got something at {header.base_offset} that was never safe")

    def _note_deleted(self, response: DeleteRecordsResponse) -> None:
        for topic in response.topics:
            for answer in topic.partitions:
                if not answer.error_code:
                    history = self._by_place[topic.name, answer.partition_index][-1]
                    history.start_promised = max(history.start_promised, answer.low_watermark)

    def newest(self, place: Place) -> History:
        """The partition that has a name now."""
        return self._by_place[place][-1]

    def safe_batches(self, place: Place) -> Iterator[tuple[BatchHeader, bytes]]:
        """Everything that ever was safe in the partition that has a name now, in the order of offsets."""
        for _, stored in sorted(self.newest(place).safe.items()):
            yield parse_header(stored), stored

    # -- the end

    def at_the_end(self) -> None:
        for place, by_producer in self.world.ledger.batches.items():
            history = self.newest(place)
            found: dict[str, list[int]] = {}
            log = history.log
            for _, _, _, stored in batches(log, log.log_start_offset, log.high_watermark):
                if parse_header(stored).is_control:
                    continue
                for record in decode_records(stored):
                    producer, number, _ = (record.value or b"").decode("latin-1").split(" ", 2)
                    found.setdefault(producer, []).append(int(number))
            for producer, acknowledged in by_producer.items():
                numbers = found.get(producer, [])
                first = numbers[0] if numbers else 0
                if numbers != list(range(first, first + len(numbers))):
                    self._broken(
                        history, f"the records of {producer} are not there once and in order: {numbers}"
                    )
                if log.log_start_offset == 0 and not acknowledged <= set(numbers):
                    self._broken(history, f"records of {producer} are lost: {acknowledged - set(numbers)}")

    def _broken(self, history: History, message: str) -> None:
        topic, partition = history.place
        self.world.broken(f"{topic}-{partition}: {message}")
