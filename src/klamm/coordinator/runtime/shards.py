"""Which shards this broker serves, and at which leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from klamm.coordinator.runtime.log import CoordinatorLog
from klamm.coordinator.runtime.machine import Machine
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.protocol.errors import ErrorCode

Record = TypeVar("Record")
Note = TypeVar("Note")


class Shards(Generic[Record, Note]):
    """The shards of one internal topic. Leadership comes and goes by epoch; what is older is ignored."""

    def __init__(
        self,
        topic: str,
        *,
        make_machine: Callable[[], Machine[Record, Note]],
        host: ShardHost,
        patience_ms: int | None = None,
        loading_patience_ms: int = 0,
    ) -> None:
        self._topic = topic
        self._make_machine = make_machine
        self._host = host
        self._patience_ms = patience_ms
        self._loading_patience_ms = loading_patience_ms
        self.by_partition: dict[int, Shard] = {}  # in whatever state they are
        self._last_epochs: dict[int, int] = {}
        self.is_stopped = False

    def elect(self, partition: int, epoch: int, open_log: Callable[[], CoordinatorLog]) -> bool:
        """Begin to serve a partition at a leader epoch; False if the epoch is not newer."""
        if self.is_stopped or epoch < self._last_epochs.get(partition, 0):
            return False
        shard = self.by_partition.get(partition)
        if shard is not None and shard.epoch == epoch and shard.status is not ShardStatus.FAILED:
            return False
        self._last_epochs[partition] = epoch
        if shard is not None:
            shard.unload()
        shard = Shard(
            f"{self._topic}-{partition}",
            epoch=epoch,
            log=open_log(),
            make_machine=self._make_machine,
            host=self._host,
            patience_ms=self._patience_ms,
            loading_patience_ms=self._loading_patience_ms,
        )
        self.by_partition[partition] = shard
        self._host.load(shard)
        return True

    def resign(self, partition: int, epoch: int) -> bool:
        """Stop serving a partition that has another leader at this epoch; False if the epoch is not newer."""
        if epoch < self._last_epochs.get(partition, 0):
            return False
        self._last_epochs[partition] = epoch
        shard = self.by_partition.pop(partition, None)
        if shard is not None:
            shard.unload()
        return True

    def stop(self) -> None:
        """Serve nothing from now on."""
        self.is_stopped = True
        for shard in self.by_partition.values():
            shard.unload(ErrorCode.coordinator_not_available)
        self.by_partition.clear()

    def why_not(self, partition: int) -> ErrorCode:
        """Why no shard serves a partition."""
        shard = self.by_partition.get(partition)
        if self.is_stopped:
            return ErrorCode.coordinator_not_available
        if shard is not None and shard.status is ShardStatus.LOADING:
            return ErrorCode.coordinator_load_in_progress
        return ErrorCode.not_coordinator

    def __iter__(self) -> Iterator[Shard]:
        return iter(tuple(self.by_partition.values()))

    def next_check_ms(self) -> int | None:
        """When `tick` is to be called at the latest; None when nothing is armed."""
        checks = [
            check_ms
            for shard in self.by_partition.values()
            if (check_ms := shard.next_check_ms()) is not None
        ]
        return min(checks, default=None)

    def tick(self, context: Context) -> None:
        """Fire what is due in every shard."""
        for shard in self:
            shard.tick(context)
