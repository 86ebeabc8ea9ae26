"""Automatic commits, inside poll: records that earlier polls returned count as processed."""

from __future__ import annotations

import logging
from typing import Final

from klamm.client.consumer.offsets.commits import Commits
from klamm.client.consumer.offsets.to_commit import consumed
from klamm.client.consumer.polling.hosts import ConsumerHost
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.client.runtime import Core
from klamm.errors import KlammError
from klamm.net.tasks import Promise

log = logging.getLogger(__name__)

NEVER: Final = 2**63 - 1


class AutoCommit:
    """The timer. Positions are read in the poller's thread, before it returns more records."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        commits: Commits,
        inbox: Inbox,
        host: ConsumerHost,
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._commits = commits
        self._inbox = inbox
        self._clock = host.clock
        self._submit = host.submit
        self.due_at_ms = NEVER  # plain: set here and by the client's thread
        self.restart()

    def restart(self) -> None:
        if self._settings.is_auto_commit:
            self.due_at_ms = self._clock.now_ms() + self._settings.auto_commit_interval_ms

    def run_if_due(self, now_ms: int) -> None:
        """Send a commit off if it is time."""
        if now_ms < self.due_at_ms:
            return
        self.restart()
        with self._state.lock:
            to_commit = consumed(self._state)
        if to_commit:
            self._submit(
                lambda: self._core.tasks.spawn(self._commits.commit_once(to_commit)).when_done(self._done)
            )

    def _done(self, promise: Promise[None]) -> None:
        error = promise.error
        if error is None:
            return
        log.info("group %s: commit failed: %s", self._settings.group_id, error)
        if isinstance(error, KlammError) and error.retriable:
            self.due_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
            self._inbox.signal.set()  # a waiting poll wakes up then
