"""Producer ids out of blocks: a block is durable in the cluster store before its first id is allocated."""

from __future__ import annotations

import logging
from asyncio import Future, Task, ensure_future, shield
from typing import TYPE_CHECKING, Final

from klamm.storage.cluster import ClusterStore, ClusterStoreError, ConflictError

if TYPE_CHECKING:
    from klamm.broker.services import RunBlocking

BLOCK_SIZE: Final = 1000
PREFETCH_BELOW: Final = BLOCK_SIZE // 10

_log = logging.getLogger(__name__)


class NoProducerIdError(Exception):
    """No id is available; with `is_exhausted` there will never be one."""

    def __init__(self, message: str, *, is_exhausted: bool = False) -> None:
        super().__init__(message)
        self.is_exhausted = is_exhausted


class ProducerIds:
    """Allocates each id once. The rest of an unfinished block is lost: ids have gaps, but never repeat."""

    def __init__(self, cluster: ClusterStore, run_blocking: RunBlocking) -> None:
        self._cluster = cluster
        self._run_blocking = run_blocking
        self._ids: list[range] = []
        self._fetching: Task[None] | Future[None] | None = None

    def take(self) -> int | None:
        """The next id; None when a new block is needed first."""
        if not self._ids:
            return None
        block = self._ids[0]
        taken, rest = block[0], block[1:]
        self._ids[:1] = [rest] if rest else []
        if self._fetching is None and sum(map(len, self._ids)) < PREFETCH_BELOW:
            self._start_fetching()
        return taken

    async def wait(self) -> int:
        """The next id, once there is one. Raises NoProducerIdError."""
        while (taken := self.take()) is None:
            await shield(self._fetching or self._start_fetching())
        return taken

    def _start_fetching(self) -> Future[None]:
        self._fetching = ensure_future(self._fetch())
        self._fetching.add_done_callback(self._fetched)
        return self._fetching

    def _fetched(self, fetching: Future[None]) -> None:
        self._fetching = None
        if not fetching.cancelled() and (error := fetching.exception()) is not None:
            # Requests that wait get the same error; after a prefetch there may be none.
            _log.error("%s", error)

    async def _fetch(self) -> None:
        try:
            block = await self._run_blocking(self._cluster.allocate_producer_ids, BLOCK_SIZE)
        except OverflowError as error:
            raise NoProducerIdError("every producer id was given away", is_exhausted=True) from error
        except (ClusterStoreError, ConflictError, OSError) as error:
            raise NoProducerIdError(f"no new producer ids: {error}") from error
        self._ids.append(block)
