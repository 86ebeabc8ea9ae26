"""One partition of an internal topic and its state machine.

load → active → unload. A request is decided, its records are appended and replayed at once, so that the next
request decides on the result, and replies are sent when everything that the decision depends on is durable.
Many requests share one flush. When a flush fails, the log is cut back, waiting requests get a retriable
error and the shard is loaded again: recovery is the start-up path. Only durable data makes it active.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from klamm.coordinator.runtime.dividing import append_in_parts
from klamm.coordinator.runtime.held import Held
from klamm.coordinator.runtime.log import (
    AppendRefusedError,
    CoordinatorLog,
    LogNotLoadedError,
    LogUnavailableError,
)
from klamm.coordinator.runtime.machine import Machine
from klamm.coordinator.runtime.outcome import Context, Outcome, Reply
from klamm.coordinator.runtime.postponed import (
    MAX_POSTPONED,
    PostponedSignal,
    PostponedSignals,
    backoff_ms,
)
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.runtime.timers import Timer, TimerQueue
from klamm.coordinator.runtime.waiting import WaitingRequests
from klamm.protocol.errors import ErrorCode

FLUSH_ERROR: Final = ErrorCode.not_coordinator  # what Kafka makes of a storage error: look again, try again
TOO_LATE: Final = ErrorCode.coordinator_not_available  # a slow disk: retriable
LOADING: Final = ErrorCode.coordinator_load_in_progress

_logger = logging.getLogger(__name__)


class ShardStatus(Enum):
    """The life of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"  # it could not be loaded: not served until that succeeds
    CLOSED = "closed"


ACTIVE: Final = ShardStatus.ACTIVE  # an enum's member is looked up slowly, and this one for every request


class LoadFailure(NamedTuple):
    """Why a shard could not be loaded."""

    offset: int  # everything below was read; -1: nothing
    error: Exception


