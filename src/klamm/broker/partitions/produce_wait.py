"""Responses to Produce that wait until the batches are durable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.leadership import leader_hint
from klamm.broker.net.context import HeldResponse
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
        if line.error_code and line.error_code == ErrorCode.not_leader_or_follower:
            hint = leader_hint(image, topic, line.index, listener)
            line.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
            if hint.endpoint is not None:
                endpoints[hint.leader_id] = NodeEndpoint(*hint.endpoint)
    if endpoints:
        response.node_endpoints = [endpoints[node_id] for node_id in sorted(endpoints)]


class SingleWait(HeldResponse[ProduceResponse]):
    """A held Produce of one batch, as most are: its partition releases it, in the order of the log.

    Nothing watches the partition: hundreds of these wait for it, and each would be checked at every flush.
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
        self.listener = None
        self.response = None
        self.is_done = False
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


class ProduceWait(HeldResponse[ProduceResponse]):
    """A held Produce of several batches: answered when all of them are durable, or late."""

    __slots__ = ("_context", "_lines", "_produced", "_services", "_waiting", "timeout_ms")

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        produced: ProduceResponse,
        lines: Sequence[tuple[str, PartitionProduceResponse]],
        timeout_ms: int,
    ) -> None:
        """`lines` are all parts of the response, with the names of their topics."""
        self.listener = None
        self.response = None
        self.is_done = False
        self._services = services
        self._context = context
        self._produced = produced
        self._lines = lines
        self._waiting: dict[HeldBatch, None] = {}
        self.timeout_ms = timeout_ms
        services.deadlines.add(self)

    def hold(self, partition: Partition, line: PartitionProduceResponse, last_offset: int) -> None:
        """Wait for a batch that was just appended."""
        batch = HeldBatch(self, line, last_offset, partition.flush_failures)
        self._waiting[batch] = None
        partition.held.append(batch)

    def settle(self, batch: HeldBatch, error_code: ErrorCode) -> None:
        """A batch is durable, or failed with an error. One that was late is answered already."""
        if self._waiting.pop(batch, self) is self:
            return
        if error_code is not NO_ERROR:
            refuse(batch.line, error_code)
        if not self._waiting:
            self._services.deadlines.discard(self)
            self._end()

    def expire(self) -> None:
        # What still waits is late. The records stay: a retry finds them as duplicates.
        for batch in self._waiting:
            refuse(batch.line, ErrorCode.request_timed_out)
        self._waiting.clear()
        self._end()

    def _end(self) -> None:
        name_leaders(self._services.image, self._context.listener, self._produced, self._lines)
        self.keep(self._produced)


class HeldBatch:
    """One of several batches of a Produce: its partition releases it, in the order of the log."""

    __slots__ = ("_wait", "flush_failures", "last_offset", "line")

    def __init__(
        self, wait: ProduceWait, line: PartitionProduceResponse, last_offset: int, flush_failures: int
    ) -> None:
        self._wait = wait
        self.line = line
        self.last_offset = last_offset
        self.flush_failures = flush_failures

    def release(self, error_code: ErrorCode) -> None:
        self._wait.settle(self, error_code)
