"""What coordinators have in common: a request finds the shard of its key, and several answers become one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from klamm.coordinator.runtime.gathering import Gathering, Part
from klamm.coordinator.runtime.machine import Machine
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE, ShardStatus
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.runtime.shards import Shards
from klamm.protocol.errors import ErrorCode
from klamm.protocol.placement import Places

# Of a request about many keys, how many are decided in one turn of the loop: requests of others come between.
AT_ONCE: Final = 2

Record = TypeVar("Record")
Note = TypeVar("Note")


class ShardedCoordinator(Generic[Record, Note]):
    """Routes requests to the shards of one internal topic; responses go to the host."""

    def __init__(
        self,
        topic: str,
        *,
        partition_count: int,
        make_machine: Callable[[], Machine[Record, Note]],
        error_response: Callable[[object, ErrorCode], object],
        host: ShardHost,
        patience_ms: int | None = None,
        loading_patience_ms: int = 0,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`soon` calls something in the next turn of a loop; without it everything is decided at once."""
        self._send = host.send
        self._soon = soon
        self._error_response = error_response
        self.shards: Shards[Record, Note] = Shards(
            topic,
            make_machine=make_machine,
            host=host,
            patience_ms=patience_ms,
            loading_patience_ms=loading_patience_ms,
        )
        self.partition_for = Places(partition_count).__getitem__
        # Any: each handler takes the type under which it is listed.
        self.handlers: dict[type, Callable[[Any, Context], None]] = {}

    def handle(self, request: object, context: Context) -> None:
        """Decide a request; the response goes to `ShardHost.send` with the context's token, now or later.

        A host looks into `handlers` itself: what it would do here, for every request, is one more call.
        """
        self.handlers[type(request)](request, context)

    # --- one shard -----------------------------------------------------------------------------------

    def _to_shard(self, key: str, request: object, context: Context) -> None:
        """Hand a request to the shard of a group or a transactional id."""
        self._to_partition(self.partition_for(key), request, context)

    def _to_partition(self, partition: int, request: object, context: Context) -> None:
        shard = self.shards.by_partition.get(partition)
        if shard is not None and shard.status is ACTIVE:
            shard.handle(request, context)
        elif shard is not None and shard.status is ShardStatus.LOADING:
            shard.handle_when_loaded(request, context)
        else:
            self._refuse(request, self.shards.why_not(partition), context)

    def _refuse(self, request: object, error_code: ErrorCode, context: Context) -> None:
        self._send(context.token, self._error_response(request, error_code))

    def _merged(self, context: Context, merge: Callable[[Any], object]) -> Context:
        """A context whose response is changed before it is sent."""
        return self._parts(context, 1, lambda answers: merge(answers[0]))[0]

    # --- several -------------------------------------------------------------------------------------

    def _to_shards(
        self,
        parts: Sequence[tuple[str, object]],
        merge: Callable[[Sequence[Any]], object],  # Any: the responses' own type
        context: Context,
    ) -> None:
        """Hand requests to the shards of their keys, and send one response made of all."""
        contexts = self._parts(context, len(parts), merge)
        self._in_turns(
            partial(self._to_shard, key, request, part)
            for (key, request), part in zip(parts, contexts, strict=True)
        )

    def _to_all_shards(
        self, request: object, merge: Callable[[Sequence[Any]], object], context: Context
    ) -> None:
        """Hand a request to every shard that is active or will be, and send one response made of all."""
        partitions = [
            partition
            for partition, shard in self.shards.by_partition.items()
            if shard.status in (ACTIVE, ShardStatus.LOADING)
        ]
        contexts = self._parts(context, len(partitions), merge)
        self._in_turns(
            (
                partial(self._to_partition, partition, request, part)
                for partition, part in zip(partitions, contexts, strict=True)
            ),
            at_once=1,  # which may have many keys
        )

    def _in_turns(self, decisions: Iterable[Callable[[], None]], at_once: int = AT_ONCE) -> None:
        """Some now, the others in later turns of the loop."""
        left = deque(decisions)
        while left:
            for _ in range(min(at_once, len(left))):
                left.popleft()()
            if left and self._soon is not None:
                self._soon(partial(self._in_turns, left, at_once))
                return

    def _parts(
        self, context: Context, count: int, merge: Callable[[Sequence[Any]], object]
    ) -> Sequence[Context]:
        """Contexts for the parts of a request. Without parts the response is sent at once."""
        if not count:
            self._send(context.token, merge(()))
            return ()
        gathering = Gathering(partial(self._send, context.token), count, merge)
        return [
            Context(
                now_ms=context.now_ms,
                timestamp_ms=context.timestamp_ms,
                client_id=context.client_id,
                client_host=context.client_host,
                token=Part(gathering, index),
                principal=context.principal,
            )
            for index in range(count)
        ]
