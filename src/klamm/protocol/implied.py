"""What a request's version implies beyond its fields: handlers see the meaning, never the version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

IMPLIED: Final[Mapping[str, Mapping[str, Callable[[int], bool]]]] = {
    "JoinGroupRequest": {
        "must_know_member_id": lambda version: version >= 4,  # KIP-394: the first join returns a member id
        "knows_skip_assignment": lambda version: version >= 9,
        "knows_protocol_type": lambda version: version >= 7,
        "has_rebalance_timeout": lambda version: version >= 1,  # else the session timeout applies
    },
    "SyncGroupRequest": {"must_name_protocol": lambda version: version >= 5},
    "LeaveGroupRequest": {"is_single_member": lambda version: version <= 2},
    "OffsetCommitRequest": {
        "knows_group_id_not_found": lambda version: version >= 9,
        "uses_topic_ids": lambda version: version >= 10,
    },
    "OffsetFetchRequest": {
        "is_batched": lambda version: version >= 8,
        "has_top_level_error": lambda version: version >= 2,
        "uses_topic_ids": lambda version: version >= 10,
    },
    "FindCoordinatorRequest": {"is_batched": lambda version: version >= 4},
    "ConsumerGroupHeartbeatRequest": {
        "makes_member_id": lambda version: version >= 1
    },  # else the coordinator
    "DescribeGroupsRequest": {"knows_group_id_not_found": lambda version: version >= 6},
    "ApiVersionsRequest": {
        "names_software": lambda version: version >= 3,
        "knows_zero_minimum": lambda version: version >= 4,  # older Java clients fail on minimal version 0
    },
    "MetadataRequest": {
        "empty_means_all": lambda version: version == 0,
        "knows_listener_not_found": lambda version: version >= 6,
        "may_ask_by_id": lambda version: version >= 12,  # 10 and 11 have the field, but do not use it
    },
    "DeleteTopicsRequest": {
        "knows_deletion_disabled": lambda version: version >= 3,
        "knows_throttling": lambda version: version >= 5,  # KIP-599: refused in place of delayed
    },
    "CreateTopicsRequest": {"knows_throttling": lambda version: version >= 6},
    "CreatePartitionsRequest": {"knows_throttling": lambda version: version >= 3},
    "ProduceRequest": {
        "allows_zstd": lambda version: version >= 7,
        "uses_topic_ids": lambda version: version >= 13,
        "knows_transaction_abortable": lambda version: version >= 11,
        "adds_partitions": lambda version: version >= 12,  # KIP-890: a produce is its own AddPartitionsToTxn
    },
    "InitProducerIdRequest": {
        "knows_producer_fenced": lambda version: version >= 4,
        "knows_two_phase_commit": lambda version: version >= 6,
    },
    "AddPartitionsToTxnRequest": {
        "is_batched": lambda version: version >= 4,  # from brokers
        "knows_producer_fenced": lambda version: version >= 2,
    },
    "AddOffsetsToTxnRequest": {"knows_producer_fenced": lambda version: version >= 2},
    "EndTxnRequest": {
        "knows_producer_fenced": lambda version: version >= 2,
        "bumps_epoch": lambda version: version >= 5,  # KIP-890: the answer brings the next epoch
    },
    "TxnOffsetCommitRequest": {
        "knows_member": lambda version: version >= 3,  # KIP-447: fenced by generation and member
        "knows_load_in_progress": lambda version: version >= 2,
        "knows_transaction_abortable": lambda version: version >= 4,
        "adds_offsets": lambda version: version >= 5,  # KIP-890: it is its own AddOffsetsToTxn
    },
    "UpdateFeaturesRequest": {"has_downgrade_flag": lambda version: version == 0},  # later: an upgrade type
    "ListConfigResourcesRequest": {"is_of_client_metrics": lambda version: version == 0},
    "ListOffsetsRequest": {
        "knows_max_timestamp": lambda version: version >= 7,
        "knows_local_log_start": lambda version: version >= 8,
        "knows_tiered_offset": lambda version: version >= 9,
        "knows_pending_upload": lambda version: version >= 11,
    },
    "FetchRequest": {
        "uses_topic_ids": lambda version: version >= 13,
        "knows_storage_error": lambda version: version >= 6,
        "knows_leaders": lambda version: version >= 16,  # a refusal names the leader and its address
    },
}
