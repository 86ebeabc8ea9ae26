"""Lookups of the driver: topics, offsets, committed offsets of a group."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from klamm.client.admin.admin import Admin
from klamm.client.config import ADMIN
from klamm.errors import BrokerError, KlammTimeoutError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SourceOptions, for_client
from klamm.spark.read.positions import Positions

log = logging.getLogger(__name__)
# A person waits for a batch; a stream may begin before its brokers do.
BATCH_CONTACT_S: Final = 10.0
T = TypeVar("T")


class MissingTopicError(BrokerError):
    """The query names a topic that is not there."""

    default_code = ErrorCode.unknown_topic_or_partition


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """What the subscription finds: its partitions, and which topics those are (a name may be used again)."""

    partitions: frozenset[TopicPartition]
    ids: Mapping[str, bytes]


class ClusterLookup:
    """An admin client with the retries of the options."""

    def __init__(self, options: SourceOptions, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._admin: Admin | None = None

    @property
    def admin(self) -> Admin:
        """Made when it is first needed: the object itself travels between processes."""
        if self._admin is None:
            settings = {"client.id": "klamm-spark-driver", **for_client(self._options.client, ADMIN)}
            self._admin = Admin(settings)
        return self._admin

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without the connection."""
        return {**self.__dict__, "_admin": None}

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def topics(self, *, known: Collection[str] = ()) -> SubscribedTopics:
        """The partitions to read. A topic named in the options must be there, unless it is in `known`."""
        subscription = self._options.subscription
        if subscription.pattern is not None:
            return self._matching(re.compile(subscription.pattern))
        if subscription.partitions is not None:
            found = self._described({item.topic for item in subscription.partitions}, known)
            return _only(found, subscription.partitions)
        return self._described(set(subscription.topics), known)

    @property
    def _contact_s(self) -> float | None:
        """How long the first request may take; None: as the settings say."""
        is_given = "default.api.timeout.ms" in self._options.client
        return None if self._options.is_streaming or is_given else BATCH_CONTACT_S

    def _matching(self, pattern: re.Pattern[str]) -> SubscribedTopics:
        described = self._retried(lambda: self.admin.describe_topics(timeout=self._contact_s).unwrap())
        # A pattern does not match internal topics; by name they can be read.
        found = {name for name, topic in described.items() if not topic.is_internal and pattern.search(name)}
        return SubscribedTopics(
            frozenset(
                TopicPartition(name, item.partition) for name in found for item in described[name].partitions
            ),
            {name: described[name].topic_id for name in found},
        )

    def _described(self, names: Collection[str], known: Collection[str]) -> SubscribedTopics:
        if not names:
            return SubscribedTopics(frozenset(), {})

        def ask() -> SubscribedTopics:
            results = self.admin.describe_topics(sorted(names), raise_errors=False, timeout=self._contact_s)
            missing: list[str] = []
            partitions: set[TopicPartition] = set()
            ids: dict[str, bytes] = {}
            for name in sorted(names):
                error = results.errors.get(name)
                if name not in results or (isinstance(error, BrokerError) and error.error_code in _UNKNOWN):
                    missing.append(name)
                else:
                    topic = results[name]
                    ids[name] = topic.topic_id
                    partitions |= {TopicPartition(name, item.partition) for item in topic.partitions}
            unexpected = [name for name in missing if name not in known]
            if unexpected:
                raise MissingTopicError(
                    f"unknown topic {', '.join(unexpected)} ({self._options.subscription}): "
                    "create it first, or correct the name"
                )
            return SubscribedTopics(frozenset(partitions), ids)

        return self._retried(ask)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Positions:
        if not wanted:
            return {}
        is_committed = self._options.ends_where_stable
        found = self._retried(lambda: self.admin.list_offsets(wanted, read_committed=is_committed).unwrap())
        return {partition: listed.offset for partition, listed in found.items()}

    def offsets_again(self, wanted: Mapping[TopicPartition, int], at_least: Positions) -> Positions:
        """Retry until no offset is below the one seen before, or the retries are used up."""
        found: Positions = {}
        for _ in range(self._options.lookup_attempts - 1):
            self._sleep(self._options.lookup_retry_ms / 1000)
            found = self.offsets(wanted)
            if all(offset >= at_least.get(partition, 0) for partition, offset in found.items()):
                break
        return found or self.offsets(wanted)

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Positions:
        found = self._retried(
            lambda: self.admin.list_group_offsets(group_id, sorted(partitions), require_stable=True)
        )
        return {partition: item.offset for partition, item in found.items()}

    def commit(self, group_id: str, positions: Positions, *, timeout_s: float) -> None:
        """Commit for a group without members; raises the first error."""
        self.admin.alter_group_offsets(group_id, positions, timeout=timeout_s).unwrap()

    def _retried(self, ask: Callable[[], T]) -> T:
        """Call with retries: the metadata of a new or moved topic may be outdated."""
        attempts = self._options.lookup_attempts
        for attempt in range(1, attempts + 1):
            try:
                return ask()
            except KlammTimeoutError:
                raise  # each request has its own time-out already
            except BrokerError as error:
                if attempt == attempts:
                    raise
                log.warning("attempt %d of %d to look up offsets failed: %s", attempt, attempts, error)
                self._sleep(self._options.lookup_retry_ms / 1000)
        raise AssertionError("there is at least one attempt")


_UNKNOWN = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.invalid_topic_exception,
)


def _only(found: SubscribedTopics, wanted: Collection[TopicPartition]) -> SubscribedTopics:
    return SubscribedTopics(found.partitions & frozenset(wanted), found.ids)
