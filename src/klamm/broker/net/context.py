"""The context of a request, and what a handler may return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from klamm.access.acls import ANONYMOUS, Principal

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.security.permissions import Permission
    from klamm.broker.security.session import LoginSession
    from klamm.broker.services import Services

Response = TypeVar("Response")


@dataclass(slots=True)
class ClientSoftware:
    """What a client reports about itself in ApiVersions: belongs to the connection, not to a request."""

    name: str = ""
    version: str = ""


class Decisions:
    """What an authorizer has decided about one principal at one host; valid while `generation` is its own."""

    __slots__ = ("allowed", "denied", "generation")

    def __init__(self) -> None:
        self.generation: object = None
        self.allowed: set[tuple[Permission, str]] = set()
        self.denied: set[tuple[Permission, str]] = set()


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Where a request comes from. Never changes: a handler may read it after it has waited."""

    client_id: str  # "" when the client gave none
    client_host: str  # as Kafka prints it: "/127.0.0.1"
    listener: str  # the name of the listener that received the request
    software: ClientSoftware
    principal: Principal = ANONYMOUS
    session: LoginSession | None = None  # of a connection that logged in
    # What this connection may have written to without waiting for the disk; shared by its contexts.
    written: dict[Partition, None] = field(default_factory=dict, compare=False)
    decisions: Decisions = field(default_factory=Decisions, compare=False)

    # `dataclasses.replace` takes three times as long.

    def at_host(self, client_host: str) -> RequestContext:
        """The same from this host."""
        return RequestContext(
            self.client_id,
            client_host,
            self.listener,
            self.software,
            self.principal,
            self.session,
            self.written,
        )

    def of_client(self, client_id: str) -> RequestContext:
        """The same under this client id."""
        return RequestContext(
            client_id,
            self.client_host,
            self.listener,
            self.software,
            self.principal,
            self.session,
            self.written,
            self.decisions,
        )

    def logged_in(self, principal: Principal, session: LoginSession | None) -> RequestContext:
        """The same after a login, which nothing has been decided about."""
        return RequestContext(
            self.client_id,
            self.client_host,
            self.listener,
            self.software,
            principal,
            session,
            self.written,
        )


class CloseConnectionError(Exception):
    """Raised by a handler where the protocol has no error response: the connection is closed and logged."""


class HeldResponse(Generic[Response]):
    """A response that waits for the disk; it has one listener, called as soon as it is complete.

    The request is decided. Later requests of its connection need not wait with it: five produces share one
    flush.

    What a Future does beyond that (callbacks in a later turn of the loop, awaiting) costs more than deciding
    a small produce. The listener is called in the middle of other work: it may queue the response, and must
    leave everything else for later.
    """

    __slots__ = ("is_done", "listener", "response")

    is_parked: ClassVar = False

    def __init__(self) -> None:
        self.listener: Callable[[], object] | None = None
        self.response: Response | None = None  # None before it is complete, and when it was dropped
        self.is_done = False

    def keep(self, response: Response | None) -> None:
        """Here is the response, None if the client gets none. Later calls are ignored."""
        if not self.is_done:
            self.is_done = True
            self.response = response
            listener = self.listener
            if listener is not None:
                # The listener references this object. Keeping it here as well would be a reference cycle,
                # which only the garbage collector frees.
                self.listener = None
                listener()

    def drop(self) -> None:
        """The response is not needed any more."""
        self.is_done = True
        self.listener = None


class ParkedResponse(HeldResponse[Response]):
    """A response that waits for an event; behind it nothing of its connection is decided."""

    __slots__ = ()

    is_parked = True


# What a handler returns: a response to send at once; an awaitable, which is parked; a held or parked
# response; or None, when the client expects no response.
HandlerResult: TypeAlias = Response | Awaitable[Response | None] | HeldResponse[Response] | None
Handler: TypeAlias = Callable[["Services", RequestContext, Any], HandlerResult[Any]]
