"""The rule of every API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.broker.security import cluster_rules, group_rules, topic_rules, transaction_rules
from klamm.broker.security.inspected import Inspected
from klamm.broker.security.permissions import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from klamm.broker.security.rules import OF_ERROR, EachItem, Rule, Screen, Whole, in_turn
from klamm.protocol.api import ApiKey


def _cluster(api_key: ApiKey, needs: Permission) -> Rule:
    """An API that needs a permission on the cluster, whatever it asks for."""
    return Rule(api_key, (needs,), Whole(api_key, needs))


def _items(
    api_key: ApiKey,
    needs: Permission,
    field: str = "topics",
    answers: str = "topics",
    name: str = "name",
    *,
    message: str | None = OF_ERROR,
) -> Rule:
    """An API that needs the same permission on each thing it names."""
    return Rule(api_key, (needs,), EachItem(api_key, needs, field, answers, name, message=message))


def _inspected(api_key: ApiKey, needs: Permission, field: str, answers: str) -> Rule:
    """An API of klamm's own, which tells all that there is to know of each thing it names."""
    return Rule(
        api_key, (needs, DESCRIBE_TOPIC), Inspected(EachItem(api_key, needs, field, answers), answers)
    )


def _member(api_key: ApiKey, screen: Screen | None = None) -> Rule:
    """An API of a group's members."""
    return Rule(api_key, (READ_GROUP,), screen or Whole(api_key, READ_GROUP, field="group_id"))


