"""What a handler is told besides the request, and what it may give back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from klamm.broker.services import Services

Response = TypeVar("Response")


@dataclass(slots=True)
class RequestContext:
    """Who asks, and how. Each connection has one, which tells of the request that is being decided."""

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

    The request is decided and done; only its answer waits, for the disk. Later requests of its connection
    need not wait with it: five produces share one flush.

    What a Future does beyond that (callbacks in a later turn of the loop, awaiting) costs more than deciding
    a small produce. Whoever listens is called in the middle of somebody else's work: it may put the response
    down, and must leave everything else for later.
    """

    __slots__ = ("_is_dropped", "_listener", "_response")

    def __init__(self) -> None:
        self._listener: Callable[[], object] | None = None
        self._response: Response | None = None
        self._is_dropped = False

    def done(self) -> bool:
        return self._response is not None or self._is_dropped

    def keep(self, response: Response) -> None:
        """Here it is. Once is enough: what comes later is not heard."""
        if self._response is None and not self._is_dropped:
            self._response = response
            listener = self._listener
            if listener is not None:
                # Whoever listens holds this promise and its request. If the promise held on to it too, all of
                # that would stay until the garbage collector comes.
                self._listener = None
                listener()

    def drop(self) -> None:
        """Nobody wants to know any more."""
        if self._response is None:
            self._is_dropped = True
            self._listener = None

    def outcome(self) -> Response | None:
        """The response, if there is one; None when it was dropped."""
        return self._response

    def listen(self, listener: Callable[[], object]) -> None:
        self._listener = listener


class Parked(Promise[Response]):
    """A response that waits for something to happen; behind it nothing of its connection is decided."""

    __slots__ = ()


# What a handler gives back: an answer to be sent at once; an awaitable, which is parked; a promise, held or
# parked; or None, when the client wants no answer.
Answer: TypeAlias = Response | Awaitable[Response | None] | Promise[Response] | None
Handler: TypeAlias = Callable[["Services", RequestContext, Any], Answer[Any]]
