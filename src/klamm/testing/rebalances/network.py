"""From a client to the coordinator without sockets and without bytes: messages wait in pipes.

Everything above the network is the client's own: joining, heartbeats, metadata, listeners.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

from klamm.client.runtime import Core
from klamm.errors import DisconnectedError
from klamm.net.metadata import Metadata, MetadataConfig
from klamm.net.network import Address, Link, LinkEvents, Network, NetworkConfig, Node
from klamm.net.tasks import Tasks
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.implied import IMPLIED
from klamm.protocol.schema import message_class, schema_versions

ADDRESS: Final[Address] = ("scripted", 9092)
COORDINATOR_ID: Final = 1
_BROKER: Final = Node("broker", COORDINATOR_ID)
_NEVER_MS: Final = 2**62


class Pipe:
    """One direction of a connection: what is sent arrives in order, unless it is held."""

    __slots__ = ("is_held", "items", "receive")

    def __init__(self, receive: Callable[[Any], None]) -> None:
        self.receive = receive
        self.items: deque[Any] = deque()
        self.is_held = False


class Traffic:
    """All pipes. With a random number generator, which of them delivers next is random."""

    def __init__(self, random: Random | None) -> None:
        self._random = random
        self.busy: deque[Pipe] = deque()  # once for each message that can be delivered

    def send(self, pipe: Pipe, item: Any) -> None:
        pipe.items.append(item)
        if not pipe.is_held:
            self.busy.append(pipe)

    def release(self, pipe: Pipe) -> None:
        """What was held can be delivered."""
        if pipe.is_held:
            pipe.is_held = False
            if pipe.items:
                self.busy.extend([pipe] * len(pipe.items))

    def rotate(self) -> None:
        """Let chance choose which of the pipes is first."""
        busy = self.busy
        if self._random is not None and len(busy) > 1:
            busy.rotate(self._random.randrange(len(busy)))


class Exchange:
    """A request on its way, and its answer. The coordinator identifies the request by it."""

    __slots__ = ("_answered", "call", "number", "request", "response")

    def __init__(self, call: Call, request: Any, answered: Callable[[Exchange], None]) -> None:
        self.call = call
        self.request = request
        self.response: object = None
        self.number = 0  # given by who notes it
        self._answered = answered

    def keep(self, response: object) -> None:
        """The coordinator has answered."""
        self.response = response
        self._answered(self)


class DirectNetwork(Network):
    """One broker, always connected. A request is passed on as the message that it is."""

    def __init__(self, config: NetworkConfig, random: Random, now_ms: int) -> None:
        super().__init__(config, _NoTransport(), random, now_ms)
        self.post: Callable[[Call, Any], None] = lambda _call, _request: None
        self.on_disconnect: Callable[[DisconnectedError], None] = lambda _error: None

    def call(self, node: Node, call: Call) -> None:
        self.event_count += 1  # as `stir` does
        call.version = version = _version(call.api_key, call.max_version)
        request = call.request
        if callable(request):
            request = request(version)
        for name, value in _implied(call.api_key, version):
            setattr(request, name, value)
        self.post(call, request)

    def address_of(self, node: Node) -> Address:
        return ADDRESS

    def least_loaded(self) -> Node:
        return _BROKER

    def disconnect(self, node: Node, reason: str) -> None:
        self.on_disconnect(DisconnectedError(reason))

    def tick(self) -> None:
        """Nothing times out here: every request is answered, or its connection breaks."""


class DirectCore(Core):
    """A client's core on a direct network."""

    network: DirectNetwork

    def __init__(
        self, network: NetworkConfig, metadata: MetadataConfig, *, random: Random, now_ms: int
    ) -> None:
        self.random = random
        self.network = DirectNetwork(network, random, now_ms)
        self.metadata = Metadata(self.network, metadata)
        self.tasks = Tasks(self.network)
        self.components = [self.tasks]

    def tick(self, now_ms: int) -> int | None:
        """As that of a core with sockets, whose connections have deadlines of their own."""
        self.network.now_ms = now_ms
        due_ms = _NEVER_MS
        for component in self.components:
            each_ms = component.tick(now_ms)
            if each_ms is not None and each_ms < due_ms:
                due_ms = each_ms
        metadata_ms = self.metadata.tick(now_ms)  # last: components may have requested it
        if metadata_ms is not None and metadata_ms < due_ms:
            due_ms = metadata_ms
        return None if due_ms == _NEVER_MS else due_ms


@cache
def _version(api_key: ApiKey, max_version: int) -> int:
    return min(schema_versions(api_key)[-1], max_version)


@cache
def _implied(api_key: ApiKey, version: int) -> tuple[tuple[str, bool], ...]:
    """What a request's version implies, as the decoder of a broker sets it."""
    message = message_class(api_key, "request")
    implied = ((name, implies(version)) for name, implies in IMPLIED.get(message.__name__, {}).items())
    usual = message()
    return tuple((name, value) for name, value in implied if value != getattr(usual, name))


class _NoTransport:
    def connect(self, address: Address, events: LinkEvents) -> Link:
        raise AssertionError(f"a direct network does not connect to {address}")


COORDINATOR_APIS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)  # fmt: skip
