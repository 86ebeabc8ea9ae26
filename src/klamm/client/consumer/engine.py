"""A consumer's parts on the client's thread, and the order in which a poll drives them."""

from __future__ import annotations

from klamm.client.admin.calls import Calls, RetryPolicy
from klamm.client.consumer.buffer import FetchBuffer
from klamm.client.consumer.fetching import Fetching
from klamm.client.consumer.inbox import Inbox, Signal
from klamm.client.consumer.positions import Positions
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import SubscriptionState
from klamm.client.runtime import Core


class Engine:
    """Everything but the face. Sans-IO: a component of the core, driven by ticks and by polls.

    Positions, fetches and joins advance only while somebody polls; heartbeats and answers always.
    """

    def __init__(self, core: Core, settings: ConsumerSettings, signal: Signal) -> None:
        self.core = core
        self.settings = settings
        self.state = SubscriptionState()
        self.inbox = Inbox(signal)
        self.buffer = FetchBuffer(self.state, settings)
        self.calls = Calls(
            core,
            RetryPolicy(
                settings.default_api_timeout_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms
            ),
        )
        self.fetching = Fetching(core, settings, self.state, self.buffer, self.inbox)
        self.positions = Positions(core, settings, self.state, self.inbox, None)
        self.is_polling = False  # plain: set by the poller, read here
        self.last_poll_ms = core.now_ms  # plain, as above
        core.components.append(self)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to do but fetching."""
        return self.positions.are_settled

    def on_poll(self) -> None:
        """Do what a poll may set going. Also called when a poll has made room for another fetch."""
        self._advance()

    def tick(self, now_ms: int) -> int | None:
        """Go on with what is due."""
        if not self.is_polling:
            return None
        return self._advance()

    def _advance(self) -> int | None:
        dues = (self.positions.update(), self.fetching.send())
        return min((due for due in dues if due is not None), default=None)
