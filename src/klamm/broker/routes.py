"""The APIs that this broker serves: versions and handler of each one.

What each one needs is in `security.table`. ApiVersions is derived from this table. A handler's module is
imported when its API is first requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.cluster.internal_topics import GROUPS, TRANSACTIONS, CoordinatorRow
from klamm.broker.net.context import Handler, HandlerResult, ParkedResponse, RequestContext
from klamm.protocol.api import ApiKey

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.coordinators.host import CoordinatorHost
    from klamm.broker.services import Services


@dataclass(frozen=True, slots=True)
class Route:
    """One API.

    Served by `handle(services, context, request)` of a module in klamm.broker.apis, named after the API, or
    by a coordinator that gets the request as it is.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    coordinator: CoordinatorRow | None = None  # that handles it; None when a module does
    # The coordinator's response may wait for other clients, or is decided in several turns of the loop: what
    # comes behind it must not be decided before.
    parks: bool = False
    names_members: bool = False  # the coordinator gets an id for a member that has none
    # May be decided while responses before it wait for the disk. Others find the disk as the requests before
    # them left it, and their responses do not pile up behind one that waits.
    overlaps: bool = False
    streams: bool = False  # responses may hold megabytes: they are sent in parts, without a copy
    repeats: bool = False  # the same response object, which is never changed, is often sent again
    advertised_min: int | None = None  # in ApiVersions, where it differs from what is served

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    @property
    def advertised(self) -> tuple[int, int]:
        """The versions in ApiVersions."""
        lowest = self.min_version if self.advertised_min is None else self.advertised_min
        return lowest, self.max_version

    def load(self) -> Handler:
        """The handler; imports its module."""
        if self.coordinator is not None:
            return forward(self.coordinator, parks=self.parks, names_members=self.names_members)
        handler: Handler = importlib.import_module(f"klamm.broker.apis.{self.api_key.name.lower()}").handle
        return handler


def forward(coordinator: CoordinatorRow, *, parks: bool, names_members: bool) -> Handler:
    """A handler that has a coordinator decide requests as they are."""
    last: Services | None = None
    host: CoordinatorHost[Any] | None = None

    def handle(services: Services, context: RequestContext, request: Any) -> HandlerResult[Any]:
        nonlocal host, last
        if host is None or services is not last:
            last, host = services, services.coordinator(coordinator)
        if not (parks or names_members):
            return host.ask(request, context)
        fresh_id = next(host.fresh_ids) if names_members and not request.member_id else ""
        return host.ask(request, context, ParkedResponse() if parks else None, fresh_id)

    return handle


ROUTES: Final[tuple[Route, ...]] = (
    # librdkafka before 2.11.1 looks for version 0 before it compresses with gzip, snappy or lz4.
    Route(ApiKey.PRODUCE, 3, 13, overlaps=True, advertised_min=0),
    Route(ApiKey.FETCH, 4, 18, streams=True),
    Route(ApiKey.LIST_OFFSETS, 1, 11),
    Route(ApiKey.METADATA, 0, 13),
    Route(ApiKey.OFFSET_COMMIT, 2, 10, GROUPS, overlaps=True, repeats=True),
    Route(ApiKey.OFFSET_FETCH, 1, 10, GROUPS, parks=True),
    Route(ApiKey.FIND_COORDINATOR, 0, 6),
    Route(ApiKey.JOIN_GROUP, 0, 9, GROUPS, parks=True, names_members=True, overlaps=True),
    Route(ApiKey.HEARTBEAT, 0, 4, GROUPS, overlaps=True, repeats=True),
    Route(ApiKey.LEAVE_GROUP, 0, 5, GROUPS, overlaps=True),
    Route(ApiKey.SYNC_GROUP, 0, 5, GROUPS, parks=True, overlaps=True),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Route(ApiKey.LIST_GROUPS, 0, 5, GROUPS, parks=True),
    Route(ApiKey.API_VERSIONS, 0, 4),
    Route(ApiKey.CREATE_TOPICS, 2, 7),
    Route(ApiKey.DELETE_TOPICS, 1, 6),
    Route(ApiKey.DELETE_RECORDS, 0, 2),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, TRANSACTIONS, overlaps=True),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, TRANSACTIONS, overlaps=True),
    Route(ApiKey.END_TXN, 0, 5, TRANSACTIONS, overlaps=True),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, overlaps=True),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5, overlaps=True),
    Route(ApiKey.DESCRIBE_ACLS, 1, 3),
    Route(ApiKey.CREATE_ACLS, 1, 3),
    Route(ApiKey.DELETE_ACLS, 1, 3),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Route(ApiKey.ALTER_CONFIGS, 0, 2),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3),
    Route(ApiKey.DELETE_GROUPS, 0, 2, GROUPS, parks=True),
    Route(ApiKey.ELECT_LEADERS, 0, 2),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    Route(ApiKey.OFFSET_DELETE, 0, 0, GROUPS),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    Route(ApiKey.UPDATE_FEATURES, 0, 2),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, TRANSACTIONS, parks=True),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, TRANSACTIONS, parks=True),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, GROUPS, names_members=True, overlaps=True),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    Route(ApiKey.INSPECT_GROUPS, 0, 0, GROUPS, parks=True),
    Route(ApiKey.TRACE_GROUPS, 0, 0),
    Route(ApiKey.INSPECT_TRANSACTIONS, 0, 0),
)


# Served before a login, too. Requests of other connections are refused.
SASL_ROUTES: Final = (Route(ApiKey.SASL_HANDSHAKE, 0, 1), Route(ApiKey.SASL_AUTHENTICATE, 0, 2))


def routes_for(config: BrokerConfig) -> Iterable[Route]:
    """The routes of a broker with these settings: two-phase commit (KIP-939) has a version of its own."""
    has_sasl = any(each.has_sasl for each in config.listener_values.values())
    routes = (*ROUTES, *SASL_ROUTES) if has_sasl else ROUTES
    if not config.transaction_two_phase_commit_enable:
        return routes
    return [
        replace(route, max_version=6) if route.api_key is ApiKey.INIT_PRODUCER_ID else route
        for route in routes
    ]


class RouteTable:
    """Routes by key; each handler is loaded once."""

    def __init__(self, routes: Iterable[Route] = ROUTES, *, is_open: bool = True) -> None:
        """`is_open`: everything is allowed, so no request is authorized."""
        self._is_open = is_open
        self.routes = tuple(sorted(routes, key=lambda route: route.api_key))
        self._by_key = {int(route.api_key): route for route in self.routes}
        self._handlers: dict[int, Handler] = {}
        # As the first two bytes of a request.
        self.overlapping = frozenset(
            int(route.api_key).to_bytes(2, "big") for route in self.routes if route.overlaps
        )

    def get(self, api_key: ApiKey) -> Route:
        return self._by_key[api_key]

    def find(self, api_key: int, version: int) -> Route | None:
        """The route that serves this version; None when it is not served."""
        route = self._by_key.get(api_key)
        return route if route is not None and route.serves(version) else None

    def handler(self, route: Route) -> Handler:
        handler = self._handlers.get(route.api_key)
        if handler is None:
            handler = route.load()
            if not self._is_open:
                # Imported here: a broker without access control starts without it.
                from klamm.broker.security.guard import guarded  # noqa: PLC0415
                from klamm.broker.security.table import RULES  # noqa: PLC0415

                handler = guarded(handler, RULES[route.api_key])
            self._handlers[route.api_key] = handler
        return handler
