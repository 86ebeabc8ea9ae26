"""Error responses of each API: the error code in every field that the response has for one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode

Failed = Callable[[Any, ErrorCode], Any]


@dataclass(frozen=True, slots=True)
class Items:
    """For each item of a request's list, an item with the error in the response's list."""

    request_field: str
    response_field: str
    item_class: str
    names: Mapping[str, str]  # of the response item <- of the request item; "" is the item itself
    nested: Items | None = None
    constants: Mapping[str, object] | None = None


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_ITEMS: Final[Mapping[ApiKey, tuple[Items, ...]]] = {
    ApiKey.PRODUCE: (
        Items(
            "topic_data", "responses", "TopicProduceResponse", _named("topic_id", "name"),
            Items(
                "partition_data", "partition_responses", "PartitionProduceResponse", _named("index"),
                constants={"base_offset": -1},
            ),
        ),
    ),
    ApiKey.FETCH: (
        Items(
            "topics", "responses", "FetchableTopicResponse", _named("topic_id", "topic"),
            Items(
                "partitions", "partitions", "PartitionData", {"partition_index": "partition"},
                constants={"high_watermark": -1, "records": b""},
            ),
        ),
    ),
    ApiKey.LIST_OFFSETS: (
        Items(
            "topics", "topics", "ListOffsetsTopicResponse", _named("name"),
            Items("partitions", "partitions", "ListOffsetsPartitionResponse", _named("partition_index")),
        ),
    ),
    ApiKey.METADATA: (Items("topics", "topics", "MetadataResponseTopic", _named("name", "topic_id")),),
    ApiKey.OFFSET_COMMIT: (
        Items(
            "topics", "topics", "OffsetCommitResponseTopic", _named("name", "topic_id"),
            Items("partitions", "partitions", "OffsetCommitResponsePartition", _named("partition_index")),
        ),
    ),
    ApiKey.OFFSET_FETCH: (Items("groups", "groups", "OffsetFetchResponseGroup", _named("group_id")),),
    ApiKey.FIND_COORDINATOR: (
        Items(
            "coordinator_keys", "coordinators", "Coordinator", {"key": ""},
            constants={"node_id": -1, "port": -1},
        ),
    ),
    ApiKey.INSPECT_GROUPS: (Items("groups", "groups", "InspectedGroup", {"group_id": ""}),),
    ApiKey.TRACE_GROUPS: (Items("groups", "groups", "TracedGroup", {"group_id": ""}),),
    ApiKey.DESCRIBE_GROUPS: (Items("groups", "groups", "DescribedGroup", {"group_id": ""}),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Items("group_ids", "groups", "DescribedGroup", {"group_id": ""}),),
    ApiKey.DELETE_GROUPS: (Items("groups_names", "results", "DeletableGroupResult", {"group_id": ""}),),
    ApiKey.CREATE_TOPICS: (Items("topics", "topics", "CreatableTopicResult", _named("name")),),
    ApiKey.DELETE_TOPICS: (
        Items("topics", "responses", "DeletableTopicResult", _named("name", "topic_id")),
        Items("topic_names", "responses", "DeletableTopicResult", {"name": ""}),
    ),
    ApiKey.DELETE_RECORDS: (
        Items(
            "topics", "topics", "DeleteRecordsTopicResult", _named("name"),
            Items(
                "partitions", "partitions", "DeleteRecordsPartitionResult", _named("partition_index"),
                constants={"low_watermark": -1},
            ),
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Items(
            "topics", "topics", "OffsetForLeaderTopicResult", _named("topic"),
            Items("partitions", "partitions", "EpochEndOffset", _named("partition")),
        ),
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        Items("resources", "results", "DescribeConfigsResult", _named("resource_type", "resource_name")),
    ),
    ApiKey.ALTER_CONFIGS: (
        Items(
            "resources", "responses", "AlterConfigsResourceResponse",
            _named("resource_type", "resource_name"),
        ),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        Items(
            "resources", "responses", "AlterConfigsResourceResponse",
            _named("resource_type", "resource_name"),
        ),
    ),
    ApiKey.CREATE_PARTITIONS: (Items("topics", "results", "CreatePartitionsTopicResult", _named("name")),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Items("group_ids", "groups", "DescribedGroup", {"group_id": ""}),),
    ApiKey.ALTER_CLIENT_QUOTAS: (Items("entries", "entries", "EntryResult", {}),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        Items("users", "results", "DescribeUserScramCredentialsResult", {}),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        Items("deletions", "results", "AlterUserScramCredentialsResult", {"user": "name"}),
        Items("upsertions", "results", "AlterUserScramCredentialsResult", {"user": "name"}),
    ),
    ApiKey.CREATE_ACLS: (Items("creations", "results", "AclCreationResult", {}),),
    ApiKey.DELETE_ACLS: (Items("filters", "filter_results", "DeleteAclsFilterResult", {}),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Items(
            "topics", "responses", "ReassignableTopicResponse", _named("name"),
            Items("partitions", "partitions", "ReassignablePartitionResponse", _named("partition_index")),
        ),
    ),
    ApiKey.ELECT_LEADERS: (
        Items(
            "topic_partitions", "replica_election_results", "ReplicaElectionResult", _named("topic"),
            Items("partitions", "partition_result", "PartitionResult", {"partition_id": ""}),
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Items(
            "transactions", "results_by_transaction", "AddPartitionsToTxnResult", _named("transactional_id"),
            Items(
                "topics", "topic_results", "AddPartitionsToTxnTopicResult", _named("name"),
                Items(
                    "partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult",
                    {"partition_index": ""},
                ),
            ),
        ),
        Items(
            "v3_and_below_topics", "results_by_topic_v3_and_below", "AddPartitionsToTxnTopicResult",
            _named("name"),
            Items(
                "partitions", "results_by_partition", "AddPartitionsToTxnPartitionResult",
                {"partition_index": ""},
            ),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        Items(
            "markers", "markers", "WritableTxnMarkerResult", _named("producer_id"),
            Items(
                "topics", "topics", "WritableTxnMarkerTopicResult", _named("name"),
                Items(
                    "partition_indexes", "partitions", "WritableTxnMarkerPartitionResult",
                    {"partition_index": ""},
                ),
            ),
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        Items(
            "topics", "topics", "TxnOffsetCommitResponseTopic", _named("name"),
            Items("partitions", "partitions", "TxnOffsetCommitResponsePartition", _named("partition_index")),
        ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Items(
            "transactional_ids", "transaction_states", "TransactionState", {"transactional_id": ""},
            constants={"transaction_start_time_ms": 0},
        ),
    ),
    ApiKey.INSPECT_TRANSACTIONS: (
        Items("transactional_ids", "transactions", "InspectedTransaction", {"transactional_id": ""}),
    ),
    ApiKey.DESCRIBE_PRODUCERS: (
        Items(
            "topics", "topics", "TopicResponse", _named("name"),
            Items("partition_indexes", "partitions", "PartitionResponse", {"partition_index": ""}),
        ),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        Items("topics", "topics", "DescribeTopicPartitionsResponseTopic", _named("name")),
    ),
}  # fmt: skip


@cache
def failure_of(api_key: ApiKey) -> Failed:
    """`failed(request, error_code) -> response` of one API."""
    messages = importlib.import_module(f"klamm.protocol.messages.{api_key.name.lower()}")
    response_class = getattr(messages, "".join(map(str.title, api_key.name.split("_"))) + "Response")
    return partial(_failed, messages, response_class, _ITEMS.get(api_key, ()))


def _failed(messages: Any, response_class: Any, items: tuple[Items, ...], request: Any, code: int) -> Any:
    response = response_class()
    _set_error(response, code)
    for row in items:
        made = _failed_items(messages, row, getattr(request, row.request_field), code)
        setattr(response, row.response_field, [*getattr(response, row.response_field), *made])
    return response


def _failed_items(messages: Any, row: Items, requested: Any, code: int) -> list[Any]:
    item_class = getattr(messages, row.item_class)
    made = []
    for asked in requested or ():
        item = item_class(**(row.constants or {}))
        for name, source in row.names.items():
            setattr(item, name, getattr(asked, source) if source else asked)
        _set_error(item, code)
        if row.nested is not None:
            inner = _failed_items(messages, row.nested, getattr(asked, row.nested.request_field), code)
            setattr(item, row.nested.response_field, inner)
        made.append(item)
    return made


def _set_error(message: Any, code: int) -> None:
    for name in ("error_code", "partition_error_code"):
        if hasattr(message, name):
            setattr(message, name, int(code))
