"""The one place where requests are authorized: between a connection and the handler of its API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from klamm.broker.net.context import Handler, HandlerResult, HeldResponse, ParkedResponse, RequestContext
from klamm.broker.security.rules import Rule, Whole

if TYPE_CHECKING:
    from klamm.broker.services import Services


def guarded(handle: Handler, rule: Rule) -> Handler:
    """The handler, for requests that the rule lets pass."""
    screen = rule.screen
    if screen is None:
        return handle
    if isinstance(screen, Whole) and screen.is_of_one_name:
        return _guarded_by_name(handle, screen)

    def authorized(services: Services, context: RequestContext, request: Any) -> HandlerResult[Any]:
        verdict = screen(services, context, request)
        if verdict is None:
            return handle(services, context, request)
        if verdict.request is None:
            return verdict.finish(None)
        return _finished(handle(services, context, verdict.request), verdict.finish)

    return authorized


def _guarded_by_name(handle: Handler, screen: Whole) -> Handler:
    """For requests of one resource, such as heartbeats: what is known to be allowed costs one look."""
    (permission,) = screen.one_of
    name_of = attrgetter(screen.field)

    def authorized(services: Services, context: RequestContext, request: Any) -> HandlerResult[Any]:
        known = context.decisions
        if (
            known.generation is not services.authorizer.generation
            or (permission, name_of(request)) not in known.allowed
        ):
            verdict = screen(services, context, request)
            if verdict is not None:
                return verdict.finish(None)
        return handle(services, context, request)

    return authorized


def _finished(result: HandlerResult[Any], finish: Callable[[Any], Any]) -> HandlerResult[Any]:
    """What a handler returned, with what was refused before."""
    if result is None:
        return None
    if isinstance(result, HeldResponse):
        if result.is_done:
            return None if result.response is None else finish(result.response)
        return _FinishedParked(result, finish) if result.is_parked else _FinishedHeld(result, finish)
    if hasattr(result, "__await__"):
        return _when_answered(result, finish)
    return finish(result)


async def _when_answered(result: Awaitable[Any], finish: Callable[[Any], Any]) -> Any:
    response = await result
    return None if response is None else finish(response)


class _FinishedHeld(HeldResponse[Any]):
    """A held response that something is added to."""

    __slots__ = ("_finish", "_rest")

    def __init__(self, rest: HeldResponse[Any], finish: Callable[[Any], Any]) -> None:
        super().__init__()
        self._rest = rest
        self._finish = finish
        rest.listener = self._answered

    def _answered(self) -> None:
        response = self._rest.response
        self.keep(None if response is None else self._finish(response))

    def drop(self) -> None:
        self._rest.drop()
        super().drop()


class _FinishedParked(ParkedResponse[Any], _FinishedHeld):
    """The same of a parked one."""

    __slots__ = ()
