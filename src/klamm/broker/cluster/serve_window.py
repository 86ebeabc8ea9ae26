"""When a broker may answer: for a time after each renewal of a lease that others judge by silence.

A process that stood still for longer than its lease does not know it: others lead its partitions and have
acknowledged records that it has never seen. Its appends are fenced by the store, but what it reads is its own
memory. So an answer is sent only if the lease was valid after the answer was decided: then it was valid when
it was decided, too. Else the answer is held until the store has been asked. A renewal that succeeds proves
that this broker had not been replaced, and the answers are sent. If it was replaced, the connections are
closed, and their clients ask the new leaders.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Any, Final, Protocol

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

HOLD_MS: Final = 30_000  # clients wait no longer for a response, with their default settings
GRACE_MS: Final = 4_000  # within which clients ask again: longer than heartbeat.interval.ms
_CHECK_MS: Final = 100

_log = logging.getLogger(__name__)


class HeldAnswer(Protocol):
    """An answer that waits for the lease."""

    def send(self) -> None:
        """The answer is known to be current."""
        ...

    def give_up(self, reason: str) -> None:
        """It is not known, or not in time: close the connection."""
        ...


class ServeWindow:
    """Whether this broker may answer now, and the answers that wait until it may."""

    def __init__(self, loop: AbstractEventLoop, now_ms: Callable[[], int], window_ms: int) -> None:
        """`now_ms` is the lease's clock, which also counts while the process or the machine sleeps."""
        self._loop = loop
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._until_ms = -1
        self._grace_until_ms = -1
        self._held: dict[HeldAnswer, int] = {}  # and since when
        self._timer: TimerHandle | None = None

    @property
    def held_count(self) -> int:
        return len(self._held)

    def is_open(self) -> bool:
        return self._now_ms() < self._until_ms

    def may_send(self, api_key: ApiKey, response: Any) -> bool:
        """Whether a response may leave now."""
        return self._now_ms() < self._until_ms or claims_nothing(api_key, response)

    def grace_ms(self) -> int:
        """How long no client may be timed out: none can be answered, or has had the time to ask again."""
        now_ms = self._now_ms()
        if now_ms >= self._until_ms:
            return _CHECK_MS
        return max(0, self._grace_until_ms - now_ms)

    def hold(self, answer: HeldAnswer) -> None:
        """Send an answer when the lease is renewed."""
        if not self._held:
            _log.warning("the lease is not renewed: responses wait for the cluster store")
        self._held[answer] = self._now_ms()
        if self._timer is None:
            self._timer = self._loop.call_later(HOLD_MS / 1000, self._expire)

    def renewed(self, sent_at_ms: int) -> None:
        """A renewal that was sent at this time has succeeded."""
        now_ms = self._now_ms()
        if 0 <= self._until_ms <= now_ms:
            self._grace_until_ms = now_ms + GRACE_MS
        self._until_ms = sent_at_ms + self._window_ms
        if self._held and self.is_open():
            held = self._end_holding()
            _log.info("the lease is renewed: sending %d responses", len(held))
            for answer in held:
                answer.send()

    def fenced(self) -> None:
        """Another broker may have taken the partitions over: what was decided may be out of date."""
        self._until_ms = self._grace_until_ms = -1
        held = self._end_holding()
        if held:
            _log.warning("%d responses may be out of date: closing their connections", len(held))
        for answer in held:
            answer.give_up("its response may be out of date")

    def _end_holding(self) -> list[HeldAnswer]:
        held, self._held = list(self._held), {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return held

    def _expire(self) -> None:
        """Close the connections of those that waited for too long."""
        self._timer = None
        now_ms = self._now_ms()
        for answer, since_ms in list(self._held.items()):
            if now_ms - since_ms < HOLD_MS:
                break  # those behind it are younger
            del self._held[answer]
            answer.give_up("the cluster store did not respond")
        if self._held:
            oldest_ms = next(iter(self._held.values()))
            self._timer = self._loop.call_later((oldest_ms + HOLD_MS - now_ms) / 1000, self._expire)


def claims_nothing(api_key: ApiKey, response: Any) -> bool:
    """Whether a response only says that the client should ask again: that is always true."""
    if api_key is ApiKey.API_VERSIONS:
        return True
    if api_key is ApiKey.PRODUCE:
        lines = [line for topic in response.responses for line in topic.partition_responses]
    elif api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
        lines = [line for topic in response.topics for line in topic.partitions]
    else:
        lines = [response]
    return bool(lines) and all(_is_retriable(getattr(line, "error_code", 0)) for line in lines)


def _is_retriable(error_code: int) -> bool:
    return bool(error_code) and ErrorCode(error_code).retriable
