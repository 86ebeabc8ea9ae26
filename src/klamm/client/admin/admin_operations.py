"""Every admin operation as a future; `tools/make_admin.py` generates both `Admin` classes from it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from klamm.client.admin import arguments, groups, transactions
from klamm.client.admin import offsets as offset_calls
from klamm.client.admin.access_operations import AccessOperations
from klamm.client.admin.arguments import milliseconds
from klamm.client.admin.cluster_operations import ClusterOperations
from klamm.client.admin.group_operations import GroupOperations
from klamm.client.admin.model import CommittedOffset
from klamm.client.admin.results import Results
from klamm.client.admin.topic_operations import TopicOperations
from klamm.protocol.types import TopicPartition


class AdminOperations(TopicOperations, ClusterOperations, GroupOperations, AccessOperations):
    """Arguments are checked in the caller's thread; operations run on the client's."""

    def _offsets_of_groups(
        self, group_ids: str | Iterable[str], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[str, dict[TopicPartition, CommittedOffset]]]:
        """The committed offsets of several groups, with few requests; brokers need Kafka 3.0 or newer.

        Here, and so not in the `Admin` classes: only the diagnosis of many groups needs it.
        """
        chosen, due_ms = arguments.texts(group_ids, "group id"), milliseconds(timeout)
        return self._each(
            raise_errors,
            lambda calls: offset_calls.list_offsets_of_groups(calls, chosen, timeout_ms=due_ms),
        )

    def _trace_groups(
        self, group_ids: str | Iterable[str], *, after: int, timeout: float | None = None
    ) -> Future[Results[str, dict[str, Any]]]:
        """Trace the requests of groups at klamm's coordinators: what was seen after an entry, by its number.

        The first call switches it on (`after=-1`: from now on), each further one keeps it on for a minute.
        UnsupportedVersionError: the broker is not klamm's. Only `klamm groups trace` needs it.
        """
        chosen, due_ms = arguments.texts(group_ids, "group id"), milliseconds(timeout)
        return self._each(
            True, lambda calls: groups.trace_groups(calls, chosen, after=after, timeout_ms=due_ms)
        )

    def _inspect_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> Future[Results[str, dict[str, Any]]]:
        """What klamm's coordinators know of transactional ids. Only `klamm txns inspect` needs it."""
        chosen, due_ms = arguments.texts(transactional_ids, "transactional id"), milliseconds(timeout)
        return self._each(
            True, lambda calls: transactions.inspect_transactions(calls, chosen, timeout_ms=due_ms)
        )
