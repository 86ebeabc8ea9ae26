"""Topics and settings in kafka-python's admin."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import AlterOp, ConfigEntry, Resource, TopicDescription
from klamm.client.admin.model import NewTopic as OwnTopic
from klamm.client.admin.results import AnyResults
from klamm.compat.kafka.admin.model import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    NewPartitions,
    NewTopic,
)
from klamm.errors import BrokerError, KlammError, KlammTimeoutError, UnknownTopicOrPartitionError

UNKNOWN_SERVER_ERROR = -1


def code_of(error: KlammError | None) -> int:
    """The number of an error; -1 for one that no broker answered."""
    if error is None:
        return 0
    return error.error_code if isinstance(error, BrokerError) else UNKNOWN_SERVER_ERROR


def seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


class TopicCalls:
    """The methods about topics and settings."""

    _admin: Admin

    def create_topics(
        self,
        new_topics: Any,
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """Create topics: names, `{name: {"num_partitions": 3, ...}}`, or NewTopic objects."""
        asked = [_own_topic(item) for item in _topics(new_topics)]
        results = self._admin.create_topics(
            asked, validate_only=validate_only, raise_errors=raise_errors, timeout=seconds(timeout_ms)
        )
        if wait_for_metadata:
            self.wait_for_topics([item.name for item in asked])
        return {"topics": [_created(item.name, results) for item in asked]}

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        """Delete topics."""
        results = self._admin.delete_topics(topics, raise_errors=raise_errors, timeout=seconds(timeout_ms))
        return {"topics": [_outcome(name, results) for name in results]}

    def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Increase topics to these numbers of partitions."""
        wanted = {
            name: item if isinstance(item, NewPartitions) else NewPartitions(item)
            for name, item in topic_partitions.items()
        }
        results = self._admin.create_partitions(
            {name: item.total_count for name, item in wanted.items()},
            assignments={name: item.new_assignments for name, item in wanted.items() if item.new_assignments},
            validate_only=validate_only,
            raise_errors=raise_errors,
            timeout=seconds(timeout_ms),
        )
        return {"results": [_outcome(name, results) for name in results]}

    def list_topics(self) -> list[str]:
        """The names of all topics, internal ones too."""
        return self._admin.list_topics(internal=True)

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Topics with their partitions; `error_code` is 3 where there is none of that name."""
        names = None if topics is None else list(topics)
        results = self._admin.describe_topics(names, raise_errors=False)
        return [
            _missing(name, results.errors[name]) if name in results.errors else _described(results[name])
            for name in results
        ]

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Return when every partition of these topics has a leader."""
        try:
            self._admin.wait_for_topics(list(topic_names), timeout=timeout_ms / 1000)
        except UnknownTopicOrPartitionError as error:
            raise KlammTimeoutError(str(error)) from error

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        config_filter: ConfigFilterType | str = "modified",
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Settings by resource type and name; those with a value of their own unless the filter says else."""
        if include_synonyms:
            raise NotImplementedError("klamm's admin does not read synonyms: leave include_synonyms out")
        chosen = ConfigFilterType.build_from(config_filter)
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for item in config_resources:
            kind = own_kind(item.resource_type)
            keys = None if item.configs is None else list(item.configs)
            ((_, entries),) = self._admin.describe_configs(
                kind, item.name, keys=keys, raise_errors=False
            )._outcomes.items()
            named = found.setdefault(item.resource_type.name.lower(), {})
            named[item.name] = {} if isinstance(entries, KlammError) else _entries(entries, chosen)
        return found

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Change settings: `{name: value}` or `{name: (operation, value)}`; what became of each resource."""
        changes = {}
        for item in config_resources:
            if not isinstance(item.configs, Mapping):
                raise TypeError(f"{item!r}: configs is a dictionary of settings and values")
            listed = [_change(name, value) for name, value in item.configs.items()]
            changes[own_kind(item.resource_type), item.name] = listed
            if raise_on_unknown:
                self._check_known(item)
        results = self._admin.alter_configs(changes, validate_only=validate_only, raise_errors=False)
        found: dict[str, dict[str, str]] = {}
        for kind, name in results:
            error = results.errors.get((kind, name))
            found.setdefault(kind.value, {})[name] = "OK" if error is None else str(error)
        return found

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Set settings back to their defaults."""
        resets = [
            ConfigResource(
                item.resource_type,
                item.name,
                dict.fromkeys(item.configs or (), (AlterConfigOp.DELETE, None)),
            )
            for item in config_resources
        ]
        return self.alter_configs(resets, validate_only, raise_on_unknown, incremental)

    def _check_known(self, item: ConfigResource) -> None:
        described = self._admin.describe_configs(own_kind(item.resource_type), item.name, raise_errors=False)
        for entries in described.successes.values():
            unknown = set(item.configs or ()) - set(entries)
            if unknown:
                raise ValueError(f"unknown settings of {item.name}: {', '.join(sorted(unknown))}")


def own_kind(kind: ConfigResourceType) -> Resource:
    """klamm's word for a kind of resource."""
    try:
        return Resource(kind.name.lower())
    except ValueError:
        raise ValueError(f"klamm's admin has no settings of {kind.name}") from None