class Shard:
    """Runs one machine, one input at a time."""

    def __init__(
        self,
        name: str,
        *,
        epoch: int,
        log: CoordinatorLog,
        make_machine: Callable[[], Machine[Any, Any]],
        host: ShardHost,
        patience_ms: int | None = None,  # how long a response waits for the disk; None: without limit
        loading_patience_ms: int = 0,  # how long a request waits until the shard is loaded
    ) -> None:
        self.name = name  # for people: `__consumer_offsets-7`
        self.epoch = epoch
        self.status = ShardStatus.LOADING
        self.machine = make_machine()
        self._make_machine = make_machine
        self._log = log
        self._host = host
        self._timers = TimerQueue()
        self._held: deque[Held] = deque()  # in the order of their offsets
        self._held_until = 0  # the offset of the last one
        self._patience_ms = patience_ms
        self._patience = Timer("answers that wait for the disk")
        self._waiting = WaitingRequests(loading_patience_ms)
        self._postponed = PostponedSignals()
        self._loaded_offset = -1  # everything below is replayed; -1: nothing yet
        self.is_awaiting_flush = False  # loading waits until the log is durable and takes appends
        self._has_tail_to_cut = False  # behind what is durable, after a failed flush
        self.failure: LoadFailure | None = None  # why it could not be loaded the last time
        self._end_offset = 0
        self._durable_offset = 0
        self._has_unawaited = False  # the last append is flushed later, unless something waits for it

    # --- loading and unloading -----------------------------------------------------------------------

    def load_some(self, context: Context, max_bytes: int) -> bool:
        """Replay the next part of the log; True when there is nothing more to do for now.

        Only durable batches are replayed. While the log ends after them it keeps loading: it requests a
        flush and then, when the durable end moved or the flush failed, another turn from its host.
        Any error ends as FAILED, with the reason in `failure`; except LogNotLoadedError, which is raised: its
        host calls again when the log is loaded.
        """
        if self.status is not ShardStatus.LOADING:
            return True
        self.is_awaiting_flush = False
        try:
            if not self._load_part(max_bytes):
                return False
            if not self.is_awaiting_flush:
                self.status = ACTIVE
                self._run(self.machine.loaded(context), context)
        except LogNotLoadedError:
            raise
        except Exception as error:
            self._fail(error)
        while self.status is ACTIVE and self._waiting:
            self.handle(*self._waiting.pop_first(context))
        return True

    def _load_part(self, max_bytes: int) -> bool:
        """Load one part; True when nothing is left that could be loaded now."""
        log = self._log
        if self._has_tail_to_cut:
            log.cut_back()
            self._has_tail_to_cut = False
        durable_offset = log.durable_offset
        if self._loaded_offset > durable_offset:  # replayed records are no longer in the log
            self._forget_all()
        if self._loaded_offset < 0:
            self._loaded_offset = log.start_offset
        if self._loaded_offset < durable_offset:
            batches = log.read(self._loaded_offset, max_bytes)
            if batches:
                self._loaded_offset = self.machine.load(batches)
                return False
        if log.end_offset > durable_offset or log.is_being_repaired:
            self.is_awaiting_flush = True
            log.flush()
            return True
        self._end_offset = durable_offset
        self._read_durable_offset()
        return True

    def _fail(self, error: Exception) -> None:
        self.failure = LoadFailure(self._loaded_offset, error)
        answers = self._dismissed(FLUSH_ERROR)
        self.status = ShardStatus.FAILED
        self._send_all(answers)

    def reload(self) -> None:
        """Try again to load what could not be loaded."""
        if self.status is ShardStatus.FAILED:
            self.status = ShardStatus.LOADING
            self._host.load(self)

    def unload(self, error_code: ErrorCode = ErrorCode.not_coordinator) -> None:
        """Stop: requests that wait are answered with an error, nothing more is accepted."""
        if self.status is not ShardStatus.CLOSED:
            answers = self._dismissed(error_code)
            self.status = ShardStatus.CLOSED
            self._send_all(answers)

    def on_flush_failed(self) -> None:
        """The last appends will never be durable: drop the state, and load the durable log."""
        if self.status is ACTIVE:
            _logger.error("%s: flush failed; the shard is loaded again from its log", self.name)
            self._has_tail_to_cut = True
            try:
                self._log.cut_back()
                self._has_tail_to_cut = False
            except Exception as error:
                _logger.warning("%s: truncating to the last durable offset failed: %s", self.name, error)
            self._rebuild()
        else:
            self._load_on()

    def _load_on(self) -> None:
        """Go on loading, if that waits for a flush."""
        if self.is_awaiting_flush and self.status is ShardStatus.LOADING:
            self.is_awaiting_flush = False
            self._host.load(self)

    def _rebuild(self) -> None:
        answers = self._dismissed(FLUSH_ERROR)
        self.status = ShardStatus.LOADING
        self._host.load(self)
        self._send_all(answers)

    def _dismissed(self, error_code: ErrorCode) -> list[Reply]:
        """Drop all state; returns error responses for the held and parked requests.

        They are sent when the shard is in its new state: a failure to send must not keep it in the old one.
        """
        answers: list[Reply] = []
        machine = self.machine
        try:
            for held in self._held:
                answers += [
                    (token, machine.as_error(response, error_code)) for token, response in held.replies
                ]
            if self.status is ACTIVE:
                answers += machine.unloaded(error_code).replies
            answers += self._refused(self._waiting.pop_all(), error_code)
            answers += self._postponed.refused(machine.error_response, error_code)
        except Exception:
            _logger.exception("%s: failing held requests failed", self.name)
        self._forget_all()
        return answers

    def _forget_all(self) -> None:
        self.machine = self._make_machine()
        self._held = deque()
        self._timers = TimerQueue()
        self._patience = Timer(self._patience.signal)
        self._postponed = PostponedSignals()
        self._loaded_offset = -1
        self._durable_offset = 0  # of the new machine
        self.is_awaiting_flush = False

    def _send_all(self, answers: Sequence[Reply]) -> None:
        for token, response in answers:
            try:
                self._host.send(token, response)
            except Exception:
                _logger.exception("%s: sending a response failed", self.name)

    # --- while it loads ------------------------------------------------------------------------------

    def handle_when_loaded(self, request: object, context: Context) -> None:
        """Decide a request as soon as the shard is loaded; if that takes too long, refuse it."""
        waiting = self._waiting
        if not waiting.patience_ms:
            self._host.send(context.token, self.machine.error_response(request, LOADING))
            return
        if not waiting:
            self._host.wake(context.now_ms + waiting.patience_ms)
        waiting.add(request, context)

    def _refused(self, requests: Sequence[tuple[object, Context]], error_code: ErrorCode) -> list[Reply]:
        error_response = self.machine.error_response
        return [(context.token, error_response(request, error_code)) for request, context in requests]

    # --- working -------------------------------------------------------------------------------------

    def handle(self, request: object, context: Context) -> None:
        """Decide a request and carry out what was decided. The shard is active."""
        try:
            outcome = self.machine.decide(request, context)
        except Exception:
            # Deciding changes nothing, so only this one request is lost.
            _logger.exception("%s: handling %s failed", self.name, type(request).__name__)
            error_code = ErrorCode.unknown_server_error
            self._host.send(context.token, self.machine.error_response(request, error_code))
            return
        try:
            self._run(outcome, context)
        except Exception as error:
            self._start_over(error)
            self._host.send(context.token, self.machine.error_response(request, FLUSH_ERROR))
            return
        if self._postponed:
            self._postponed.note_request(request, context.token)

    def signal(self, signal: object, context: Context) -> None:
        """Process an input without a client, such as the result of an action, like a request."""
        if self.status is not ACTIVE:
            return
        try:
            self._decide(signal, context)
        except Exception as error:
            self._start_over(error)

    def on_durable(self, now: Callable[[], Context]) -> None:
        """The log's durable offset moved: release what waited for it."""
        if self.status is not ACTIVE:
            self._load_on()
            return
        try:
            self._read_durable_offset()
            durable_offset = self._durable_offset
            send = self._host.send
            while self._held:
                held = self._held[0]
                if held.offset > durable_offset:
                    break
                self._held.popleft()
                for token, response in held.replies:
                    send(token, response)
                for action in held.actions:
                    self._host.act(self, action)
                for signal in held.signals:
                    self.signal(signal, now())
        except Exception as error:
            self._start_over(error)

    def on_written_by_others(self, record: object, offset: int) -> None:
        """Another part of the broker appended a record, the marker of a transaction: it counts from now."""
        if self.status is ACTIVE:
            try:
                self.machine.replay((record,), offset)
                self._end_offset = self._log.end_offset
                self._read_durable_offset()
            except Exception as error:
                self._start_over(error)

    @property
    def is_waiting_for_disk(self) -> bool:
        return bool(self._held)

    @property
    def postponed_count(self) -> int:
        """How many signals are to be decided again, because deciding them raised."""
        return len(self._postponed)

    def next_check_ms(self) -> int | None:
        """When `tick` is to be called at the latest; None when nothing is armed."""
        checks = (self._timers.next_check_ms(), self._waiting.next_due_ms())
        return min((check_ms for check_ms in checks if check_ms is not None), default=None)

    def tick(self, context: Context, limit: int = 1_000) -> None:
        """Fire at most `limit` due timers, so that requests are not delayed."""
        if self._waiting:
            self._send_all(self._refused(self._waiting.pop_due(context.now_ms), LOADING))
        for _ in range(limit):
            timer = self._timers.pop_due(context.now_ms)
            if timer is None:
                return
            try:
                if timer is self._patience:
                    self._give_up(context.now_ms)
                else:
                    self._fire(timer, context)
            except Exception as error:
                self._start_over(error)

    def _fire(self, timer: Timer, context: Context) -> None:
        """Decide on a due timer. If that raises it is armed again, so that what it is for still happens."""
        if isinstance(timer, PostponedSignal):
            context = timer.context(context)
        try:
            outcome = self.machine.decide(timer if timer.signal is None else timer.signal, context)
        except Exception as error:
            self._arm_again(timer, context.now_ms, error)
            return
        if timer.failures:
            timer.failures = 0
            if isinstance(timer, PostponedSignal):
                self._postponed.remove(timer)
        self._run(outcome, context)

    def _decide(self, signal: object, context: Context) -> None:
        """Decide a signal and carry out what was decided. If deciding raises, it is done again later."""
        try:
            outcome = self.machine.decide(signal, context)
        except Exception as error:
            timer = self._postponed.known(signal, context)
            if timer is None:
                if len(self._postponed) >= MAX_POSTPONED:
                    raise
                timer = self._postponed.add(signal, context)
            self._arm_again(timer, context.now_ms, error)
            return
        self._run(outcome, context)

    def _arm_again(self, timer: Timer, now_ms: int, error: Exception) -> None:
        delay_ms = backoff_ms(timer.failures)
        timer.failures += 1
        _logger.error(
            "%s: handling %r failed; trying again in %d ms",
            self.name,
            timer if timer.signal is None else timer.signal,
            delay_ms,
            exc_info=error,
        )
        if self._timers.change(timer, now_ms + delay_ms):
            self._host.wake(now_ms + delay_ms)

    def _start_over(self, error: Exception) -> None:
        # Something may have changed and something not: only the log can be believed now.
        if isinstance(error, LogUnavailableError):  # its partition is offline or deleted
            _logger.warning("%s: applying an outcome failed; loading the shard again: %s", self.name, error)
        else:
            _logger.exception("%s: applying an outcome failed; loading the shard again", self.name)
        self._rebuild()

    def _run(self, outcome: Outcome, context: Context) -> None:
        records = outcome.records
        if records:
            append = self._append_divided if outcome.is_divisible else self._append
            try:
                append(records, outcome.is_awaited, context)
            except AppendRefusedError as refused:
                _logger.warning("%s: append of %d records rejected: %s", self.name, len(records), refused)
                if outcome.if_refused is not None:
                    self._decide(outcome.if_refused(refused.error_code), context)
                return
            seen_offset = 0 if outcome.are_replies_early else self._end_offset
        else:
            seen_offset = self._end_offset if outcome.seen_offset is None else outcome.seen_offset
        for note in outcome.notes:
            self.machine.apply(note)
        for timer, due_at_ms in outcome.timers:
            if self._timers.change(timer, due_at_ms) and due_at_ms is not None:
                self._host.wake(due_at_ms)
        renewed = outcome.renewed
        if renewed is not None and self._timers.renew(renewed, context.now_ms):
            self._host.wake(context.now_ms + renewed.period_ms)
        is_durable = seen_offset <= self._durable_offset or (
            # What was appended after something that is not durable is not durable either.
            not (records and self._held) and self.is_durable(seen_offset)
        )
        if is_durable:
            for token, response in outcome.replies:
                self._host.send(token, response)
            for action in outcome.actions:
                self._host.act(self, action)
        elif outcome.replies or outcome.once_durable or outcome.actions:
            self._hold(outcome, seen_offset, context.now_ms)
        for event in outcome.events:
            self._host.tell(event)
        if is_durable:
            for signal in outcome.once_durable:
                self._decide(signal, context)
        for signal in outcome.then:
            self._decide(signal, context)

    def _hold(self, outcome: Outcome, seen_offset: int, now_ms: int) -> None:
        if self._has_unawaited:
            self._has_unawaited = False
            self._log.flush()
        actions = outcome.actions
        if outcome.are_actions_early:
            actions = [each for each in actions if not self._host.act_early(self, each)]
            if not (actions or outcome.replies or outcome.once_durable):
                return
        if self._held and self._held_until > seen_offset:
            seen_offset = self._held_until
        self._held_until = seen_offset
        self._held.append(Held(seen_offset, outcome.replies, outcome.once_durable, actions, now_ms))
        if self._patience.due_at_ms is None:
            self._wait_from(now_ms)

    def _wait_from(self, since_ms: int) -> None:
        if self._patience_ms is not None:
            due_at_ms = since_ms + self._patience_ms
            if self._timers.change(self._patience, due_at_ms):
                self._host.wake(due_at_ms)

    def _give_up(self, now_ms: int) -> None:
        """Answer requests that exceeded the time-out for the disk. Their records may still become durable."""
        assert self._patience_ms is not None
        count = 0
        for held in self._held:
            if held.since_ms + self._patience_ms > now_ms:
                self._wait_from(held.since_ms)
                break
            if held.replies:
                for token, response in held.replies:
                    self._host.send(token, self.machine.as_error(response, TOO_LATE))
                count += len(held.replies)
                held.replies = ()
        if count:
            message = "%s: %d responses exceeded the commit timeout while waiting for fsync"
            _logger.warning(message, self.name, count)

    def is_durable(self, offset: int) -> bool:
        """Whether everything below an offset of its log is durable."""
        if offset > self._durable_offset:
            self._read_durable_offset()  # a shard is not notified of a flush that nothing waited for
        return offset <= self._durable_offset

    def _read_durable_offset(self) -> None:
        durable_offset = self._log.durable_offset
        if durable_offset != self._durable_offset:
            self._durable_offset = durable_offset
            self.machine.durable(durable_offset)

    def _append(self, records: Sequence[Any], is_awaited: bool, context: Context) -> None:
        """Append and replay one batch. Raises AppendRefusedError."""
        machine, timestamp_ms = self.machine, context.timestamp_ms
        batch = machine.encode(records, timestamp_ms)
        offset = self._log.append(
            batch, now_ms=context.now_ms, timestamp_ms=timestamp_ms, is_awaited=is_awaited
        )
        self._has_unawaited = not is_awaited
        self._end_offset = machine.replay(records, offset)

    def _append_divided(self, records: Sequence[Any], is_awaited: bool, context: Context) -> None:
        append_in_parts(records, lambda part: self._append(part, is_awaited, context))
