"""Responses to Produce that wait until the batches are durable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.partition_wait import PartitionWait
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import PartitionProduceResponse, ProduceResponse


@dataclass(slots=True)
class Appended:
    """A batch in its log, and its part of the response."""

    partition: Partition
    last_offset: int
    response: PartitionProduceResponse
    flush_failures: int  # of the partition at the append; one more means that the batch was truncated

    def settle(self) -> bool:
        """Whether there is nothing left to wait for; sets the error in the response, if there is one."""
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
    """The append is not known to be durable."""
    line.error_code = int(error_code)
    line.base_offset = line.log_start_offset = line.log_append_time_ms = -1


class SingleWait(HeldResponse[ProduceResponse]):
    """A held Produce of one batch, as most are: its partition releases it, in the order of the log.

    Not a PartitionWait: hundreds of these wait for one partition, and each would be checked at every flush.
    """

    __slots__ = ("_deadlines", "_produced", "flush_failures", "last_offset", "line", "timeout_ms")

    def __init__(
        self,
        deadlines: Deadlines,
        produced: ProduceResponse,
        line: PartitionProduceResponse,
        partition: Partition,
        last_offset: int,
        timeout_ms: int,
    ) -> None:
        # In place of super().__init__(): the call would be a sixth of what holding a response costs.
        self._listener = None
        self._response = None
        self._is_dropped = False
        self._deadlines = deadlines
        self._produced = produced
        self.line = line  # of the response
        self.last_offset = last_offset
        self.flush_failures = partition.flush_failures
        self.timeout_ms = timeout_ms
        deadlines.add(self)
        partition.held.append(self)

    def release(self, error_code: ErrorCode) -> None:
        self._deadlines.discard(self)
        if error_code is not NO_ERROR:
            refuse(self.line, error_code)
        self.keep(self._produced)

    def expire(self) -> None:
        """Late. The records stay: a retry finds them as duplicates. The later release has no effect."""
        refuse(self.line, ErrorCode.request_timed_out)
        self.keep(self._produced)


class ProduceWait(PartitionWait):
    """A held Produce of several batches: answered when all of them are durable, or late."""

    def __init__(
        self,
        deadlines: Deadlines,
        response: ProduceResponse,
        waiting: Sequence[Appended],
        timeout_ms: int,
    ) -> None:
        self.held: HeldResponse[ProduceResponse] = HeldResponse()
        self._response = response
        self._waiting = waiting
        super().__init__(deadlines, [appended.partition for appended in waiting], timeout_ms)

    def is_over(self) -> bool:
        self._waiting = [appended for appended in self._waiting if not appended.settle()]
        return not self._waiting

    def end(self) -> None:
        # What still waits is late. The records stay: a retry finds them as duplicates.
        for appended in self._waiting:
            appended.refuse(ErrorCode.request_timed_out)
        self.held.keep(self._response)
