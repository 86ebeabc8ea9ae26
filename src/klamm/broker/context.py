"""What a handler is told besides the request, and what it may give back."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from klamm.broker.services import Services

Response = TypeVar("Response")


@dataclass(slots=True)
class RequestContext:
    """Who asks, and how."""

    client_id: str  # "" when the client gave none
    client_host: str  # as Kafka prints it: "/127.0.0.1"
    listener: str  # the name of the listener the request came through
    api_version: int
    software_name: str = ""  # what the client said of itself in ApiVersions, if it did
    software_version: str = ""


class CloseConnectionError(Exception):
    """A handler's last resort where the protocol has no answer: close, with one line that says why."""


class Promise(Generic[Response]):
    """A response to come, heard by one listener in the moment it comes.

    What a Future does beyond that (callbacks in a later turn of the loop, cancelling, awaiting) costs more
    than deciding a small produce.
    """

    __slots__ = ("_listener", "_response")

    def __init__(self) -> None:
        self._listener: Callable[[], object] | None = None
        self._response: Response | None = None

    def done(self) -> bool:
        return self._response is not None

    def keep(self, response: Response) -> None:
        """Here it is. Once is enough: what comes later is not heard."""
        if self._response is None:
            self._response = response
            if self._listener is not None:
                self._listener()

    def outcome(self) -> Response:
        assert self._response is not None, "nothing has come yet"
        return self._response

    def listen(self, listener: Callable[[], object]) -> None:
        self._listener = listener


@dataclass(slots=True)
class Held(Generic[Response]):
    """Decided and done; only the answer waits, for the disk.

    Later requests of the same connection need not wait with it: five produces share one flush.
    """

    response: Promise[Response] | Future[Response]


# What a handler gives back: an answer to be sent at once; an awaitable, which is parked, and nothing behind
# it on its connection is decided meanwhile; a held answer; or None, when the client wants no answer.
Answer: TypeAlias = Response | Awaitable[Response] | Held[Response] | None
Handler: TypeAlias = Callable[["Services", RequestContext, Any], Answer[Any]]
