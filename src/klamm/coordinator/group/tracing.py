"""The requests of single groups as they come in, for people: TraceGroups, an API of klamm's own.

A coordinator that traces nothing does nothing for it: the handlers of requests are replaced when the first
group is traced, and put back after the last one. A group is traced for as long as a client asks for what was
seen, and LEASE_MS longer.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.group.trace_facts import (
    TRACED,
    error_of,
    facts_of_answer,
    facts_of_request,
    member_of,
)
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.trace_groups import TracedGroup, TraceGroupsRequest, TraceGroupsResponse

LEASE_MS: Final = 60_000
MOST_ENTRIES: Final = 10_000  # of one group; older ones are dropped, and counted
MOST_GROUPS: Final = 100
MOST_AT_ONCE: Final = 1_000  # entries in one answer
FROM_NOW: Final = -1  # in place of the number of the last entry that a client has
_as_text: Final = json.JSONEncoder(ensure_ascii=False).encode

Entry = dict[str, Any]


@dataclass(slots=True)
class _Traced:
    """One group."""

    asked_at_ms: int
    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))
    numbers: count[int] = field(default_factory=lambda: count(1))
    exchanges: count[int] = field(default_factory=lambda: count(1))
    state: str = ""  # of the group, after the last entry
    is_deciding: bool = False  # what is noted now follows at once from the last request

    def add(self, entry: Entry, state: str) -> Entry:
        """Note it. What follows at once from a request has changed nothing: the request has."""
        before = state if self.is_deciding else self.state
        entry = {"number": next(self.numbers), **entry, "state_before": before, "state_after": state}
        self.state = state
        self.entries.append(entry)
        return entry


class GroupTracing:
    """What is traced in one coordinator."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        topics: TopicDirectory,
        now_ms: Callable[[], int],
        timestamp_ms: Callable[[], int],
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._now_ms = now_ms
        self._timestamp_ms = timestamp_ms
        self._groups: dict[str, _Traced] = {}
        self._untraced: dict[type, Callable[[Any, Context], None]] = {}

    def read(self, request: TraceGroupsRequest) -> TraceGroupsResponse:
        """Trace the groups from now on, and tell what was seen after the entry that the client has."""
        return TraceGroupsResponse(
            groups=[self._read(group_id, request.after) for group_id in request.groups]
        )

    def _read(self, group_id: str, after: int) -> TracedGroup:
        coordinator = self._coordinator
        partition = coordinator.partition_for(group_id)
        shard = coordinator.shards.by_partition.get(partition)
        if shard is None or shard.status is not ACTIVE:
            return TracedGroup(error_code=coordinator.shards.why_not(partition), group_id=group_id)
        self._end_unread()
        traced = self._groups.get(group_id)
        if traced is None:
            if len(self._groups) >= MOST_GROUPS:
                return TracedGroup(
                    error_code=ErrorCode.throttling_quota_exceeded,
                    error_message=f"{MOST_GROUPS} groups are traced already.",
                    group_id=group_id,
                )
            traced = self._groups[group_id] = _Traced(self._now_ms(), state=self._state(group_id))
            self._begin()
        traced.asked_at_ms = self._now_ms()
        entries = traced.entries
        if after == FROM_NOW:
            after = entries[-1]["number"] if entries else 0
        found = [each for each in entries if each["number"] > after][:MOST_AT_ONCE]
        content = {
            "group": group_id,
            "state": self._state(group_id),
            "after": found[-1]["number"] if found else after,
            "lost": found[0]["number"] - after - 1 if found else 0,
            "entries": found,
        }
        return TracedGroup(group_id=group_id, content=_as_text(content).encode())

    # --- on and off ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        handlers = self._coordinator.handlers
        if not self._untraced:
            for kind in TRACED:
                self._untraced[kind] = handlers[kind]
                handlers[kind] = self._handle

    def _end_unread(self) -> None:
        due_ms = self._now_ms() - LEASE_MS
        for group_id in [key for key, each in self._groups.items() if each.asked_at_ms < due_ms]:
            del self._groups[group_id]
        if not self._groups:
            self._coordinator.handlers.update(self._untraced)
            self._untraced.clear()

    # --- what is seen --------------------------------------------------------------------------------

    def _handle(self, request: Any, context: Context) -> None:
        handle = self._untraced[type(request)]
        traced = self._groups.get(request.group_id)
        if traced is None:
            handle(request, context)
            return
        if context.now_ms - traced.asked_at_ms > LEASE_MS:
            self._end_unread()
            handle(request, context)
            return
        entry = traced.add(
            {
                "kind": "request",
                "timestamp_ms": context.timestamp_ms,
                "exchange": next(traced.exchanges),
                "api": TRACED[type(request)],
                "client_id": context.client_id,
                "client_host": context.client_host,
                "member_id": member_of(request),
                "facts": facts_of_request(request, self._topics),
            },
            self._state(request.group_id),
        )
        traced.is_deciding = True
        token = _Token(self, traced, entry, request.group_id, context)
        inner = Context(
            context.now_ms,
            context.timestamp_ms,
            context.client_id,
            context.client_host,
            context.fresh_id,
            token,
            context.principal,
        )
        try:
            handle(request, inner)
        finally:
            traced.is_deciding = False
        entry["state_after"] = traced.state = self._state(request.group_id)

    def answered(self, traced: _Traced, entry: Entry, began_ms: int, group_id: str, response: object) -> None:
        """A traced request is answered."""
        traced.add(
            {
                "kind": "answer",
                "timestamp_ms": self._timestamp_ms(),
                "exchange": entry["exchange"],
                "api": entry["api"],
                "client_id": entry["client_id"],
                "client_host": entry["client_host"],
                "member_id": entry["member_id"],
                "error": error_of(response),
                "facts": facts_of_answer(response, self._topics),
                "took_ms": self._now_ms() - began_ms,
            },
            self._state(group_id),
        )

    def happened(self, event: Event) -> None:
        """The coordinator tells an event, perhaps of a group that is traced."""
        traced = self._groups.get(event.key)
        if traced is not None:
            told = event.as_json()
            traced.add(
                {
                    "kind": "event",
                    "timestamp_ms": event.timestamp_ms,
                    "type": told["type"],
                    "text": event.line(),
                },
                self._state(event.key),
            )

    def found_coordinator(
        self, group_id: str, client_id: str, client_host: str, node_id: int, error: int
    ) -> None:
        """This broker has answered FindCoordinator for a group."""
        traced = self._groups.get(group_id)
        if traced is None:
            return
        state = self._state(group_id)
        common = {
            "timestamp_ms": self._timestamp_ms(),
            "exchange": next(traced.exchanges),
            "api": "FindCoordinator",
            "client_id": client_id,
            "client_host": client_host,
            "member_id": "",
        }
        answer = {
            "error": ErrorCode(error).name.upper(),
            "facts": {"coordinator": node_id},
            "took_ms": 0,
        }
        traced.add({"kind": "request", **common, "facts": {}}, state)
        traced.add({"kind": "answer", **common, **answer}, state)

    def _state(self, group_id: str) -> str:
        coordinator = self._coordinator
        shard = coordinator.shards.by_partition.get(coordinator.partition_for(group_id))
        if shard is None or not isinstance(shard.machine, GroupMachine):
            return "not here"
        group = shard.machine.state.groups.get(group_id)
        return "none" if group is None else group.membership.state_name


class _Token:
    """In place of a request's own token: notes the answer, and passes it on."""

    __slots__ = ("_began_ms", "_entry", "_group_id", "_inner", "_is_noted", "_traced", "_tracing")

    def __init__(
        self, tracing: GroupTracing, traced: _Traced, entry: Entry, group_id: str, context: Context
    ) -> None:
        self._tracing = tracing
        self._traced = traced
        self._entry = entry
        self._group_id = group_id
        self._began_ms = context.now_ms
        self._inner: Any = context.token
        self._is_noted = False

    def keep(self, response: object) -> None:
        if not self._is_noted:  # the first answer counts
            self._is_noted = True
            self._tracing.answered(self._traced, self._entry, self._began_ms, self._group_id, response)
        self._inner.keep(response)
