"""Which requests a fault is for: by API, version, topic, partition, client id, group, transactional id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from klamm.broker.net.context import RequestContext
from klamm.broker.net.dispatch import Endpoint
from klamm.broker.services import Services
from klamm.protocol.api import ApiKey
from klamm.protocol.schema import schema_versions
from klamm.protocol.types import ZERO_ID

APIS: Final = {"".join(map(str.title, key.name.split("_"))): key for key in ApiKey}

_GROUP_APIS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT,
    }
)  # fmt: skip
_TRANSACTION_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_TRANSACTIONS,
    }
)  # fmt: skip
_TOPIC_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT, ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_PRODUCERS,
    }
)  # fmt: skip
_PARTITION_APIS: Final = _TOPIC_APIS - {
    ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}  # fmt: skip


def api_named(name: str) -> ApiKey:
    """The API of a name such as OffsetCommit. Raises ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"invalid API {name!r}: expected a name as in 'OffsetCommit'")
    found = APIS.get(name)
    if found is None:
        near = get_close_matches(name, APIS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(APIS)}"
        raise ValueError(f"unknown API {name!r}: {hint}")
    return found


def api_name(key: ApiKey) -> str:
    """The name of an API, as in OffsetCommit."""
    return next(name for name, each in APIS.items() if each is key)


@dataclass(frozen=True, slots=True)
class Selection:
    """Requests that match everything that is not None."""

    api_key: ApiKey | None = None
    version: int | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        for name, given, allowed in (
            ("topic", self.topic, _TOPIC_APIS),
            ("partition", self.partition, _PARTITION_APIS),
            ("group", self.group, _GROUP_APIS),
            ("transactional_id", self.transactional_id, _TRANSACTION_APIS),
        ):
            if given is not None and self.api_key is not None and self.api_key not in allowed:
                named = ", ".join(sorted(label for label, key in APIS.items() if key in allowed))
                raise ValueError(f"{self._api_name} requests have no {name}: expected one of {named}")
        for name, given in (("version", self.version), ("partition", self.partition)):
            if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
                raise ValueError(f"invalid {name} {given!r}: expected a number from 0 on")
        if self.version is not None and self.api_key is not None:
            versions = schema_versions(self.api_key)
            if self.version not in versions:
                known = f"{versions[0]} to {versions[-1]}"
                raise ValueError(f"{self._api_name} has no version {self.version}: expected one from {known}")
        for name, text in (
            ("topic", self.topic),
            ("client_id", self.client_id),
            ("group", self.group),
            ("transactional_id", self.transactional_id),
        ):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"invalid {name} {text!r}: expected text")
        if self.partition is not None and self.topic is None:
            raise ValueError(f"partition={self.partition} without a topic: add topic=...")

    @property
    def _api_name(self) -> str:
        return "every request" if self.api_key is None else api_name(self.api_key)

    @property
    def selectors(self) -> str:
        """What was given besides the API and its version."""
        names = ("topic", "partition", "client_id", "group", "transactional_id")
        return " ".join(f"{name}={getattr(self, name)}" for name in names if getattr(self, name) is not None)

    def __str__(self) -> str:
        version = "" if self.version is None else f" v{self.version}"
        return f"{self._api_name}{version} {self.selectors}".rstrip()

    def covers(self, services: Services, endpoint: Endpoint, context: RequestContext, request: Any) -> bool:
        """Whether a request is one of these."""
        if self.api_key is not None and endpoint.api_key is not self.api_key:
            return False
        if self.version is not None and endpoint.version != self.version:
            return False
        if self.client_id is not None and context.client_id != self.client_id:
            return False
        if self.group is not None and self.group not in _groups(request):
            return False
        if self.transactional_id is not None and self.transactional_id not in _transactional_ids(request):
            return False
        if self.topic is None:
            return True
        return any(
            topic == self.topic and (self.partition is None or self.partition in partitions)
            for topic, partitions in _topics(services, request)
        )


def subject(request: Any) -> str:
    """What a request is about, as events are keyed: a group or a transactional id, or nothing."""
    return next((each for each in (*_groups(request), *_transactional_ids(request)) if each), "")


def _groups(request: Any) -> Iterator[str]:
    if hasattr(request, "key_type"):  # FindCoordinator
        if request.key_type == 0:
            yield from (getattr(request, "key", ""), *(getattr(request, "coordinator_keys", None) or ()))
        return
    if isinstance(found := getattr(request, "group_id", None), str):
        yield found
    for name in ("groups", "groups_names"):
        for item in getattr(request, name, None) or ():
            yield item if isinstance(item, str) else getattr(item, "group_id", "")


def _transactional_ids(request: Any) -> Iterator[str]:
    if hasattr(request, "key_type"):
        if request.key_type == 1:
            yield from (getattr(request, "key", ""), *(getattr(request, "coordinator_keys", None) or ()))
        return
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        if isinstance(found := getattr(request, name, None), str):
            yield found
    yield from getattr(request, "transactional_ids", None) or ()
    for item in getattr(request, "transactions", None) or ():
        yield item.transactional_id


_TOPIC_LISTS: Final = ("topics", "topic_data", "v3_and_below_topics", "topic_names")
_PARTITION_LISTS: Final = ("partitions", "partition_data", "partition_indexes")
_PARTITION_NUMBERS: Final = ("index", "partition_index", "partition")


def _topics(services: Services, request: Any) -> Iterator[tuple[str, set[int]]]:
    """Topics that a request names, with their partitions."""
    for name in ("groups", "transactions"):  # OffsetFetch, AddPartitionsToTxn
        for item in getattr(request, name, None) or ():
            if not isinstance(item, str):
                yield from _topics(services, item)
    for name in _TOPIC_LISTS:
        for item in getattr(request, name, None) or ():
            if isinstance(item, str):
                yield item, set()
            else:
                yield _topic_name(services, item), set(_partitions(item))


def _topic_name(services: Services, item: Any) -> str:
    for name in ("name", "topic"):
        if isinstance(found := getattr(item, name, None), str) and found:
            return found
    topic_id = getattr(item, "topic_id", ZERO_ID)
    return next((name for name, each in services.image.topics.items() if each.topic_id == topic_id), "")


def _partitions(item: Any) -> Iterator[int]:
    for name in _PARTITION_LISTS:
        for each in getattr(item, name, None) or ():
            if isinstance(each, int):
                yield each
            else:
                yield next(getattr(each, number) for number in _PARTITION_NUMBERS if hasattr(each, number))
