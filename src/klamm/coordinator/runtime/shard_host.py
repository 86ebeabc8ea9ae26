"""The port through which a shard reaches what runs it; the broker implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from klamm.coordinator.runtime.events import Event

if TYPE_CHECKING:
    from klamm.coordinator.runtime.shard import Shard


class ShardHost(Protocol):
    """What runs shards. None of these may call back into a shard."""

    def send(self, token: Any, response: object) -> None:
        """Answer a request with `token.keep(response)`.

        The first answer to a token counts: after a fault in this process another may follow.
        """
        ...

    def tell(self, event: Event) -> None:
        """Pass an event on."""
        ...

    def act(self, shard: Shard, action: object) -> None:
        """Begin work outside the shard, such as writing to other partitions; its result enters as a signal.

        A reloaded shard lists again, in `Machine.loaded`, what is still to be done: an action may
        begin twice, and the result of the first may come after the second began.
        """
        ...

    def act_early(self, shard: Shard, action: object) -> bool:
        """Begin work whose effects are not durable before what the shard has appended; False: use `act`."""
        ...

    def wake(self, at_ms: int) -> None:
        """Call `tick` at this instant, which is earlier than the one requested before."""
        ...

    def load(self, shard: Shard) -> None:
        """Call the shard's `load_some` until it is True, and `reload` some time after it has failed."""
        ...
