"""Produced and not safe yet: an answer that waits for high watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import PartitionProduceResponse, ProduceResponse


@dataclass(slots=True)
class Appended:
    """A batch in its log, and its line of the answer."""

    partition: Partition
    last_offset: int
    response: PartitionProduceResponse
    flush_failures: int  # of the partition when it was appended: one more, and the batch is cut off again

    def settle(self) -> bool:
        """Whether there is nothing left to wait for; what went wrong is in the response then."""
        partition = self.partition
        if partition.error_code is not NO_ERROR:
            self.refuse(partition.error_code)
        elif partition.flush_failures != self.flush_failures:
            self.refuse(ErrorCode.kafka_storage_error)
        elif partition.log.high_watermark <= self.last_offset:
            return False
        return True

    def refuse(self, error_code: ErrorCode) -> None:
        refuse(self.response, error_code)


def refuse(line: PartitionProduceResponse, error_code: ErrorCode) -> None:
    """What was appended is not safe."""
    line.error_code = int(error_code)
    line.base_offset = line.log_start_offset = line.log_append_time_ms = -1


class SingleWait(HeldResponse[ProduceResponse]):
    """A held Produce of one batch, as most are: its partition releases it, in the order of the log."""

    __slots__ = ("_deadlines", "_produced", "due_at_ms", "flush_failures", "last_offset", "line")

    def __init__(
        self,
        deadlines: Deadlines,
        produced: ProduceResponse,
        line: PartitionProduceResponse,
        partition: Partition,
        last_offset: int,
        due_at_ms: int,
    ) -> None:
        super().__init__()
        self._deadlines = deadlines
        self._produced = produced
        self.line = line  # of the answer
        self.last_offset = last_offset
        self.flush_failures = partition.flush_failures
        self.due_at_ms = due_at_ms
        deadlines.add(self)
        partition.held.append(self)

    def release(self, error_code: ErrorCode) -> None:
        self._deadlines.discard(self)
        if error_code is not NO_ERROR:
            refuse(self.line, error_code)
        self.keep(self._produced)

    def expire(self) -> None:
        """Late: the data stays, a retry finds it as a duplicate. The partition releases it in vain."""
        refuse(self.line, ErrorCode.request_timed_out)
        self.keep(self._produced)


class ProduceWait:
    """One held Produce: answered when all its batches are safe, or at its deadline."""

    __slots__ = ("_deadlines", "_response", "_waiting", "due_at_ms", "promise")

    def __init__(
        self,
        deadlines: Deadlines,
        response: ProduceResponse,
        waiting: Sequence[Appended],
        due_at_ms: int,
    ) -> None:
        self.promise: HeldResponse[ProduceResponse] = HeldResponse()
        self.due_at_ms = due_at_ms
        self._deadlines = deadlines
        self._response = response
        self._waiting = waiting
        deadlines.add(self)
        for appended in waiting:
            appended.partition.watch(self._look)

    def _look(self) -> None:
        still_waiting = []
        for appended in self._waiting:
            if appended.settle():
                appended.partition.unwatch(self._look)
            else:
                still_waiting.append(appended)
        self._waiting = still_waiting
        if not still_waiting:
            self._deadlines.discard(self)
            self.promise.keep(self._response)

    def expire(self) -> None:
        """Late: the data stays, a retry finds it as a duplicate."""
        for appended in self._waiting:
            appended.partition.unwatch(self._look)
            appended.refuse(ErrorCode.request_timed_out)
        self._waiting = ()
        self.promise.keep(self._response)
