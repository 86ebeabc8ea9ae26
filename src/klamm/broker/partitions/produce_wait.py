"""Responses to Produce that wait until the batches are durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.leadership import leader_hint
from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.partition_wait import PartitionWait
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

if TYPE_CHECKING:
    from klamm.broker.net.context import RequestContext
    from klamm.broker.services import Services


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
    if error_code is not ErrorCode.not_leader_or_follower:
        # As in Kafka, which returns the offset of a batch that the next leader may have.
        line.base_offset = line.log_start_offset = line.log_append_time_ms = -1


def name_leaders(
    image: ClusterImage,
    listener: str,
    response: ProduceResponse,
    lines: Iterable[tuple[str, PartitionProduceResponse]],
) -> None:
    """Name the leader of each partition that another broker leads (KIP-951, version 10 and later).

    The parts of the response are given with their topics' names, which it may not have.
    """
    endpoints: dict[int, NodeEndpoint] = {}
    for topic, line in lines:
        if line.error_code == ErrorCode.not_leader_or_follower:
            hint = leader_hint(image, topic, line.index, listener)
            line.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
            if hint.endpoint is not None:
                endpoints[hint.leader_id] = NodeEndpoint(*hint.endpoint)
    if endpoints:
        response.node_endpoints = list(endpoints.values())


class SingleWait(HeldResponse[ProduceResponse]):
    """A held Produce of one batch, as most are: its partition releases it, in the order of the log.

    Not a PartitionWait: hundreds of these wait for one partition, and each would be checked at every flush.
    """

    __slots__ = (
        "_context",
        "_partition",
        "_produced",
        "_services",
        "flush_failures",
        "last_offset",
        "line",
        "timeout_ms",
    )

    def __init__(
        self,
        services: Services,
        context: RequestContext,
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
        self._services = services
        self._context = context
        self._partition = partition
        self._produced = produced
        self.line = line  # of the response
        self.last_offset = last_offset
        self.flush_failures = partition.flush_failures
        self.timeout_ms = timeout_ms
        services.deadlines.add(self)
        partition.held.append(self)

    def release(self, error_code: ErrorCode) -> None:
        self._services.deadlines.discard(self)
        if error_code is not NO_ERROR:
            refuse(self.line, error_code)
            lines = [(self._partition.topic, self.line)]
            name_leaders(self._services.image, self._context.listener, self._produced, lines)
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
        name_leaders: Callable[[], None],
    ) -> None:
        self.held: HeldResponse[ProduceResponse] = HeldResponse()
        self._response = response
        self._waiting = waiting
        self._name_leaders = name_leaders
        super().__init__(deadlines, [appended.partition for appended in waiting], timeout_ms)

    def is_over(self) -> bool:
        self._waiting = [appended for appended in self._waiting if not appended.settle()]
        return not self._waiting

    def end(self) -> None:
        # What still waits is late. The records stay: a retry finds them as duplicates.
        for appended in self._waiting:
            appended.refuse(ErrorCode.request_timed_out)
        self._name_leaders()
        self.held.keep(self._response)
