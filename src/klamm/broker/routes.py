"""Which API is served, in which versions, by which module; ApiVersions is derived from this table.

A handler's module is imported when its API is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from klamm.broker.net.context import Handler
from klamm.protocol.api import ApiKey


@dataclass(frozen=True, slots=True)
class Route:
    """One API: `module` in klamm.broker.apis has `handle(services, context, request)`."""

    api_key: ApiKey
    min_version: int
    max_version: int
    module: str
    advertised_min: int | None = None  # told in ApiVersions, where it differs from what is served

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    @property
    def advertised(self) -> tuple[int, int]:
        """The versions that ApiVersions tells."""
        lowest = self.min_version if self.advertised_min is None else self.advertised_min
        return lowest, self.max_version

    def load(self) -> Handler:
        """Import the handler."""
        handler: Handler = importlib.import_module(f"klamm.broker.apis.{self.module}").handle
        return handler


ROUTES: Final[tuple[Route, ...]] = (
    # librdkafka before 2.11.1 looks for version 0 before it compresses with gzip, snappy or lz4.
    Route(ApiKey.PRODUCE, 3, 13, "produce", advertised_min=0),
    Route(ApiKey.FETCH, 4, 17, "fetch"),
    Route(ApiKey.LIST_OFFSETS, 1, 10, "list_offsets"),
    Route(ApiKey.METADATA, 0, 13, "metadata"),
    Route(ApiKey.OFFSET_COMMIT, 2, 10, "offset_commit"),
    Route(ApiKey.OFFSET_FETCH, 1, 10, "offset_fetch"),
    Route(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator"),
    Route(ApiKey.JOIN_GROUP, 0, 9, "join_group"),
    Route(ApiKey.HEARTBEAT, 0, 4, "heartbeat"),
    Route(ApiKey.LEAVE_GROUP, 0, 5, "leave_group"),
    Route(ApiKey.SYNC_GROUP, 0, 5, "sync_group"),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups"),
    Route(ApiKey.LIST_GROUPS, 0, 5, "list_groups"),
    Route(ApiKey.API_VERSIONS, 0, 4, "api_versions"),
    Route(ApiKey.CREATE_TOPICS, 2, 7, "create_topics"),
    Route(ApiKey.DELETE_TOPICS, 1, 6, "delete_topics"),
    Route(ApiKey.DELETE_RECORDS, 0, 2, "delete_records"),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id"),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "offset_for_leader_epoch"),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, "write_txn_markers"),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "txn_offset_commit"),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4, "describe_configs"),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs"),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, "describe_log_dirs"),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions"),
    Route(ApiKey.DELETE_GROUPS, 0, 2, "delete_groups"),
    Route(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders"),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs"),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments"),
    Route(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete"),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, "update_features"),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster"),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers"),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions"),
)


class RouteTable:
    """Routes by key, each handler loaded once."""

    def __init__(self, routes: Iterable[Route] = ROUTES) -> None:
        self.routes = tuple(sorted(routes, key=lambda route: route.api_key))
        self._by_key = {int(route.api_key): route for route in self.routes}
        self._handlers: dict[int, Handler] = {}

    def find(self, api_key: int, version: int) -> Route | None:
        """The route that serves this version, if any does."""
        route = self._by_key.get(api_key)
        return route if route is not None and route.serves(version) else None

    def handler(self, route: Route) -> Handler:
        handler = self._handlers.get(route.api_key)
        if handler is None:
            handler = self._handlers[route.api_key] = route.load()
        return handler
