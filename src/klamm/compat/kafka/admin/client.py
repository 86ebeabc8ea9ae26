"""kafka-python's KafkaAdminClient on klamm's admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from klamm.client.admin.admin import Admin
from klamm.compat.bootstrap import first_answer
from klamm.compat.kafka.admin.acls import AclCalls
from klamm.compat.kafka.admin.configs import TopicCalls
from klamm.compat.kafka.admin.groups import GroupCalls
from klamm.compat.kafka.consumer import BOOTSTRAP_TIMEOUT_MS
from klamm.compat.python_settings import KAFKA_PYTHON, own_settings
from klamm.compat.settings import ClientKind

_KLAMM: Final = "use klamm.Admin"
# Methods of its versions 2 and 3, and what to write instead.
REFUSED: Final = {
    "abort_transaction": f"{_KLAMM}.abort_transaction",
    "alter_partition_reassignments": f"{_KLAMM}.alter_reassignments",
    "alter_replica_log_dirs": "klamm does not move replicas between directories",
    "alter_user_scram_credentials": f"{_KLAMM}",
    "api_versions": "klamm asks every broker for its versions",
    "delete_consumer_groups": "kafka-python 3 and klamm call it delete_groups",
    "describe_consumer_groups": "kafka-python 3 and klamm call it describe_groups",
    "describe_features": f"{_KLAMM}.describe_features",
    "describe_log_dirs": f"{_KLAMM}.describe_log_dirs",
    "describe_metadata_quorum": "klamm has no quorum of controllers",
    "describe_producers": f"{_KLAMM}.describe_producers",
    "describe_topic_partitions": "use describe_topics",
    "describe_transactions": f"{_KLAMM}.describe_transactions",
    "describe_user_scram_credentials": f"{_KLAMM}",
    "elect_leaders": f"{_KLAMM}.elect_leaders",
    "find_hanging_transactions": f"{_KLAMM}.find_hanging_transactions",
    "get_broker_version_data": "klamm asks every broker for its versions",
    "list_config_resources": "name the resources in describe_configs",
    "list_consumer_group_offsets": "kafka-python 3 and klamm call it list_group_offsets",
    "list_consumer_groups": "kafka-python 3 and klamm call it list_groups",
    "list_partition_reassignments": f"{_KLAMM}.list_reassignments",
    "list_transactions": f"{_KLAMM}.list_transactions",
    "update_features": f"{_KLAMM}.update_features",
}


class KafkaAdminClient(AclCalls, TopicCalls, GroupCalls):
    """kafka-python's admin: answers are dictionaries with the fields of the protocol."""

    def __init__(self, **configs: Any) -> None:
        made = own_settings(KAFKA_PYTHON, configs, ClientKind.ADMIN)
        bootstrap_ms = made.pop("bootstrap_timeout_ms", BOOTSTRAP_TIMEOUT_MS)
        self._admin = Admin(made)
        try:
            first_answer(self._admin._operations._thread, bootstrap_ms)
        except BaseException:
            self._admin.close()
            raise

    def describe_cluster(self) -> dict[str, Any]:
        """The id, the controller and the brokers of the cluster."""
        found = self._admin.describe_cluster()
        return {
            "cluster_id": found.cluster_id,
            "controller_id": found.controller_id,
            "brokers": [
                {
                    "broker_id": item.broker_id,
                    "host": item.host,
                    "port": item.port,
                    "rack": item.rack,
                    "is_fenced": item.is_fenced,
                }
                for item in found.brokers
            ],
        }

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in REFUSED:
                raise NotImplementedError(f"klamm.compat has no {name}: {REFUSED[name]}")
            raise AttributeError(f"KafkaAdminClient has no {name}")

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
