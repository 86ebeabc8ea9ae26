"""The APIs that this broker serves: versions, handler, and the permissions each one needs.

ApiVersions is derived from this table. A handler's module is imported when its API is first requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.net.context import Handler, HandlerResult, RequestContext
from klamm.broker.security.permissions import AclOperation, Permission, ResourceType
from klamm.protocol.api import ApiKey
from klamm.protocol.lazy_dataclass import dataclass, replace

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.services import Services

READ_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.READ)
WRITE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.WRITE)
CREATE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.CREATE)
DELETE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.DELETE)
ALTER_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.ALTER)
DESCRIBE_TOPIC: Final = Permission(ResourceType.TOPIC, AclOperation.DESCRIBE)
DESCRIBE_TOPIC_CONFIGS: Final = Permission(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS)
ALTER_TOPIC_CONFIGS: Final = Permission(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS)
READ_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.READ)
DELETE_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.DELETE)
DESCRIBE_GROUP: Final = Permission(ResourceType.GROUP, AclOperation.DESCRIBE)
WRITE_TRANSACTIONAL_ID: Final = Permission(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE)
ALTER_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.ALTER)
CREATE_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.CREATE)
DESCRIBE_CLUSTER: Final = Permission(ResourceType.CLUSTER, AclOperation.DESCRIBE)
DESCRIBE_CLUSTER_CONFIGS: Final = Permission(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS)
ALTER_CLUSTER_CONFIGS: Final = Permission(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS)
IDEMPOTENT_WRITE: Final = Permission(ResourceType.CLUSTER, AclOperation.IDEMPOTENT_WRITE)

GROUPS: Final = "groups"  # the coordinator of that name in Services
TRANSACTIONS: Final = "transactions"


@dataclass(frozen=True, slots=True)
class Route:
    """One API.

    Served by `handle(services, context, request)` of a module in klamm.broker.apis, named after the API, or
    by a coordinator that gets the request as it is.
    """

    api_key: ApiKey
    min_version: int
    max_version: int
    needs: tuple[Permission, ...] = ()  # for each resource that a request names; none: always allowed
    coordinator: str = ""  # the field of Services that handles it; "" when a module does
    method: str = "ask"  # of the coordinator
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
        if self.coordinator:
            return forward(self.coordinator, self.method)
        handler: Handler = importlib.import_module(f"klamm.broker.apis.{self.api_key.name.lower()}").handle
        return handler


def forward(coordinator: str, method: str) -> Handler:
    """A handler that passes requests to a coordinator as they are."""
    last: Services | None = None
    ask: Callable[[Any, RequestContext], HandlerResult[Any]] | None = None

    def handle(services: Services, context: RequestContext, request: Any) -> HandlerResult[Any]:
        nonlocal ask, last
        if ask is None or services is not last:
            last, ask = services, getattr(getattr(services, coordinator), method)
        return ask(request, context)

    return handle


ROUTES: Final[tuple[Route, ...]] = (
    # librdkafka before 2.11.1 looks for version 0 before it compresses with gzip, snappy or lz4.
    Route(ApiKey.PRODUCE, 3, 13, (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID), overlaps=True, advertised_min=0),
    Route(ApiKey.FETCH, 4, 18, (READ_TOPIC,), streams=True),
    Route(ApiKey.LIST_OFFSETS, 1, 11, (DESCRIBE_TOPIC,)),
    Route(ApiKey.METADATA, 0, 13, (DESCRIBE_TOPIC, CREATE_TOPIC)),
    Route(ApiKey.OFFSET_COMMIT, 2, 10, (READ_GROUP, READ_TOPIC), GROUPS, overlaps=True, repeats=True),
    Route(ApiKey.OFFSET_FETCH, 1, 10, (DESCRIBE_GROUP, DESCRIBE_TOPIC), GROUPS),
    Route(ApiKey.FIND_COORDINATOR, 0, 6, (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID)),
    Route(ApiKey.JOIN_GROUP, 0, 9, (READ_GROUP,), GROUPS, "join", overlaps=True),
    Route(ApiKey.HEARTBEAT, 0, 4, (READ_GROUP,), GROUPS, overlaps=True, repeats=True),
    Route(ApiKey.LEAVE_GROUP, 0, 5, (READ_GROUP,), GROUPS, overlaps=True),
    Route(ApiKey.SYNC_GROUP, 0, 5, (READ_GROUP,), GROUPS, "ask_parked", overlaps=True),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6, (DESCRIBE_GROUP,)),
    Route(ApiKey.LIST_GROUPS, 0, 5, (DESCRIBE_GROUP, DESCRIBE_CLUSTER), GROUPS),
    Route(ApiKey.API_VERSIONS, 0, 4),
    Route(ApiKey.CREATE_TOPICS, 2, 7, (CREATE_TOPIC, CREATE_CLUSTER)),
    Route(ApiKey.DELETE_TOPICS, 1, 6, (DELETE_TOPIC,)),
    Route(ApiKey.DELETE_RECORDS, 0, 2, (DELETE_TOPIC,)),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE)),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, (DESCRIBE_TOPIC,)),
    Route(
        ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC), TRANSACTIONS, overlaps=True
    ),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, (WRITE_TRANSACTIONAL_ID, READ_GROUP), TRANSACTIONS, overlaps=True),
    Route(ApiKey.END_TXN, 0, 5, (WRITE_TRANSACTIONAL_ID,), TRANSACTIONS, overlaps=True),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, (ALTER_CLUSTER,), overlaps=True),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5, (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC), overlaps=True),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4, (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS)),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS)),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, (DESCRIBE_CLUSTER,)),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, (ALTER_TOPIC,)),
    Route(ApiKey.DELETE_GROUPS, 0, 2, (DELETE_GROUP,), GROUPS),
    Route(ApiKey.ELECT_LEADERS, 0, 2, (ALTER_CLUSTER,)),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS)),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, (ALTER_CLUSTER,)),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, (DESCRIBE_CLUSTER,)),
    Route(ApiKey.OFFSET_DELETE, 0, 0, (DELETE_GROUP, READ_TOPIC), GROUPS),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, (ALTER_CLUSTER,)),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, (DESCRIBE_CLUSTER,)),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, (READ_TOPIC,)),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, (DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC), TRANSACTIONS),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, (DESCRIBE_TRANSACTIONAL_ID,), TRANSACTIONS),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, (DESCRIBE_CLUSTER_CONFIGS,)),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, (DESCRIBE_TOPIC,)),
)


def routes_for(config: BrokerConfig) -> Iterable[Route]:
    """The routes of a broker with these settings: two-phase commit (KIP-939) has a version of its own."""
    if not config.transaction_two_phase_commit_enable:
        return ROUTES
    return [
        replace(route, max_version=6) if route.api_key is ApiKey.INIT_PRODUCER_ID else route
        for route in ROUTES
    ]


class RouteTable:
    """Routes by key; each handler is loaded once."""

    def __init__(self, routes: Iterable[Route] = ROUTES) -> None:
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
            handler = self._handlers[route.api_key] = route.load()
        return handler
