"""What coordinators have in common: a request finds the shard of its key, and several answers become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from klamm.coordinator.runtime.gathering import Gathering, Part
from klamm.coordinator.runtime.machine import Machine
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE, ShardStatus
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.runtime.shards import Shards
from klamm.protocol.errors import ErrorCode
from klamm.protocol.placement import Places

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
    ) -> None:
        self._send = host.send
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
        partition = self.partition_for(key)
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
        for (key, request), part in zip(parts, contexts, strict=True):
            self._to_shard(key, request, part)

    def _to_all_shards(
        self, request: object, merge: Callable[[Sequence[Any]], object], context: Context
    ) -> None:
        """Hand a request to every shard that is active or will be, and send one response made of all."""
        handlers = [
            shard.handle if shard.status is ACTIVE else shard.handle_when_loaded
            for shard in self.shards
            if shard.status in (ACTIVE, ShardStatus.LOADING)
        ]
        for handle, part in zip(handlers, self._parts(context, len(handlers), merge), strict=True):
            handle(request, part)

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
