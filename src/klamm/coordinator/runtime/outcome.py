"""What a decision is: effects as data, carried out by the shard in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from klamm.access.acls import ANONYMOUS, Principal
from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.timers import Timer, TimerChange
from klamm.protocol.errors import ErrorCode


class Context:
    """The input of a decision besides the state: the client, the time, a new id."""

    __slots__ = (
        "client_host", "client_id", "fresh_id", "now_ms", "principal", "timestamp_ms", "token",
    )  # fmt: skip

    def __init__(
        self,
        now_ms: int,  # monotonic: deadlines
        timestamp_ms: int,  # wall clock: records
        client_id: str = "",
        client_host: str = "",
        fresh_id: str = "",  # never seen before; there when the request may need one
        token: object = None,  # identifies the request until it is answered; decisions only pass it on
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.client_id = client_id
        self.client_host = client_host
        self.fresh_id = fresh_id
        self.token = token
        self.principal = principal


Reply: TypeAlias = tuple[object, object]  # a token, and the answer to the request behind it


# One is created per request. Keywords double the time of such a call: what most requests need comes first,
# and hot paths give it by position.
class Outcome:
    """What a handler decided. The shard appends records, applies notes, sets timers, replies, then goes on.

    Records and notes are of its machine's own types: this class is compiled, which a generic one cannot be.
    A signal is a value that enters the machine as a request does: a due timer, or a next step.
    """

    __slots__ = (
        "actions", "are_actions_early", "are_replies_early", "events", "if_refused", "is_awaited",
        "is_divisible", "notes", "once_durable", "records", "renewed", "replies", "seen_offset", "then",
        "timers",
    )  # fmt: skip

    def __init__(
        self,
        replies: Sequence[Reply] = (),  # sent when everything the decision depends on is durable
        # What must be durable before the replies go; None is all that this shard has written.
        seen_offset: int | None = None,
        renewed: Timer | None = None,  # its period restarts
        notes: Sequence[Any] = (),  # applied to transient state, not logged
        timers: Sequence[TimerChange] = (),
        then: Sequence[object] = (),  # signals decided next, on the result, within the same turn
        records: Sequence[Any] = (),  # appended to the log as one batch, then replayed
        actions: Sequence[object] = (),  # work outside, begun when the replies may go; its result is a signal
        events: Sequence[Event] = (),  # for people; no decision depends on them
        once_durable: Sequence[object] = (),  # signals decided when the records are durable
        # Makes the signal that is decided, on the state as it was, when the log does not take the records.
        if_refused: Callable[[ErrorCode], object] | None = None,
        # Whether replies go at once: whoever gets them lets nothing be durable before the records.
        are_replies_early: bool = False,
        # Whether something waits for the records. If not, they may share the flush of the next ones.
        is_awaited: bool = True,
        # Whether actions begin at once if the host can ensure that their effects are not durable too early.
        are_actions_early: bool = False,
        # Whether the records may be split into several batches, because each is independent.
        is_divisible: bool = False,
    ) -> None:
        self.replies = replies
        self.seen_offset = seen_offset
        self.renewed = renewed
        self.notes = notes
        self.timers = timers
        self.then = then
        self.records = records
        self.actions = actions
        self.events = events
        self.once_durable = once_durable
        self.if_refused = if_refused
        self.are_replies_early = are_replies_early
        self.is_awaited = is_awaited
        self.are_actions_early = are_actions_early
        self.is_divisible = is_divisible
