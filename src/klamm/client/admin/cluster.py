"""The cluster: leader elections, log directories, reassignments and features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.client.admin.model import ElectionType, FeatureDescription, Reassignment
from klamm.client.admin.results import Results
from klamm.client.calls import Calls, by_topic
from klamm.errors import KlammError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from klamm.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from klamm.protocol.types import TopicPartition
from klamm.version import __version__

ELECTION_TYPES: Final = {ElectionType.PREFERRED: 0, ElectionType.UNCLEAN: 1}
UPGRADE: Final = 1  # kinds of updates, as UpdateFeatures numbers them
SAFE_DOWNGRADE: Final = 2


async def elect_leaders(
    calls: Calls,
    partitions: Sequence[TopicPartition] | None,
    election: ElectionType,
    *,
    timeout_ms: int | None,
) -> Results[TopicPartition, bool]:
    """Hold elections for these partitions, or for all; False where the leader did not have to change."""
    deadline = calls.deadline("electing leaders", timeout_ms)
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(name, numbers) for name, numbers in by_topic(partitions).items()]
    response: ElectLeadersResponse = await calls.to_controller(
        ApiKey.ELECT_LEADERS,
        ElectLeadersRequest(ELECTION_TYPES[election], topics, deadline.remaining_ms()),
        deadline,
        lambda answer: [answer.error_code],
    )
    if response.error_code:
        raise broker_error(response.error_code, "electing leaders")
    results: dict[TopicPartition, bool | KlammError] = {}
    for topic in response.replica_election_results:
        for item in topic.partition_result:
            key = TopicPartition(topic.topic, item.partition_id)
            if item.error_code in (ErrorCode.none, ErrorCode.election_not_needed):
                results[key] = item.error_code == ErrorCode.none
            else:
                results[key] = broker_error(item.error_code, str(key), item.error_message)
    return Results(results)


async def alter_reassignments(
    calls: Calls, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None
) -> Results[TopicPartition, None]:
    """Move partitions to these brokers; None gives up a move that is under way."""
    deadline = calls.deadline("moving partitions", timeout_ms)
    topics = [
        ReassignableTopic(
            name,
            [
                ReassignablePartition(number, None if wanted is None else list(wanted))
                for number in numbers
                for wanted in (replicas[TopicPartition(name, number)],)
            ],
        )
        for name, numbers in by_topic(replicas).items()
    ]
    response: AlterPartitionReassignmentsResponse = await calls.to_controller(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsRequest(timeout_ms=deadline.remaining_ms(), topics=topics),
        deadline,
        lambda answer: [answer.error_code],
    )
    if response.error_code:
        raise broker_error(response.error_code, "moving partitions", response.error_message)
    results: dict[TopicPartition, KlammError | None] = {}
    for topic in response.responses:
        for item in topic.partitions:
            key = TopicPartition(topic.name, item.partition_index)
            results[key] = (
                broker_error(item.error_code, str(key), item.error_message) if item.error_code else None
            )
    return Results(results)


async def list_reassignments(
    calls: Calls, partitions: Sequence[TopicPartition] | None, *, timeout_ms: int | None
) -> dict[TopicPartition, Reassignment]:
    """The moves that are under way; of these partitions, or of all."""
    deadline = calls.deadline("listing moves", timeout_ms)
    topics = None
    if partitions is not None:
        topics = [ListPartitionReassignmentsTopics(*item) for item in by_topic(partitions).items()]
    response: ListPartitionReassignmentsResponse = await calls.to_controller(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsRequest(deadline.remaining_ms(), topics),
        deadline,
        lambda answer: [answer.error_code],
    )
    if response.error_code:
        raise broker_error(response.error_code, "listing moves", response.error_message)
    return {
        TopicPartition(topic.name, item.partition_index): Reassignment(
            tuple(item.replicas), tuple(item.adding_replicas), tuple(item.removing_replicas)
        )
        for topic in response.topics
        for item in topic.partitions
    }


async def update_features(
    calls: Calls,
    levels: Mapping[str, int],
    *,
    allow_downgrade: bool,
    validate_only: bool,
    timeout_ms: int | None,
) -> None:
    """Set finalized levels, all or none; 0 turns a feature off."""
    deadline = calls.deadline("updating features", timeout_ms)
    request = UpdateFeaturesRequest(
        timeout_ms=min(60_000, deadline.remaining_ms()),
        feature_updates=[
            FeatureUpdateKey(
                name, level, SAFE_DOWNGRADE if allow_downgrade else UPGRADE, allow_downgrade=allow_downgrade
            )
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    response: UpdateFeaturesResponse = await calls.to_controller(
        ApiKey.UPDATE_FEATURES, request, deadline, lambda answer: (answer.error_code,)
    )
    for item in response.results:
        if item.error_code:
            raise broker_error(item.error_code, f"feature {item.feature}", item.error_message)
    if response.error_code:
        raise broker_error(response.error_code, "updating features", response.error_message)


async def describe_features(calls: Calls, *, timeout_ms: int | None) -> dict[str, FeatureDescription]:
    """What the brokers could do, and at which level the cluster does it."""
    deadline = calls.deadline("describing features", timeout_ms)
    request = ApiVersionsRequest(client_software_name="klamm", client_software_version=__version__)
    response: ApiVersionsResponse = await calls.to_any(ApiKey.API_VERSIONS, request, deadline)
    if response.error_code:
        raise broker_error(response.error_code, "describing features")
    levels = {item.name: item.max_version_level for item in response.finalized_features}
    return {
        item.name: FeatureDescription(item.min_version, item.max_version, levels.get(item.name))
        for item in response.supported_features
    }
