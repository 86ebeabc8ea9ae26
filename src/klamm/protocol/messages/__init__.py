"""One version-free module per API; `klamm.protocol.codec` turns them into bytes and back.

Made by tools/make_messages.py.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.api import ApiKey

# First, last, and first flexible version; flexible ones have tagged fields.
VERSIONS: Final[dict[int, tuple[int, int, int]]] = {
    ApiKey.PRODUCE: (3, 13, 9),
    ApiKey.FETCH: (4, 18, 12),
    ApiKey.LIST_OFFSETS: (1, 11, 6),
    ApiKey.METADATA: (0, 13, 9),
    ApiKey.OFFSET_COMMIT: (2, 10, 8),
    ApiKey.OFFSET_FETCH: (1, 10, 6),
    ApiKey.FIND_COORDINATOR: (0, 6, 3),
    ApiKey.JOIN_GROUP: (0, 9, 6),
    ApiKey.HEARTBEAT: (0, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 5, 4),
    ApiKey.SYNC_GROUP: (0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
    ApiKey.LIST_GROUPS: (0, 5, 3),
    ApiKey.SASL_HANDSHAKE: (0, 1, 32767),
    ApiKey.API_VERSIONS: (0, 4, 3),
    ApiKey.CREATE_TOPICS: (2, 7, 5),
    ApiKey.DELETE_TOPICS: (1, 6, 4),
    ApiKey.DELETE_RECORDS: (0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
    ApiKey.END_TXN: (0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5, 3),
    ApiKey.DESCRIBE_ACLS: (1, 3, 2),
    ApiKey.CREATE_ACLS: (1, 3, 2),
    ApiKey.DELETE_ACLS: (1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
    ApiKey.ALTER_CONFIGS: (0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3, 2),
    ApiKey.DELETE_GROUPS: (0, 2, 2),
    ApiKey.ELECT_LEADERS: (0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
    ApiKey.OFFSET_DELETE: (0, 0, 32767),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.UPDATE_FEATURES: (0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    ApiKey.INSPECT_GROUPS: (0, 0, 0),  # klamm's own
    ApiKey.TRACE_GROUPS: (0, 0, 0),  # klamm's own
    ApiKey.INSPECT_TRANSACTIONS: (0, 0, 0),  # klamm's own
}
