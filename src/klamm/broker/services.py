"""What handlers may use: filled by the assembly, read by every API."""

from __future__ import annotations

import importlib
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple

from klamm.broker.partitions.verification import VerificationStats
from klamm.clock import Clock
from klamm.protocol.lazy_dataclass import dataclass, field

if TYPE_CHECKING:
    from klamm.broker.cluster.following import ClusterFollower
    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.cluster.leader_events import LeaderEvents
    from klamm.broker.cluster.membership import Membership
    from klamm.broker.cluster.peers import Peers
    from klamm.broker.cluster.producer_ids import ProducerIds
    from klamm.broker.cluster.serve_window import ServeWindow
    from klamm.broker.cluster.topics import TopicManager
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.coordinators.events import EventWriter
    from klamm.broker.coordinators.groups import Groups
    from klamm.broker.coordinators.remote import RemoteTransactions
    from klamm.broker.coordinators.transactions import Transactions
    from klamm.broker.metrics.request_meter import RequestMeter
    from klamm.broker.net.throttling import Quotas
    from klamm.broker.partitions.deadlines import Deadlines
    from klamm.broker.partitions.fetch_sessions import FetchSessions
    from klamm.broker.partitions.flusher import Flusher
    from klamm.broker.partitions.markers import MarkerWriter
    from klamm.broker.partitions.registry import PartitionRegistry
    from klamm.broker.partitions.validation import Validation
    from klamm.broker.partitions.verification import TransactionVerifier
    from klamm.broker.routes import RouteTable
    from klamm.broker.security.permissions import Authorizer
    from klamm.broker.upkeep.cleaning import Cleaning
    from klamm.storage.cluster import ClusterStore
    from klamm.storage.log import LogStore

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class RunBlocking(Protocol):
    """Runs functions that block on disk or database outside the event loop; in a simulation, at once."""

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Awaitable[Result]: ...


@dataclass(slots=True)
class Services:
    """Everything a handler may use. The only source of time, random numbers, disk and threads."""

    config: BrokerConfig
    clock: Clock
    random: Random
    loop: AbstractEventLoop  # timers: loop.call_later
    run_blocking: RunBlocking
    sleep: Callable[[float], None]  # seconds; blocks: only for work inside `run_blocking`
    routes: RouteTable
    cluster: ClusterStore  # blocking: through run_blocking
    logs: LogStore
    image: ClusterImage  # the snapshot of `cluster` that hot paths read
    follower: ClusterFollower  # keeps `image` and `partitions` up to date
    topics: TopicManager  # makes all changes of topics and configurations
    partitions: PartitionRegistry
    flusher: Flusher
    markers: MarkerWriter
    producer_ids: ProducerIds
    peers: Peers  # requests to other brokers
    fetch_sessions: FetchSessions
    deadlines: Deadlines  # of requests that wait for a partition
    meter: RequestMeter | None  # counts requests, if metrics are enabled
    validation: Validation  # how thoroughly batches are validated; follows `config`
    authorizer: Authorizer
    verification: VerificationStats = field(default_factory=VerificationStats)
    verifier: TransactionVerifier | None = None  # used in place of `remote`, if set
    quotas: Quotas | None = None  # no throttling
    cleaning: Cleaning | None = None  # compaction, from its first run on
    membership: Membership | None = None  # None: there are no other brokers
    serve_window: ServeWindow | None = None  # None: this broker may always answer
    leader_events: LeaderEvents | None = None  # once the broker has opened its first partitions
    _groups: Groups | None = None
    _transactions: Transactions | None = None
    _events: EventWriter | None = None
    _remote: RemoteTransactions | None = None

    def grace_ms(self) -> int:
        """How long no client may be timed out, because it could not be answered."""
        return 0 if self.serve_window is None else self.serve_window.grace_ms()

    @property
    def groups(self) -> Groups:
        """The group coordinator, made when it is first needed: a broker without groups starts without it."""
        return self._groups if self._groups is not None else self.start_groups()

    def start_groups(self) -> Groups:
        # Imported here: a broker without groups starts without it.
        from klamm.broker.coordinators.groups import Groups  # noqa: PLC0415

        self._groups = Groups(self)
        return self._groups

    @property
    def transactions(self) -> Transactions:
        """The transaction coordinator, made when it is first needed."""
        return self._transactions if self._transactions is not None else self.start_transactions()

    def start_transactions(self) -> Transactions:
        # Imported here: a broker without transactions starts without it.
        from klamm.broker.coordinators.transactions import Transactions  # noqa: PLC0415

        self._transactions = Transactions(self)
        return self._transactions

    @property
    def events(self) -> EventWriter:
        """Writes what coordinators did to `__klamm_events`; one writer keeps the events of all in order."""
        if self._events is None:
            # Imported here: a broker without coordinators starts without it.
            from klamm.broker.coordinators.events import EventWriter  # noqa: PLC0415

            self._events = EventWriter(self)
        return self._events

    @property
    def remote(self) -> RemoteTransactions:
        """Markers and verifications, sent to the brokers that they concern."""
        if self._remote is None:
            # Imported here: a broker without transactions starts without it.
            from klamm.broker.coordinators.remote import RemoteTransactions  # noqa: PLC0415

            self._remote = RemoteTransactions(self)
        return self._remote

    def stop_coordinators(self) -> None:
        """Complete requests that wait in a coordinator, and write the remaining events."""
        if self._transactions is not None:
            self._transactions.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._events is not None:
            self._events.stop()


def load_coordinators() -> None:
    """Import what `Services` imports when it is first needed."""
    for name in ("groups", "transactions", "events", "remote"):
        importlib.import_module(f"klamm.broker.coordinators.{name}")
