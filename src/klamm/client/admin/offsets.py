"""Offsets: what groups committed, what logs hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from klamm.client.admin.group_batches import ask_about
from klamm.client.admin.model import CommittedOffset, ListedOffset
from klamm.client.admin.results import Results
from klamm.client.calls import Calls, Deadline, by_topic
from klamm.errors import BrokerError, KlammError, UnsupportedVersionError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from klamm.protocol.types import TopicPartition

_GROUPS_VERSION: Final = 8  # from here on a request has several groups
NAMES_VERSION: Final = 9  # the last version with topic names; later ones use topic ids
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


async def list_group_offsets(
    calls: Calls,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    *,
    require_stable: bool,
    timeout_ms: int | None,
) -> dict[TopicPartition, CommittedOffset]:
    """What a group committed, for all partitions or for these; those without a commit are left out."""
    deadline = calls.deadline(f"offsets of group {group_id}", timeout_ms)

    def request(version: int) -> OffsetFetchRequest:
        grouped = None if partitions is None else by_topic(partitions)
        if version >= 8:
            topics = None if grouped is None else [_wanted(*item) for item in grouped.items()]
            group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
            return OffsetFetchRequest(groups=[group], require_stable=require_stable)
        old = None if grouped is None else [OffsetFetchRequestTopic(*item) for item in grouped.items()]
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable)

    while True:
        response: OffsetFetchResponse
        response, _ = await calls.to_coordinator(
            group_id, ApiKey.OFFSET_FETCH, request, deadline, _fetch_errors, max_version=NAMES_VERSION
        )
        answer = response.groups[0] if response.groups else response
        if answer.error_code:
            raise broker_error(answer.error_code, f"group {group_id}")
        found: dict[TopicPartition, CommittedOffset] = {}
        unstable: BrokerError | None = None
        for topic in answer.topics:
            for item in topic.partitions:
                key = TopicPartition(topic.name, item.partition_index)
                if item.error_code == ErrorCode.unstable_offset_commit:
                    unstable = broker_error(item.error_code, str(key))
                elif item.error_code:
                    raise broker_error(item.error_code, f"{key} of group {group_id}")
                elif item.committed_offset >= 0:
                    found[key] = CommittedOffset(
                        item.committed_offset, item.committed_leader_epoch, item.metadata or ""
                    )
        if unstable is None:
            return found
        await deadline.pause(unstable)


async def list_offsets_of_groups(
    calls: Calls, group_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, dict[TopicPartition, CommittedOffset]]:
    """What several groups have committed. UnsupportedVersionError: the broker answers for one at a time."""
    deadline = calls.deadline("listing the offsets of groups", timeout_ms)

    versions: set[int] = set()

    def request(ids: Sequence[str]) -> Callable[[int], OffsetFetchRequest]:
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in ids]

        def at(version: int) -> OffsetFetchRequest:
            versions.add(version)
            return OffsetFetchRequest(group_id=ids[0], topics=None, groups=groups)

        return at

    def items(
        response: OffsetFetchResponse,
    ) -> Iterator[tuple[str, int, str | None, OffsetFetchResponseGroup]]:
        for item in response.groups:
            yield item.group_id, item.error_code, None, item

    found = await ask_about(
        calls, group_ids, ApiKey.OFFSET_FETCH, request, items, deadline, max_version=NAMES_VERSION
    )
    if min(versions, default=_GROUPS_VERSION) < _GROUPS_VERSION:
        raise UnsupportedVersionError("OFFSET_FETCH: the broker answers for one group at a time")
    return Results({group_id: _committed(found[group_id]) for group_id in group_ids})


def _committed(
    found: tuple[OffsetFetchResponseGroup, int] | KlammError,
) -> dict[TopicPartition, CommittedOffset] | KlammError:
    if isinstance(found, KlammError):
        return found
    return {
        TopicPartition(topic.name, item.partition_index): CommittedOffset(
            item.committed_offset, item.committed_leader_epoch, item.metadata or ""
        )
        for topic in found[0].topics
        for item in topic.partitions
        if not item.error_code and item.committed_offset >= 0
    }


def _wanted(name: str, numbers: list[int]) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=name, partition_indexes=numbers)


def _fetch_errors(answer: OffsetFetchResponse) -> list[int]:
    return [answer.error_code, *(group.error_code for group in answer.groups)]


async def alter_group_offsets(
    calls: Calls,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None,
) -> Results[TopicPartition, None]:
    """Commit for a group that has no members; a group in use refuses with UNKNOWN_MEMBER_ID.

    A coordinator that does not know a new topic yet, which its metadata shows, is asked again.
    """
    deadline = calls.deadline(f"changing offsets of group {group_id}", timeout_ms)
    results: dict[TopicPartition, KlammError | None] = {}
    pending = list(offsets)
    while True:
        response: OffsetCommitResponse
        response, _ = await calls.to_coordinator(
            group_id,
            ApiKey.OFFSET_COMMIT,
            OffsetCommitRequest(group_id=group_id, topics=_to_commit(offsets, pending)),
            deadline,
            lambda answer: [item.error_code for topic in answer.topics for item in topic.partitions],
            max_version=NAMES_VERSION,
        )
        unknown: dict[TopicPartition, BrokerError] = {}
        for topic in response.topics:
            for item in topic.partitions:
                key = TopicPartition(topic.name, item.partition_index)
                results[key] = None
                if item.error_code:
                    in_use = "the group is in use: stop its members first"
                    message = in_use if item.error_code == ErrorCode.unknown_member_id else None
                    error = broker_error(item.error_code, f"{key} of group {group_id}", message)
                    results[key] = error
                    if item.error_code == ErrorCode.unknown_topic_or_partition:
                        unknown[key] = error
        pending = await _existing(calls, list(unknown), deadline)
        if not pending:
            return Results(results)
        await deadline.pause(unknown[pending[0]])


def _to_commit(
    offsets: Mapping[TopicPartition, CommittedOffset], partitions: Sequence[TopicPartition]
) -> list[OffsetCommitRequestTopic]:
    return [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    number,
                    offsets[TopicPartition(name, number)].offset,
                    offsets[TopicPartition(name, number)].leader_epoch,
                    offsets[TopicPartition(name, number)].metadata,
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(partitions).items()
    ]


async def _existing(
    calls: Calls, partitions: Sequence[TopicPartition], deadline: Deadline
) -> list[TopicPartition]:
    """Those of these partitions that the cluster has, by metadata that is fetched now."""
    if not partitions:
        return []
    calls.core.metadata.want({each.topic for each in partitions})
    await calls.refresh(deadline)
    _, failed = await calls.leaders_of(partitions, deadline)
    return [each for each in partitions if each not in failed]


async def delete_group_offsets(
    calls: Calls, group_id: str, partitions: Sequence[TopicPartition], *, timeout_ms: int | None
) -> Results[TopicPartition, None]:
    deadline = calls.deadline(f"deleting offsets of group {group_id}", timeout_ms)
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in numbers])
        for name, numbers in by_topic(partitions).items()
    ]
    response: OffsetDeleteResponse
    response, _ = await calls.to_coordinator(
        group_id,
        ApiKey.OFFSET_DELETE,
        OffsetDeleteRequest(group_id, topics),
        deadline,
        lambda answer: [answer.error_code],
    )
    if response.error_code:
        raise broker_error(response.error_code, f"group {group_id}")
    results: dict[TopicPartition, KlammError | None] = {}
    for topic in response.topics:
        for item in topic.partitions:
            key = TopicPartition(topic.name, item.partition_index)
            results[key] = (
                broker_error(item.error_code, f"{key} of group {group_id}") if item.error_code else None
            )
    return Results(results)


async def list_offsets(
    calls: Calls,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    timeout_ms: int | None,
) -> Results[TopicPartition, ListedOffset]:
    """Look up offsets by timestamp in milliseconds, or by LATEST, EARLIEST, MAX_TIMESTAMP."""
    deadline = calls.deadline("looking up offsets", timeout_ms)
    results: dict[TopicPartition, ListedOffset | KlammError] = {}
    pending = list(wanted)
    while pending:
        led, failed = await calls.leaders_of(pending, deadline)
        results.update(failed)
        retry: dict[TopicPartition, BrokerError] = {}
        for broker_id, partitions in led.items():
            response: ListOffsetsResponse = await calls.to_broker(
                broker_id, ApiKey.LIST_OFFSETS, _request(wanted, partitions, read_committed), deadline
            )
            for topic in response.topics:
                for item in topic.partitions:
                    key = TopicPartition(topic.name, item.partition_index)
                    if not item.error_code:
                        results[key] = ListedOffset(item.offset, item.timestamp, item.leader_epoch)
                        continue
                    error = broker_error(item.error_code, str(key))
                    results[key] = error
                    if error.retriable:  # a leader that does not know the topic yet, too
                        retry[key] = error
        pending = list(retry)
        if pending:
            await deadline.pause(retry[pending[0]])
            await calls.refresh(deadline)
    return Results(results)


def _request(
    wanted: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition], read_committed: bool
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name,
                [
                    ListOffsetsPartition(number, -1, wanted[TopicPartition(name, number)])
                    for number in numbers
                ],
            )
            for name, numbers in by_topic(partitions).items()
        ],
        timeout_ms=30_000,
    )
