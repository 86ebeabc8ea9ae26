"""The last requests of a scripted group and their answers, kept as they are and put into words when read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from klamm.coordinator.group.trace_facts import TRACED, error_of, facts_of_answer, facts_of_request, member_of
from klamm.groups.sequence import Entry
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest

if TYPE_CHECKING:
    from klamm.coordinator.runtime.events import Event
    from klamm.testing.rebalances.coordinator import ScriptedTopics
    from klamm.testing.rebalances.network import Exchange

MOST: Final = 10_000  # requests and answers
NOTED: Final = frozenset({*TRACED, FindCoordinatorRequest})


class _Seen:
    """A request, its answer, or an event. Not the exchange: that knows its member, which may have ended."""

    __slots__ = ("after", "at_ms", "before", "line", "name", "number", "request", "response")

    def __init__(self, line: int, at_ms: int, name: str, before: str, after: str) -> None:
        self.line = line  # lines of the history before it
        self.at_ms = at_ms
        self.name = name
        self.number = 0  # of the exchange; 0: an event
        self.request: Any = None
        self.response: Any = None  # None: a request
        self.before = before  # the state of the group
        self.after = after


class RequestLog:
    """Requests that the coordinator has decided, and when it answered."""

    def __init__(self, topics: ScriptedTopics) -> None:
        self._topics = topics
        self._seen: deque[_Seen] = deque(maxlen=MOST)
        self._numbers = count(1)
        self._deciding: _Seen | None = None
        self._state = "none"

    def requested(self, line: int, at_ms: int, name: str, exchange: Exchange) -> None:
        """The coordinator begins to decide; `decided` follows."""
        if type(exchange.request) in NOTED:
            exchange.number = next(self._numbers)
            seen = self._deciding = _Seen(line, at_ms, name, self._state, self._state)
            seen.number, seen.request = exchange.number, exchange.request
            self._seen.append(seen)

    def decided(self, state: str) -> None:
        """The last request is decided: it has changed the state."""
        if self._deciding is not None:
            self._deciding.after = self._state = state
            self._deciding = None

    def answered(self, line: int, at_ms: int, name: str, exchange: Exchange, state: str) -> None:
        """A request is answered, at once or because of what has happened since."""
        if type(exchange.request) in NOTED:
            seen = self._note(line, at_ms, name, state)
            seen.number, seen.request, seen.response = exchange.number, exchange.request, exchange.response

    def happened(self, line: int, at_ms: int, event: Event, state: str) -> None:
        """The coordinator has told an event."""
        self._note(line, at_ms, "", state).request = event

    def _note(self, line: int, at_ms: int, name: str, state: str) -> _Seen:
        seen = _Seen(line, at_ms, name, self._state if self._deciding is None else state, state)
        self._seen.append(seen)
        self._state = state
        return seen

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Each with the number of lines of the history before it, in the form of a trace."""
        began_ms: dict[int, int] = {}
        for seen in self._seen:
            yield seen.line, self._entry(seen, seen.at_ms - began_ms.setdefault(seen.number, seen.at_ms))

    def _entry(self, seen: _Seen, took_ms: int) -> dict[str, Any]:
        request, response = seen.request, seen.response
        if not seen.number:
            return {
                "kind": "event",
                "timestamp_ms": seen.at_ms,
                "type": request.as_json()["type"],
                "text": request.line(),
                "state_before": seen.before,
                "state_after": seen.after,
            }
        is_search = isinstance(request, FindCoordinatorRequest)
        entry = {
            "kind": "request" if response is None else "answer",
            "timestamp_ms": seen.at_ms,
            "exchange": seen.number,
            "api": "FindCoordinator" if is_search else TRACED[type(request)],
            "client_id": seen.name,
            "member_id": "" if is_search else member_of(request),
            "state_before": seen.before,
            "state_after": seen.after,
        }
        if response is None:
            return {**entry, "facts": {} if is_search else facts_of_request(request, self._topics)}
        facts = {"coordinator": 1} if is_search else facts_of_answer(response, self._topics)
        return {
            **entry,
            "error": "NONE" if is_search else error_of(response),
            "facts": facts,
            "took_ms": took_ms,
        }
