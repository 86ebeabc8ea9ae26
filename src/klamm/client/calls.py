"""Requests with retries to the right broker: any, the controller, a coordinator, the leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from klamm.client.runtime import Core
from klamm.errors import BrokerError, KlammError, KlammTimeoutError, broker_error
from klamm.net.network import Node, backoff_ms
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from klamm.protocol.types import TopicPartition

K = TypeVar("K")

GROUP: Final = 0  # coordinator types of FindCoordinator
TRANSACTION: Final = 1
_KINDS: Final = ("group", "transactional.id")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to go on, and how fast."""

    timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class Deadline:
    """One operation's time: pauses between attempts, and an end."""

    def __init__(self, core: Core, policy: RetryPolicy, what: str) -> None:
        self._core = core
        self._policy = policy
        self._what = what
        self.due_at_ms = core.now_ms + policy.timeout_ms
        self._attempt = 0
        self.last_error: KlammError | None = None
        self._ended: KlammTimeoutError | None = None

    def remaining_ms(self) -> int:
        """What is left; raises when nothing is."""
        left_ms = self.due_at_ms - self._core.now_ms
        if self._ended is not None:
            raise self._ended  # an attempt that failed with it has nothing to add
        if left_ms <= 0:
            # The item may have failed because there was no metadata: name that cause too.
            causes = [error for error in (self.last_error, self._core.metadata.error) if error is not None]
            reasons = dict.fromkeys(map(str, causes))
            tail = f"; last error: {', since '.join(reasons)}" if reasons else ""
            self._ended = KlammTimeoutError(
                f"{self._what} timed out after {self._policy.timeout_ms} ms{tail}"
            )
            raise self._ended from (causes[0] if causes else None)
        return left_ms

    async def pause(self, error: KlammError) -> None:
        """Wait before the next attempt; raises `error` if this was the last."""
        if not error.retriable:
            raise error
        self.last_error = error
        wait_ms = backoff_ms(
            self._policy.retry_backoff_ms,
            self._policy.retry_backoff_max_ms,
            self._attempt,
            self._core.random,
        )
        self._attempt += 1
        await self._core.tasks.sleep(min(wait_ms, self.remaining_ms()))
        self.remaining_ms()


