"""Rebalance listeners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from klamm.errors import RebalanceListenerError, WakeupError
from klamm.protocol.types import TopicPartition

Partitions = list[TopicPartition]
Callback = Callable[[Partitions], Any]
AnyCallback = Callback | Callable[[Any, Partitions], Any]  # or of the consumer and the partitions


class RebalanceListener:
    """Override what you care about. Called inside `poll`, `close` and `unsubscribe`, in the caller's thread.

    With `klamm.aio.Consumer` the methods may be coroutines. Lists are sorted.
    """

    def on_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        """Called before partitions are revoked: they are still assigned, so commit now."""
        return None

    def on_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        """Called after partitions are assigned; `seek` may change their positions."""
        return None

    def on_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        """Called for partitions that other members own already: do not commit."""
        return self.on_revoked(partitions)


class CallbackListener(RebalanceListener):
    """Plain functions as a listener."""

    def __init__(
        self,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        self._assigned = on_assigned
        self._revoked = on_revoked
        self._lost = on_lost or on_revoked

    def on_revoked(self, partitions: Partitions) -> Any:
        return self._revoked(partitions) if self._revoked else None

    def on_assigned(self, partitions: Partitions) -> Any:
        return self._assigned(partitions) if self._assigned else None

    def on_lost(self, partitions: Partitions) -> Any:
        return self._lost(partitions) if self._lost else None


class StatefulListener(RebalanceListener):
    """Keeps state per partition over rebalances that give the partition back.

    `init(partition)` builds the state of an assigned partition, `cleanup(partition)` drops that of one
    that was revoked, `commit(partitions)` saves progress before that. An eager rebalance revokes everything
    and assigns most of it again; partitions that are assigned again keep their state.
    """

    def __init__(
        self,
        init: Callable[[TopicPartition], None],
        cleanup: Callable[[TopicPartition], None],
        commit: Callable[[Partitions], None] | None = None,
        *,
        is_cooperative: bool = False,
    ) -> None:
        self._init = init
        self._cleanup = cleanup
        self._commit = commit
        self._is_cooperative = is_cooperative
        self._held: set[TopicPartition] = set()

    def on_revoked(self, partitions: Partitions) -> None:
        if self._commit is not None and partitions:
            self._commit(partitions)
        if self._is_cooperative:
            self._drop(partitions)

    def on_lost(self, partitions: Partitions) -> None:
        if self._is_cooperative:
            self._drop(partitions)

    def on_assigned(self, partitions: Partitions) -> None:
        if not self._is_cooperative:
            self._drop(sorted(self._held.difference(partitions)))
        for partition in partitions:
            if partition not in self._held:
                self._init(partition)
                self._held.add(partition)

    def _drop(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            if partition in self._held:
                self._held.discard(partition)
                self._cleanup(partition)


async def tell(callback: Callback, partitions: Partitions, name: str) -> None:
    """Call a listener's method, and await a coroutine; errors name the method."""
    try:
        result = callback(partitions)
        if result is not None and isinstance(result, Awaitable):
            await result
    except Exception as error:
        if passes(error):
            raise
        listed = ", ".join(map(str, partitions)) or "nothing"
        raise RebalanceListenerError(f"the listener's {name}({listed}) raised {error!r}") from error


def passes(error: BaseException) -> bool:
    """Whether an error in a callback is the caller's own way to stop."""
    return isinstance(error, WakeupError)
