"""Operations on the cluster and on transactions, each as a future."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from klamm.client.admin import arguments, cluster, transactions
from klamm.client.admin import topics as topic_calls
from klamm.client.admin.arguments import ByPartition, Partition, milliseconds
from klamm.client.admin.model import (
    ClusterDescription,
    ElectionType,
    FeatureDescription,
    HangingTransaction,
    ListedTransaction,
    LogDirDescription,
    ProducerDescription,
    ProducerIdentity,
    Reassignment,
    TransactionDescription,
)
from klamm.client.admin.operations_host import OperationsHost
from klamm.client.admin.results import Results
from klamm.protocol.types import TopicPartition


class ClusterOperations(OperationsHost):
    """Brokers, partitions and transactions of the cluster."""

    def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout: float | None = None
    ) -> Future[ClusterDescription]:
        """The id, the controller and the brokers of the cluster.

        With `include_fenced_brokers` also those whose lease ended, from brokers of Kafka 4.0 and klamm.
        """
        due_ms = milliseconds(timeout)
        return self._run(
            lambda calls: topic_calls.describe_cluster(
                calls, include_fenced_brokers=include_fenced_brokers, timeout_ms=due_ms
            )
        )

    def describe_log_dirs(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> Future[list[LogDirDescription]]:
        """The log directories of all brokers, with the size of each partition."""
        chosen, due_ms = arguments.some_partitions(partitions), milliseconds(timeout)
        return self._run(lambda calls: topic_calls.describe_log_dirs(calls, chosen, timeout_ms=due_ms))

    def describe_producers(
        self, partitions: Iterable[Partition], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[TopicPartition, list[ProducerDescription]]]:
        """The idempotent and transactional producers that have written to partitions."""
        chosen, due_ms = arguments.partitions(partitions), milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: topic_calls.describe_producers(calls, chosen, timeout_ms=due_ms)
        )

    def list_transactions(
        self,
        *,
        states: str | Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: float | None = None,
        id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> Future[list[ListedTransaction]]:
        """The transactional ids of the whole cluster.

        `states` are Kafka's names, as in `Ongoing`; `longer_than` is in seconds since the transaction began;
        `id_pattern` is a regular expression that matches the whole id.
        """
        wanted, producers = (
            arguments.texts(states, "state"),
            arguments.integers(producer_ids, "producer id", 64),
        )
        open_ms, due_ms = milliseconds(longer_than, "longer_than"), milliseconds(timeout)
        pattern = None if id_pattern is None else arguments.text(id_pattern, "id_pattern")
        return self._run(
            lambda calls: transactions.list_transactions(
                calls,
                states=wanted,
                producer_ids=producers,
                longer_than_ms=open_ms,
                id_pattern=pattern,
                timeout_ms=due_ms,
            )
        )

    def describe_transactions(
        self,
        transactional_ids: str | Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, TransactionDescription]]:
        """State, producer and partitions of transactional ids."""
        chosen, due_ms = arguments.texts(transactional_ids, "transactional id"), milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: transactions.describe_transactions(calls, chosen, timeout_ms=due_ms)
        )

    def find_hanging_transactions(
        self, partitions: Iterable[Partition], *, older_than: float = 900, timeout: float | None = None
    ) -> Future[list[HangingTransaction]]:
        """Transactions that are open on these partitions and that no coordinator will end.

        Only of producers that have written nothing for `older_than` seconds; do not choose less than the
        longest transaction timeout in the cluster.
        """
        chosen, due_ms = arguments.partitions(partitions), milliseconds(timeout)
        idle_ms = arguments.some_milliseconds(older_than, "older_than")
        return self._run(
            lambda calls: transactions.find_hanging_transactions(
                calls,
                chosen,
                now_ms=self._thread.clock.timestamp_ms(),
                older_than_ms=idle_ms,
                timeout_ms=due_ms,
            )
        )

    def abort_transaction(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        *,
        timeout: float | None = None,
    ) -> Future[None]:
        """Write an abort marker to one partition; for hanging transactions only.

        To abort the transaction of a transactional id use `fence_producers`.
        """
        place, due_ms = arguments.partition(partition), milliseconds(timeout)
        producer = arguments.integer(producer_id, "producer_id", 64)
        epoch = arguments.integer(producer_epoch, "producer_epoch", 16)
        coordinator = arguments.integer(coordinator_epoch, "coordinator_epoch")
        return self._run(
            lambda calls: transactions.abort_transaction(
                calls, place, producer, epoch, coordinator, timeout_ms=due_ms
            )
        )

    def fence_producers(
        self,
        transactional_ids: str | Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, ProducerIdentity]]:
        """Abort the open transactions of transactional ids and fence their producers."""
        chosen, due_ms = arguments.texts(transactional_ids, "transactional id"), milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: transactions.fence_producers(calls, chosen, timeout_ms=due_ms)
        )

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Future[None]:
        """Set finalized feature levels, as in `{"transaction.version": 2}`; 0 turns a feature off."""
        wanted, down = arguments.levels(levels), arguments.flag(allow_downgrade, "allow_downgrade")
        dry, due_ms = arguments.flag(validate_only, "validate_only"), milliseconds(timeout)
        return self._run(
            lambda calls: cluster.update_features(
                calls, wanted, allow_downgrade=down, validate_only=dry, timeout_ms=due_ms
            )
        )

    def elect_leaders(
        self,
        partitions: Iterable[Partition] | None = None,
        election: ElectionType | str = ElectionType.PREFERRED,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, bool]]:
        """Elect leaders of these partitions, or of all; False where the leader did not have to change."""
        chosen, due_ms = arguments.some_partitions(partitions), milliseconds(timeout)
        kind = arguments.word(election, ElectionType, "election")
        return self._each(
            raise_errors, lambda calls: cluster.elect_leaders(calls, chosen, kind, timeout_ms=due_ms)
        )

    def alter_reassignments(
        self,
        replicas: ByPartition[Sequence[int] | None],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[TopicPartition, None]]:
        """Move partitions to these brokers; None cancels a move in progress."""
        wanted = arguments.by_partition(replicas, "replicas", arguments.replicas)
        due_ms = milliseconds(timeout)
        return self._each(
            raise_errors, lambda calls: cluster.alter_reassignments(calls, wanted, timeout_ms=due_ms)
        )

    def list_reassignments(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> Future[dict[TopicPartition, Reassignment]]:
        """The moves in progress."""
        chosen, due_ms = arguments.some_partitions(partitions), milliseconds(timeout)
        return self._run(lambda calls: cluster.list_reassignments(calls, chosen, timeout_ms=due_ms))

    def describe_features(self, *, timeout: float | None = None) -> Future[dict[str, FeatureDescription]]:
        """The feature levels that the brokers support, and the finalized ones."""
        due_ms = milliseconds(timeout)
        return self._run(lambda calls: cluster.describe_features(calls, timeout_ms=due_ms))
