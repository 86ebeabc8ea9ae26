"""Produced and not safe yet: an answer that waits for high watermarks."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from dataclasses import dataclass

from klamm.broker.partitions import Partition
from klamm.protocol.errors import ErrorCode
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
        if partition.error_code is not ErrorCode.none:
            self.refuse(partition.error_code)
        elif partition.flush_failures != self.flush_failures:
            self.refuse(ErrorCode.kafka_storage_error)
        elif partition.log.high_watermark <= self.last_offset:
            return False
        return True

    def refuse(self, error_code: ErrorCode) -> None:
        self.response.error_code = int(error_code)
        self.response.base_offset = self.response.log_start_offset = self.response.log_append_time_ms = -1


class ProduceWait:
    """One held Produce: answered when all its batches are safe, or at its deadline."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        response: ProduceResponse,
        waiting: Sequence[Appended],
        timeout_ms: int,
    ) -> None:
        self.future: Future[ProduceResponse] = loop.create_future()
        self._response = response
        self._waiting = waiting
        if timeout_ms <= 0:
            self._give_up()
            return
        for appended in waiting:
            appended.partition.watch(self._look)
        self._timer = loop.call_later(timeout_ms / 1000, self._give_up)

    def _look(self) -> None:
        still_waiting = []
        for appended in self._waiting:
            if appended.settle():
                appended.partition.unwatch(self._look)
            else:
                still_waiting.append(appended)
        self._waiting = still_waiting
        if not still_waiting and not self.future.done():
            self._timer.cancel()
            self.future.set_result(self._response)

    def _give_up(self) -> None:
        """Late: the data stays, a retry finds it as a duplicate."""
        for appended in self._waiting:
            appended.partition.unwatch(self._look)
            appended.refuse(ErrorCode.request_timed_out)
        self._waiting = ()
        if not self.future.done():
            self.future.set_result(self._response)
