"""A connection on which faults happen to requests and responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from klamm.broker.net.connection import Connection
from klamm.broker.net.context import HeldResponse, RequestContext
from klamm.broker.net.dispatch import Endpoint
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import DecodeError
from klamm.testing.faults import Fault, FaultKind, Faults
from klamm.testing.observation import CLIENT_ID

if TYPE_CHECKING:
    from klamm.broker.services import Services


@dataclass(slots=True)
class _CutShort:
    """A response of which half is sent."""

    response: Any


class _Lost:
    """A response that is not sent."""


class FaultyConnection(Connection):
    """Asks for each request whether a fault happens to it."""

    __slots__ = ("_faults", "_faulty", "_has_acted", "_is_mute")

    _overrides_write = True

    def __init__(
        self, faults: Faults, has_acted: Callable[[], None], *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._has_acted = has_acted
        self._faults = faults
        self._faulty: dict[bytes, Endpoint] = {}
        self._is_mute = False  # a response was lost: on one connection, none can arrive after it
        self.find_endpoint = self._find  # in place of a dictionary's `get`

    def _find(self, start: bytes, _default: None = None) -> Endpoint | None:
        found = self._faulty.get(start)
        if found is None:
            try:
                endpoint = self._dispatcher.endpoint(start)
            except DecodeError:
                return None  # refused where all such requests are
            found = self._faulty[start] = endpoint.with_handler(partial(self._handle, endpoint))
        return found

    def _handle(self, endpoint: Endpoint, services: Services, context: RequestContext, request: Any) -> Any:
        if context.client_id == CLIENT_ID:  # a fault without selectors must not end the look at its effects
            return endpoint.handle(services, context, request)
        services.loop.call_soon(self._has_acted)  # tests that wait look again when this is decided
        fault = self._faults.pick(services, endpoint, context, request)
        if fault is None:
            return endpoint.handle(services, context, request)
        if fault.kind is FaultKind.FAIL:
            is_unanswered = endpoint.api_key is ApiKey.PRODUCE and request.acks == 0
            return None if is_unanswered else endpoint.failed(request, fault.error)
        if fault.kind is FaultKind.DROP_BEFORE:
            self.abort()
            return None
        return self._later(fault, partial(endpoint.handle, services, context, request))

    async def _later(self, fault: Fault, work: partial[Any]) -> Any:
        if fault.kind is FaultKind.DELAY:
            await asyncio.sleep(fault.delay_s)
        elif fault.kind is FaultKind.HANG:
            await self._until_lifted(fault)
        response = await _finished(work())
        if fault.kind is FaultKind.DROP_AFTER:
            self.abort()
            return None
        if response is None:
            return None
        if fault.kind is FaultKind.LOSE:
            return _Lost()
        return _CutShort(response) if fault.kind is FaultKind.CUT else response

    async def _until_lifted(self, fault: Fault) -> None:
        lifted = asyncio.Event()
        loop = asyncio.get_running_loop()
        fault.when_lifted(lambda: None if loop.is_closed() else loop.call_soon_threadsafe(lifted.set))
        await lifted.wait()

    def _write(
        self,
        endpoint: Endpoint,
        context: RequestContext,
        correlation_id: int,
        response: Any,
        started_at_ms: int,
        size_bytes: int,
        *,
        has_waited: bool = False,
    ) -> None:
        if context.client_id != CLIENT_ID:
            self._loop.call_soon(self._has_acted)
        if self._is_mute or isinstance(response, _Lost):
            self._is_mute = True
            return
        if not isinstance(response, _CutShort):
            super()._write(
                endpoint, context, correlation_id, response, started_at_ms, size_bytes, has_waited=has_waited
            )
            return
        body = b"".join(endpoint.encode(response.response))
        frame = endpoint.pack_head(endpoint.head_bytes + len(body) - 4, correlation_id) + body
        self._sender.put(frame[: len(frame) // 2])
        self.end()


async def _finished(result: Any) -> Any:
    """The response of a handler that may have to wait for it."""
    if isinstance(result, HeldResponse):
        if not result.is_done:
            done = asyncio.get_running_loop().create_future()
            result.listener = partial(_resolve, done)
            await done
        return result.response
    return await result if hasattr(result, "__await__") else result


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
