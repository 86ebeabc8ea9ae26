"""The states of a connection, and what it does in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


class ServingState:
    """One state. The fields are plain: each request looks at them."""

    __slots__ = ("decides", "has_ended", "name", "reads", "sends")

    def __init__(self, name: str, *, reads: bool, decides: bool, sends: bool, has_ended: bool) -> None:
        self.name = name
        self.reads = reads  # takes what the client sends
        self.decides = decides  # gives complete requests to their handlers
        self.sends = sends  # sends responses
        self.has_ended = has_ended  # no further request comes in

    def __repr__(self) -> str:
        return self.name


OPEN: Final = ServingState("OPEN", reads=True, decides=True, sends=True, has_ended=False)
# A client above its quota: responses leave, nothing is read or decided until the throttle time is over.
MUTED: Final = ServingState("MUTED", reads=False, decides=False, sends=True, has_ended=False)
# What follows the last whole frame cannot be read: the requests before it are served.
BROKEN: Final = ServingState("BROKEN", reads=False, decides=True, sends=True, has_ended=False)
# Responses to what is decided leave, then the connection is closed.
CLOSING: Final = ServingState("CLOSING", reads=False, decides=False, sends=True, has_ended=True)
# The client is gone: complete requests that were received are carried out, without responses.
LOST: Final = ServingState("LOST", reads=False, decides=True, sends=False, has_ended=True)
OVER: Final = ServingState("OVER", reads=False, decides=False, sends=False, has_ended=True)

NEXT: Final[Mapping[ServingState, frozenset[ServingState]]] = {
    OPEN: frozenset({MUTED, BROKEN, CLOSING, LOST}),
    MUTED: frozenset({OPEN, BROKEN, CLOSING, LOST}),
    BROKEN: frozenset({MUTED, CLOSING, LOST}),
    CLOSING: frozenset({OVER}),
    LOST: frozenset({OVER}),
    OVER: frozenset(),
}
