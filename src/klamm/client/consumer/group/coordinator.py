"""Finding the group's coordinator, and losing it again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.client.calls import Calls
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.runtime import Core
from klamm.errors import BrokerError, DisconnectedError, KlammError, KlammTimeoutError, broker_error
from klamm.net.network import Node, backoff_ms
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger(__name__)

MOVED: Final = (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator)


class CoordinatorLookup:
    """Finds the group's coordinator. One lookup at a time, shared by all callers."""

    def __init__(self, core: Core, settings: ConsumerSettings, calls: Calls) -> None:
        self._core = core
        self._settings = settings
        self._calls = calls
        self._lookup: Promise[Node] | None = None
        self.node: Node | None = None  # with a connection of its own: no fetch delays a heartbeat
        self.on_found: Callable[[], None] = lambda: None
        self.lookup_count = 0

    async def find(self, due_at_ms: int | None = None) -> Node:
        """The coordinator, looked up once if it is unknown; raises when that fails, or takes too long."""
        if self.node is not None:
            return self.node
        lookup = self._lookup
        if lookup is None:
            lookup = self._lookup = self._core.tasks.spawn(self._look_up())
            lookup.when_done(self._looked_up)  # which may be at once
        node = await lookup
        self._check_time(due_at_ms)
        return node

    def _check_time(self, due_at_ms: int | None) -> None:
        if due_at_ms is not None and self._core.now_ms >= due_at_ms:
            raise KlammTimeoutError(f"coordinator of group {self._settings.group_id} not found in time")

    async def ensure(self, due_at_ms: int | None = None) -> Node:
        """The coordinator, looked up until it is found or the time is up; raises what a retry cannot fix."""
        attempt = 0
        while True:
            try:
                return await self.find(due_at_ms)
            except KlammError as error:
                if not error.retriable:
                    raise
                log.debug("coordinator of %s: %s", self._settings.group_id, error)
            self._core.metadata.request_update()
            await self.back_off(attempt)
            self._check_time(due_at_ms)
            attempt += 1

    async def back_off(self, attempt: int) -> None:
        """Pause before another attempt."""
        await self._core.tasks.sleep(
            backoff_ms(
                self._settings.retry_backoff_ms,
                self._settings.retry_backoff_max_ms,
                attempt,
                self._core.random,
            )
        )

    def mark_unknown(self, reason: str, node: Node | None = None) -> None:
        """Mark it unknown, unless another one was found meanwhile; closes its connection."""
        known = self.node
        if known is None or node not in (None, known):
            return
        if not self._core.network.is_closing:
            log.info("coordinator %d of group %s: %s", known.number, self._settings.group_id, reason)
        self.node = None
        self._core.network.disconnect(known, reason)

    def judge(self, error: KlammError, node: Node) -> None:
        """Mark it unknown if the error means that it is lost, moved, or not responding."""
        is_lost = not isinstance(error, BrokerError) and error.retriable
        if is_lost or (isinstance(error, BrokerError) and error.error_code in MOVED):
            self.mark_unknown(str(error), node)

    def _looked_up(self, _lookup: Promise[Node]) -> None:
        self._lookup = None

    async def _look_up(self) -> Node:
        self.lookup_count += 1
        group_id = self._settings.group_id or ""
        asked = self._core.network.least_loaded()
        if asked is None:
            raise DisconnectedError("every broker is backing off")
        response: FindCoordinatorResponse = await self._core.tasks.request(
            asked,
            ApiKey.FIND_COORDINATOR,
            FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id]),
        )
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code != ErrorCode.none:
            raise broker_error(
                found.error_code, f"finding the coordinator of group {group_id}", found.error_message
            )
        if self._core.network.address_of(Node("broker", found.node_id)) is None:
            self._core.metadata.learn_brokers({found.node_id: (found.host, found.port, None)})
        self.node = node = Node("coordinator", found.node_id)
        log.info("coordinator of group %s is broker %d", group_id, found.node_id)
        self.on_found()
        return node