def _topics(given: Any) -> list[Any]:
    if isinstance(given, Mapping):
        return [
            NewTopic(
                name,
                item.get("num_partitions", -1),
                item.get("replication_factor", -1),
                item.get("assignments"),
                item.get("configs"),
            )
            for name, item in given.items()
        ]
    listed = [NewTopic(item) if isinstance(item, str) else item for item in given]
    if not listed:
        raise ValueError("create_topics needs at least one topic")
    return listed


def _own_topic(item: Any) -> OwnTopic:
    """Any object with the fields of a NewTopic."""
    return OwnTopic(
        item.name, item.num_partitions, item.replication_factor, item.topic_configs, item.replica_assignments
    )


def _outcome(name: str, results: AnyResults) -> dict[str, Any]:
    error = results.errors.get(name)
    return {
        "name": name,
        "error_code": code_of(error),
        "error_message": None if error is None else str(error),
    }


def _created(name: str, results: AnyResults) -> dict[str, Any]:
    found = results.successes.get(name)
    return {
        **_outcome(name, results),
        "topic_id": None if found is None else str(uuid.UUID(bytes=bytes(found.topic_id))),
        "num_partitions": -1 if found is None else found.partitions,
        "replication_factor": -1 if found is None else found.replication_factor,
    }


def _missing(name: str, error: KlammError) -> dict[str, Any]:
    return {
        "error_code": code_of(error),
        "name": name,
        "topic_id": None,
        "is_internal": False,
        "partitions": [],
    }


def _described(topic: TopicDescription) -> dict[str, Any]:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": str(uuid.UUID(bytes=bytes(topic.topic_id))),
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": 0 if item.leader_id >= 0 else 5,  # LEADER_NOT_AVAILABLE
                "partition_index": item.partition,
                "leader_id": item.leader_id,
                "leader_epoch": item.leader_epoch,
                "replica_nodes": list(item.replicas),
                "isr_nodes": list(item.in_sync),
                "offline_replicas": [],
            }
            for item in topic.partitions
        ],
    }


def _entries(entries: Mapping[str, ConfigEntry], chosen: ConfigFilterType) -> dict[str, Any]:
    found = {}
    for name, entry in entries.items():
        source = ConfigSourceType(entry.source)
        if chosen.takes(source, is_read_only=entry.is_read_only):
            found[name] = {
                "value": entry.value,
                "read_only": entry.is_read_only,
                "config_source": source.name,
                "is_sensitive": entry.is_sensitive,
            }
    return found


def _change(name: str, value: Any) -> tuple[str, AlterOp, str | None]:
    operation, text = value if isinstance(value, tuple) else (AlterConfigOp.SET, value)
    op = AlterOp(AlterConfigOp.build_from(operation).name.lower())
    return name, op, None if op is AlterOp.DELETE else text