class Calls:
    """Requests with a destination and a time-out."""

    def __init__(self, core: Core, policy: RetryPolicy) -> None:
        self.core = core
        self.policy = policy
        self.latest_ms: int | None = None  # no operation goes on after this instant
        self._coordinators: dict[tuple[int, str], int] = {}  # by kind and key

    def deadline(self, what: str, timeout_ms: int | None = None) -> Deadline:
        policy = self.policy
        if self.latest_ms is not None:
            left_ms = max(0, self.latest_ms - self.core.now_ms)
            timeout_ms = min(left_ms, policy.timeout_ms if timeout_ms is None else timeout_ms)
        if timeout_ms is not None:
            policy = RetryPolicy(timeout_ms, policy.retry_backoff_ms, policy.retry_backoff_max_ms)
        return Deadline(self.core, policy, what)

    async def send(
        self, node: Node, api_key: ApiKey, request: Any, deadline: Deadline, max_version: int = 32767
    ) -> Any:
        """One request to one node, within the deadline and the request timeout."""
        limit_ms = min(deadline.remaining_ms(), self.core.network.config.request_timeout_ms)
        return await self.core.tasks.request(
            node, api_key, request, timeout_ms=limit_ms, max_version=max_version
        )

    async def to_any(self, api_key: ApiKey, request: Any, deadline: Deadline) -> Any:
        """Send to any broker."""
        while True:
            await self.cluster_known(deadline)
            node = self.core.network.least_loaded()
            if node is None:
                causes = "; ".join(map(str, self.core.network.failures.values()))
                await deadline.pause(KlammTimeoutError(f"no broker can be reached: {causes}"))
                continue
            try:
                return await self.send(node, api_key, request, deadline)
            except KlammError as error:
                await deadline.pause(error)

    async def to_broker(self, broker_id: int, api_key: ApiKey, request: Any, deadline: Deadline) -> Any:
        """Send to one broker."""
        while True:
            try:
                return await self.send(Node("broker", broker_id), api_key, request, deadline)
            except KlammError as error:
                await deadline.pause(error)

    async def to_controller(
        self,
        api_key: ApiKey,
        request: Any,
        deadline: Deadline,
        error_codes: Callable[[Any], Iterable[int]],
    ) -> Any:
        """Send to the controller; look it up again when it has moved."""
        while True:
            await self.cluster_known(deadline)
            controller_id = self.core.metadata.cluster.controller_id
            error: KlammError
            try:
                response = await self.send(Node("broker", controller_id), api_key, request, deadline)
                if ErrorCode.not_controller not in error_codes(response):
                    return response
                error = broker_error(ErrorCode.not_controller, api_key.name)
            except KlammError as failed:
                error = failed
            await deadline.pause(error)
            await self.refresh(deadline)

    async def to_coordinator(
        self,
        key: str,
        api_key: ApiKey,
        request: Any,
        deadline: Deadline,
        error_codes: Callable[[Any], Iterable[int]],
        *,
        max_version: int = 32767,
        kind: int = GROUP,
    ) -> tuple[Any, int]:
        """Send to the coordinator of a group or a transactional id; looked up again when it has moved.

        Returns the response and the coordinator's id.
        """
        while True:
            try:
                node_id = await self.coordinator_of(key, deadline, kind)
                node = Node("broker", node_id)
                response = await self.send(node, api_key, request, deadline, max_version)
                moved = next((code for code in error_codes(response) if code in ASK_AGAIN), None)
                if moved is None:
                    return response, node_id
                error: KlammError = broker_error(moved, f"{_KINDS[kind]} {key}")
            except KlammError as failed:
                error = failed
            if not (isinstance(error, BrokerError) and error.error_code == _LOADING):
                self.forget_coordinator(key, kind)
            await deadline.pause(error)

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Look up the coordinator again before the next request."""
        self._coordinators.pop((kind, key), None)

    async def coordinator_of(self, key: str, deadline: Deadline, kind: int = GROUP) -> int:
        """The broker id of the coordinator of a group, or of a transactional id."""
        if (kind, key) in self._coordinators:
            return self._coordinators[kind, key]
        while True:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            response: FindCoordinatorResponse = await self.to_any(ApiKey.FIND_COORDINATOR, request, deadline)
            found = response.coordinators[0] if response.coordinators else response
            if found.error_code == ErrorCode.none:
                await self.learn_coordinator(key, found.node_id, deadline, kind)
                return found.node_id
            error = broker_error(found.error_code, f"finding the coordinator of {key}", found.error_message)
            await deadline.pause(error)

    def knows_coordinator(self, key: str, kind: int = GROUP) -> bool:
        """Whether `coordinator_of` answers without a request."""
        return (kind, key) in self._coordinators

    async def learn_coordinator(self, key: str, node_id: int, deadline: Deadline, kind: int = GROUP) -> None:
        """Remember a coordinator that a broker has named."""
        self._coordinators[kind, key] = node_id
        await self._known_address(node_id, deadline)

    async def _known_address(self, node_id: int, deadline: Deadline) -> None:
        if node_id not in self.core.metadata.cluster.brokers:
            await self.refresh(deadline)

    async def cluster_known(self, deadline: Deadline) -> None:
        """Wait for the first metadata."""
        while not self.core.metadata.cluster.brokers:
            await self.refresh(deadline)

    async def refresh(self, deadline: Deadline) -> None:
        """Wait for newer metadata than there is now."""
        metadata = self.core.metadata
        wanted = metadata.request_update()
        arrived: Promise[None] = Promise()

        def check(_cluster: object) -> None:
            if metadata.version >= wanted:
                arrived.resolve(None)

        metadata.listen(check)
        metadata.listen_for_refusal(arrived.fail)
        metadata.tick(self.core.now_ms)
        try:
            await self.core.tasks.within(arrived, deadline.remaining_ms(), "requesting metadata")
        except KlammTimeoutError:
            silence = KlammTimeoutError("no broker answered a request for metadata")
            deadline.last_error = deadline.last_error or metadata.error or silence
            deadline.remaining_ms()
        finally:
            metadata.unlisten(check)
            metadata.unlisten_for_refusal(arrived.fail)

    async def leaders_of(
        self, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KlammError]]:
        """The partitions by their leader, and those that do not exist or have none."""
        metadata = self.core.metadata
        metadata.want({partition.topic for partition in partitions})
        unknown = [item for item in partitions if metadata.cluster.partition(item) is None]
        if unknown:
            await self.refresh(deadline)
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        failed: dict[TopicPartition, KlammError] = {}
        for item in partitions:
            info = metadata.cluster.partition(item)
            if info is None:
                code = metadata.cluster.errors.get(item.topic, ErrorCode.unknown_topic_or_partition)
                failed[item] = broker_error(code, str(item))
            elif info.leader_id < 0:
                failed[item] = broker_error(ErrorCode.leader_not_available, str(item))
            else:
                led[info.leader_id].append(item)
        return led, failed


_LOADING = ErrorCode.coordinator_load_in_progress
ASK_AGAIN = (_LOADING, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for item in partitions:
        grouped[item.topic].append(item.partition)
    return dict(grouped)
