"""What handlers may use: filled by the assembly, read by every API."""

from __future__ import annotations

import importlib
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

from klamm.broker.cluster.internal_topics import COORDINATORS, GROUPS, TRANSACTIONS, CoordinatorRow
from klamm.broker.partitions.verification import VerificationStats
from klamm.clock import Clock

if TYPE_CHECKING:
    from klamm.broker.cluster.following import ClusterFollower
    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.cluster.leader_events import LeaderEvents
    from klamm.broker.cluster.membership import BrokerMembership
    from klamm.broker.cluster.peers import Peers
    from klamm.broker.cluster.producer_ids import ProducerIds
    from klamm.broker.cluster.serve_window import ServeWindow
    from klamm.broker.cluster.topics import TopicManager
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.coordinators.events import EventWriter
    from klamm.broker.coordinators.groups import Groups
    from klamm.broker.coordinators.host import CoordinatorHost
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
    from klamm.broker.security.credentials import ScramCredentials
    from klamm.broker.security.listener_security import ListenerSecurity
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
    verifier: TransactionVerifier | None = None  # used in place of `transactions`, if set
    quotas: Quotas | None = None  # no throttling
    scram: ScramCredentials | None = None  # of users in the cluster store
    listener_securities: dict[str, ListenerSecurity] = field(default_factory=dict)  # of those not plain
    cleaning: Cleaning | None = None  # compaction, from its first run on
    membership: BrokerMembership | None = None  # None: there are no other brokers
    serve_window: ServeWindow | None = None  # None: this broker may always answer
    leader_events: LeaderEvents | None = None  # once the broker has opened its first partitions
    coordinators: dict[str, CoordinatorHost[Any]] = field(default_factory=dict)  # those that are running
    _events: EventWriter | None = None
    _remote: RemoteTransactions | None = None

    def grace_ms(self) -> int:
        """How long no client may be timed out, because it could not be answered."""
        return 0 if self.serve_window is None else self.serve_window.grace_ms()

    def coordinator(self, row: CoordinatorRow) -> CoordinatorHost[Any]:
        """A coordinator, made when it is first needed: a broker without groups starts without theirs."""
        host = self.coordinators.get(row.name)
        if host is None:
            module, name = row.host.split(":")
            host = self.coordinators[row.name] = getattr(importlib.import_module(module), name)(self)
        return host

    @property
    def groups(self) -> Groups:
        """The group coordinator."""
        host: Groups = self.coordinator(GROUPS)  # type: ignore[assignment]  # the row names its class
        return host

    @property
    def transactions(self) -> Transactions:
        """The transaction coordinator."""
        host: Transactions = self.coordinator(TRANSACTIONS)  # type: ignore[assignment]  # as above
        return host

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
        """Markers and verifications that concern other brokers."""
        if self._remote is None:
            # Imported here: a broker alone needs none.
            from klamm.broker.coordinators.remote import RemoteTransactions  # noqa: PLC0415

            self._remote = RemoteTransactions(self.peers)
        return self._remote

    def stop_coordinators(self) -> None:
        """Complete requests that wait in a coordinator, and write the remaining events."""
        for row in reversed(COORDINATORS):
            host = self.coordinators.get(row.name)
            if host is not None:
                host.stop()
        if self._events is not None:
            self._events.stop()


def load_coordinators() -> None:
    """Import what `Services` imports when it is first needed."""
    modules = [row.host.partition(":")[0] for row in COORDINATORS]
    for name in (*modules, "klamm.broker.coordinators.events", "klamm.broker.coordinators.remote"):
        importlib.import_module(name)
