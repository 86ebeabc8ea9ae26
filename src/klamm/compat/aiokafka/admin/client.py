"""aiokafka's AIOKafkaAdminClient on klamm's admin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Self

from klamm.aio.admin import Admin
from klamm.client.admin.model import AlterOp, Resource
from klamm.client.admin.model import NewTopic as OwnTopic
from klamm.client.admin.results import AnyResults
from klamm.compat.aiokafka.admin.model import (
    ConfigResource,
    Groups,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
    Resources,
    TopicErrorCodes,
    TopicErrors,
)
from klamm.compat.aiokafka.structs import OffsetAndMetadata
from klamm.compat.bootstrap import first_answer
from klamm.compat.kafka.admin.configs import code_of, seconds
from klamm.compat.python_settings import AIOKAFKA, own_settings
from klamm.compat.settings import ClientKind
from klamm.errors import DisconnectedError, KlammTimeoutError, NoBrokersError, broker_error
from klamm.protocol.types import TopicPartition

OWN_SOURCES = (1, 2)  # of a topic, of one broker


class AIOKafkaAdminClient:
    """aiokafka's admin; answers have the fields that its programs read."""

    def __init__(self, **configs: Any) -> None:
        made = own_settings(AIOKAFKA, configs, ClientKind.ADMIN)
        made.setdefault("request_timeout_ms", 40_000)
        self._start_limit_ms = int(made["request_timeout_ms"])
        self._admin = Admin(made)

    async def start(self) -> None:
        """Wait for the cluster."""
        thread = self._admin._operations._thread
        try:
            await asyncio.to_thread(first_answer, thread, self._start_limit_ms)
        except (NoBrokersError, KlammTimeoutError) as error:
            raise DisconnectedError(f"Unable to bootstrap: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._admin.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    # --- topics -----------------------------------------------------------------------------------------

    async def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: float | None = None, validate_only: bool = False
    ) -> TopicErrors:
        """Create topics; `topic_errors` of the answer has what became of each."""
        asked = [
            OwnTopic(
                item.name,
                item.num_partitions,
                item.replication_factor,
                item.topic_configs,
                item.replica_assignments,
            )
            for item in new_topics
        ]
        results = await self._admin.create_topics(
            asked, validate_only=validate_only, raise_errors=False, timeout=seconds(timeout_ms)
        )
        return _topic_errors(results)

    async def delete_topics(self, topics: Iterable[str], timeout_ms: float | None = None) -> TopicErrorCodes:
        """Delete topics; `topic_error_codes` of the answer has what became of each."""
        results = await self._admin.delete_topics(
            list(topics), raise_errors=False, timeout=seconds(timeout_ms)
        )
        return TopicErrorCodes([(name, code) for name, code, _ in _topic_errors(results).topic_errors])

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: float | None = None,
        validate_only: bool = False,
    ) -> TopicErrors:
        """Increase topics to these numbers of partitions."""
        results = await self._admin.create_partitions(
            {name: item.total_count for name, item in topic_partitions.items()},
            assignments={
                name: item.new_assignments for name, item in topic_partitions.items() if item.new_assignments
            },
            validate_only=validate_only,
            timeout=seconds(timeout_ms),
        )
        return _topic_errors(results)

    async def list_topics(self) -> list[str]:
        """The names of all topics, internal ones too."""
        return await self._admin.list_topics(internal=True)

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Topics with their partitions."""
        names = None if topics is None else list(topics)
        results = await self._admin.describe_topics(names, raise_errors=False)
        return [
            {
                "error_code": code_of(results.errors.get(name)),
                "topic": name,
                "is_internal": name in results.successes and results[name].is_internal,
                "partitions": [
                    {
                        "error_code": 0 if item.leader_id >= 0 else 5,  # LEADER_NOT_AVAILABLE
                        "partition": item.partition,
                        "leader": item.leader_id,
                        "replicas": list(item.replicas),
                        "isr": list(item.in_sync),
                        "offline_replicas": [],
                    }
                    for item in (results[name].partitions if name in results.successes else ())
                ],
            }
            for name in results
        ]

    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset; where each partition begins now."""
        before = {key: item.before_offset for key, item in records_to_delete.items()}
        return dict(await self._admin.delete_records(before, timeout=seconds(timeout_ms)))

    async def describe_cluster(self) -> dict[str, Any]:
        """The id, the controller and the brokers of the cluster."""
        found = await self._admin.describe_cluster()
        return {
            "brokers": [
                {"node_id": item.broker_id, "host": item.host, "port": item.port, "rack": item.rack}
                for item in found.brokers
            ],
            "cluster_id": found.cluster_id,
            "controller_id": found.controller_id,
        }

    # --- settings ---------------------------------------------------------------------------------------

    async def describe_configs(
        self, config_resources: Iterable[ConfigResource], include_synonyms: bool = False
    ) -> list[Resources]:
        """Settings of resources, those named in `configs` or all."""
        if include_synonyms:
            raise NotImplementedError("klamm's admin does not read synonyms: leave include_synonyms out")
        listed = []
        for item in config_resources:
            results = await self._admin.describe_configs(
                _kind(item),
                item.name,
                keys=list(item.configs) if item.configs else None,
                raise_errors=False,
            )
            error = next(iter(results.errors.values()), None)
            entries: list[tuple[Any, ...]] = [
                (entry.name, entry.value, entry.is_read_only, entry.source, entry.is_sensitive, [])
                for found in results.successes.values()
                for entry in found.values()
            ]
            listed.append((code_of(error), str(error or ""), int(item.resource_type), item.name, entries))
        return [Resources(listed)]

    async def alter_configs(self, config_resources: Iterable[ConfigResource]) -> list[Resources]:
        """Replace the settings of resources: what is not given goes back to its default."""
        listed = []
        for item in config_resources:
            given = dict(item.configs or {})
            described = await self._admin.describe_configs(_kind(item), item.name, raise_errors=False)
            own = {
                entry.name
                for found in described.successes.values()
                for entry in found.values()
                if entry.source in OWN_SOURCES
            }
            changes: list[tuple[str, AlterOp | str, Any]] = [
                (name, AlterOp.SET, value) for name, value in given.items()
            ]
            changes += [(name, AlterOp.DELETE, None) for name in sorted(own - given.keys())]
            results = await self._admin.alter_configs(_kind(item), item.name, changes, raise_errors=False)
            error = next(iter(results.errors.values()), None)
            listed.append(
                (code_of(error), None if error is None else str(error), int(item.resource_type), item.name)
            )
        return [Resources(listed)]

    # --- groups -----------------------------------------------------------------------------------------

    async def list_consumer_groups(self, broker_ids: Iterable[int] | None = None) -> list[tuple[str, str]]:
        """The groups with the types of their protocols."""
        if broker_ids is not None:
            raise NotImplementedError("klamm's admin asks all brokers: leave broker_ids out")
        return [(item.group_id, item.protocol_type) for item in await self._admin.list_groups()]

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[Groups]:
        """Groups with their members."""
        if include_authorized_operations:
            raise NotImplementedError("klamm's admin does not read operations: leave them out")
        results = await self._admin.describe_groups(list(group_ids), raise_errors=False)
        listed: list[tuple[Any, ...]] = [
            (code_of(error), name, "Dead", "", "", []) for name, error in results.errors.items()
        ]
        for name, group in results.successes.items():
            members = [
                (
                    item.member_id,
                    item.client_id,
                    item.client_host,
                    list(item.subscribed_topics or ()),
                    list(item.assignment or ()),
                )
                for item in group.members
            ]
            listed.append((0, name, group.state, group.protocol_type, group.protocol, members))
        return [Groups(listed)]

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        """The id of the broker that is a group's coordinator."""
        if coordinator_type != 0:
            raise NotImplementedError("klamm's admin finds coordinators of groups only")
        described = await self._admin.describe_groups([group_id], raise_errors=False)
        for group in described.successes.values():
            return group.coordinator_id
        (error,) = described.errors.values()
        raise broker_error(code_of(error), f"coordinator of group {group_id}", str(error))

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets; -1 where a partition that was named has none."""
        chosen = None if partitions is None else list(partitions)
        offsets = await self._admin.list_group_offsets(group_id, chosen)
        found = {key: OffsetAndMetadata(item.offset, item.metadata) for key, item in offsets.items()}
        return found if chosen is None else {key: found.get(key, OffsetAndMetadata(-1, "")) for key in chosen}


def _topic_errors(results: AnyResults) -> TopicErrors:
    errors = results.errors
    return TopicErrors(
        [(name, code_of(errors.get(name)), str(errors[name]) if name in errors else None) for name in results]
    )


def _kind(item: ConfigResource) -> Resource:
    return Resource(item.resource_type.name.lower())