_RULES: Final = (
    # topics
    Rule(ApiKey.PRODUCE, (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID), topic_rules.produce),
    Rule(ApiKey.FETCH, (READ_TOPIC, CLUSTER_ACTION)),  # a session has partitions that a request does not name
    _items(ApiKey.LIST_OFFSETS, DESCRIBE_TOPIC),
    Rule(ApiKey.METADATA, (DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC), topic_rules.metadata),
    Rule(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (DESCRIBE_TOPIC,), topic_rules.describe_topic_partitions),
    Rule(ApiKey.OFFSET_FOR_LEADER_EPOCH, (DESCRIBE_TOPIC, CLUSTER_ACTION), topic_rules.epochs),
    _items(ApiKey.DESCRIBE_PRODUCERS, READ_TOPIC),
    _items(ApiKey.DELETE_RECORDS, DELETE_TOPIC),
    _items(ApiKey.CREATE_PARTITIONS, ALTER_TOPIC, "topics", "results", "name", message=None),
    Rule(
        ApiKey.CREATE_TOPICS,
        (CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
        topic_rules.create_topics,
    ),
    Rule(ApiKey.DELETE_TOPICS, (DELETE_TOPIC, DESCRIBE_TOPIC, DELETE_CLUSTER), topic_rules.delete_topics),
    Rule(
        ApiKey.DESCRIBE_CONFIGS,
        (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS),
        topic_rules.Configs(ApiKey.DESCRIBE_CONFIGS, "results", changes=False),
    ),
    Rule(
        ApiKey.ALTER_CONFIGS,
        (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS),
        topic_rules.Configs(ApiKey.ALTER_CONFIGS, "responses", changes=True),
    ),
    Rule(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS),
        topic_rules.Configs(ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses", changes=True),
    ),
    # groups
    Rule(ApiKey.FIND_COORDINATOR, (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID), group_rules.find_coordinator),
    _member(ApiKey.JOIN_GROUP),
    _member(ApiKey.HEARTBEAT),
    _member(ApiKey.LEAVE_GROUP),
    _member(ApiKey.SYNC_GROUP, group_rules.sync_group),
    Rule(ApiKey.OFFSET_COMMIT, (READ_GROUP, READ_TOPIC), group_rules.offset_commit),
    Rule(ApiKey.OFFSET_FETCH, (DESCRIBE_GROUP, DESCRIBE_TOPIC), group_rules.offset_fetch),
    Rule(ApiKey.OFFSET_DELETE, (DELETE_GROUP, READ_TOPIC), group_rules.offset_delete),
    Rule(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        (READ_GROUP, DESCRIBE_TOPIC),
        group_rules.consumer_group_heartbeat,
    ),
    Rule(ApiKey.CONSUMER_GROUP_DESCRIBE, (DESCRIBE_GROUP,), group_rules.consumer_group_describe),
    _items(ApiKey.DESCRIBE_GROUPS, DESCRIBE_GROUP, "groups", "groups", ""),
    _inspected(ApiKey.INSPECT_GROUPS, DESCRIBE_GROUP, "groups", "groups"),
    _inspected(ApiKey.TRACE_GROUPS, DESCRIBE_GROUP, "groups", "groups"),
    _items(ApiKey.DELETE_GROUPS, DELETE_GROUP, "groups_names", "results", ""),
    Rule(ApiKey.LIST_GROUPS, (DESCRIBE_GROUP, DESCRIBE_CLUSTER), group_rules.list_groups),
    # transactions
    Rule(
        ApiKey.INIT_PRODUCER_ID,
        (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
        transaction_rules.init_producer_id,
    ),
    Rule(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION),
        transaction_rules.add_partitions_to_txn,
    ),
    Rule(
        ApiKey.ADD_OFFSETS_TO_TXN,
        (WRITE_TRANSACTIONAL_ID, READ_GROUP),
        in_turn(
            Whole(ApiKey.ADD_OFFSETS_TO_TXN, WRITE_TRANSACTIONAL_ID, field="transactional_id"),
            Whole(ApiKey.ADD_OFFSETS_TO_TXN, READ_GROUP, field="group_id"),
        ),
    ),
    Rule(
        ApiKey.END_TXN,
        (WRITE_TRANSACTIONAL_ID,),
        Whole(ApiKey.END_TXN, WRITE_TRANSACTIONAL_ID, field="transactional_id"),
    ),
    Rule(
        ApiKey.TXN_OFFSET_COMMIT,
        (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
        in_turn(
            Whole(ApiKey.TXN_OFFSET_COMMIT, WRITE_TRANSACTIONAL_ID, field="transactional_id"),
            Whole(ApiKey.TXN_OFFSET_COMMIT, READ_GROUP, field="group_id"),
            EachItem(ApiKey.TXN_OFFSET_COMMIT, READ_TOPIC, "topics", "topics", "name"),
        ),
    ),
    Rule(
        ApiKey.WRITE_TXN_MARKERS,
        (ALTER_CLUSTER, CLUSTER_ACTION),
        Whole(ApiKey.WRITE_TXN_MARKERS, ALTER_CLUSTER, CLUSTER_ACTION),
    ),
    Rule(
        ApiKey.DESCRIBE_TRANSACTIONS,
        (DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
        transaction_rules.describe_transactions,
    ),
    _inspected(
        ApiKey.INSPECT_TRANSACTIONS, DESCRIBE_TRANSACTIONAL_ID, "transactional_ids", "transactions"
    ),
    Rule(ApiKey.LIST_TRANSACTIONS, (DESCRIBE_TRANSACTIONAL_ID,), transaction_rules.list_transactions),
    # the cluster
    Rule(ApiKey.API_VERSIONS, ()),
    Rule(ApiKey.SASL_HANDSHAKE, ()),
    Rule(ApiKey.SASL_AUTHENTICATE, ()),
    Rule(ApiKey.DESCRIBE_CLUSTER, (DESCRIBE_CLUSTER,)),  # only what it tells of authorized operations
    _cluster(ApiKey.DESCRIBE_ACLS, DESCRIBE_CLUSTER),
    _cluster(ApiKey.CREATE_ACLS, ALTER_CLUSTER),
    _cluster(ApiKey.DELETE_ACLS, ALTER_CLUSTER),
    Rule(ApiKey.DESCRIBE_CLIENT_QUOTAS, (DESCRIBE_CLUSTER_CONFIGS,), cluster_rules.describe_client_quotas),
    Rule(ApiKey.ALTER_CLIENT_QUOTAS, (ALTER_CLUSTER_CONFIGS,), cluster_rules.alter_client_quotas),
    _cluster(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DESCRIBE_CLUSTER),
    _cluster(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ALTER_CLUSTER),
    _cluster(ApiKey.DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER),
    Rule(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, (DESCRIBE_CLUSTER,), cluster_rules.list_partition_reassignments
    ),
    _cluster(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ALTER_CLUSTER),
    _cluster(ApiKey.ELECT_LEADERS, ALTER_CLUSTER),
    _cluster(ApiKey.UPDATE_FEATURES, ALTER_CLUSTER),
    _cluster(ApiKey.LIST_CONFIG_RESOURCES, DESCRIBE_CLUSTER_CONFIGS),
)  # fmt: skip

RULES: Final[Mapping[ApiKey, Rule]] = {rule.api_key: rule for rule in _RULES}
