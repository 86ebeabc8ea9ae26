"""What a decision is: effects as data, carried out by the shard in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from klamm.coordinator.runtime.events import Event
from klamm.coordinator.runtime.timers import Timer, TimerChange
from klamm.protocol.errors import ErrorCode

Record = TypeVar("Record")
Note = TypeVar("Note")


@dataclass(slots=True)
class Context:
    """The input of a decision besides the state: the client, the time, a new id."""

    now_ms: int  # monotonic: deadlines
    timestamp_ms: int  # wall clock: records
    client_id: str = ""
    client_host: str = ""
    fresh_id: str = ""  # never seen before; there when the request may need one
    token: object = None  # identifies the request until it is answered; decisions only pass it on


Reply: TypeAlias = tuple[object, object]  # a token, and the answer to the request behind it


# Not frozen: creating a frozen dataclass is four times slower, and one is created per heartbeat. Keywords
# double the time of such a call: what most requests need comes first, and hot paths give it by position.
@dataclass(slots=True)
class Outcome(Generic[Record, Note]):
    """What a handler decided. The shard appends records, applies notes, sets timers, replies, then goes on.

    A signal is a value that enters the machine as a request does: a due timer, or a next step.
    """

    replies: Sequence[Reply] = ()  # sent when everything the decision depends on is durable

    seen_offset: int | None = None
    """What must be durable before the replies go; None is all that this shard has written."""

    renewed: Timer | None = None  # its period restarts
    notes: Sequence[Note] = ()  # applied to transient state, not logged
    timers: Sequence[TimerChange] = ()
    then: Sequence[object] = ()  # signals decided next, on the result, within the same turn
    records: Sequence[Record] = ()  # appended to the log as one batch, then replayed
    actions: Sequence[object] = ()  # work outside, begun when the replies may go; its result is a signal
    events: Sequence[Event] = ()  # for people; no decision depends on them
    once_durable: Sequence[object] = ()  # signals decided when the records are durable

    if_refused: Callable[[ErrorCode], object] | None = None
    """Makes the signal that is decided, on the state as it was, when the log does not take the records."""

    are_replies_early: bool = False
    """Whether replies go at once: whoever gets them lets nothing be durable before the records."""

    is_awaited: bool = True
    """Whether something waits for the records. If not, they may share the flush of the next ones."""

    are_actions_early: bool = False
    """Whether actions begin at once if the host can ensure that their effects are not durable too early."""

    is_divisible: bool = False
    """Whether the records may be split into several batches, because each is independent."""
