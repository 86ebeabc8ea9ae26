"""Method names of other libraries' admin clients, and what to write instead."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

# As in kafka-python (its versions 2 and 3), confluent-kafka and Java, where the name differs from klamm's.
INSTEAD: Final = {
    "alter_client_quotas": 'alter_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})',
    "alter_consumer_group_offsets": "alter_group_offsets(group_id, {TopicPartition(...): offset})",
    "alter_partition_reassignments": "alter_reassignments({TopicPartition(...): [broker, ...]})",
    "alter_user_scram_credentials": 'set_passwords({"alice": password}), delete_users("alice")',
    "create_topic": "create_topics(names)",
    "delete_consumer_group_offsets": "delete_group_offsets(group_id, partitions)",
    "delete_consumer_groups": "delete_groups(group_ids)",
    "delete_topic": "delete_topics(names)",
    "describe_client_quotas": "describe_quotas()",
    "describe_consumer_groups": "describe_groups(group_ids)",
    "describe_topic": "describe_topics(names)",
    "describe_topic_partitions": "describe_topics(names)",
    "describe_user_scram_credentials": "describe_users()",
    "incremental_alter_configs": 'alter_configs("topic", name, {setting: value})',
    "list_acls": "describe_acls()",
    "list_consumer_group_offsets": "list_group_offsets(group_id)",
    "list_consumer_groups": "list_groups()",
    "list_partition_offsets": 'list_offsets(partitions, "latest")',
    "list_partition_reassignments": "list_reassignments()",
    "perform_leader_election": "elect_leaders(partitions)",
    "poll": "nothing: a method returns when its operation is complete",
    "remove_group_members": "remove_members(group_id, member_ids=...)",
    "remove_members_from_consumer_group": "remove_members(group_id, member_ids=...)",
    "reset_configs": 'alter_configs("topic", name, {setting: None})',
    "start": "nothing: a new admin is ready",
    "stop": "close()",
}
UNSUPPORTED: Final = frozenset(
    {
        "alter_replica_log_dirs",
        "describe_metadata_quorum",
    }
)


def missing_method(name: str) -> str:
    """The message of the AttributeError for a name that the admin does not have."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    if snake in INSTEAD:
        return f"Admin has no {name}; write {INSTEAD[snake]}"
    if snake in UNSUPPORTED:
        return f"Admin has no {name}: klamm does not support this operation"
    from klamm.client.admin.admin_operations import AdminOperations  # noqa: PLC0415  # it is above this module

    known = [each for each in dir(AdminOperations) if not each.startswith("_")]
    close = get_close_matches(snake, known, 1)
    return f"Admin has no {name}" + (f"; did you mean {close[0]}?" if close else "")
