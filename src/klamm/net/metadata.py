"""Refreshes the metadata snapshot: which topics to request, when, and from which broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.errors import AuthenticationError, KlammError, NoBrokersError
from klamm.net.cluster import BrokerInfo, Cluster
from klamm.net.network import Address, Network, Node, backoff_ms
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)

MISSING_GRACE_MS: Final = 1_000  # a topic that a broker creates on demand exists by then


@dataclass(frozen=True, slots=True)
class MetadataConfig:
    """The settings that concern metadata."""

    max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    allow_auto_topic_creation: bool = True


class Metadata:
    """Sends one request at a time; callers request topics and are notified when they arrive."""

    def __init__(self, network: Network, config: MetadataConfig) -> None:
        self._network = network
        self._config = config
        self.cluster = Cluster()
        self.version = 0  # the number of the newest request that was answered
        self._sent = 0  # requests so far
        self.error: KlammError | None = None  # the last attempt's, None after a success
        self._topics: set[str] | None = set()  # None: all topics
        self._is_wanted = True
        self._in_flight = False
        self._refreshed_at_ms: int | None = None
        self._attempt = 0
        self._retry_at_ms = 0
        self._listeners: list[Callable[[Cluster], None]] = []
        self._refusal_listeners: list[Callable[[AuthenticationError], None]] = []
        self._missing: dict[str, int] = {}  # wanted topics that do not exist, and since when
        self._reported: set[str] = set()  # those of which a warning was logged

    def listen(self, listener: Callable[[Cluster], None]) -> None:
        """Call a listener with every new snapshot."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Cluster], None]) -> None:
        """Remove a listener."""
        self._listeners.remove(listener)

    def listen_for_refusal(self, listener: Callable[[AuthenticationError], None]) -> None:
        """Call a listener when an attempt ends with a refused login: who waits for metadata should not."""
        self._refusal_listeners.append(listener)

    def unlisten_for_refusal(self, listener: Callable[[AuthenticationError], None]) -> None:
        """Remove a listener."""
        self._refusal_listeners.remove(listener)

    def want(self, topics: Iterable[str]) -> None:
        """Keep these topics in the snapshot, in addition to the present ones."""
        if self._topics is None:
            return
        added = set(topics) - self._topics
        if added:
            self._topics |= added
            self.request_update()

    def want_only(self, topics: Iterable[str]) -> None:
        """Keep just these topics."""
        wanted = set(topics)
        if self._topics is None or wanted - self._topics:
            self.request_update()
        self._topics = wanted

    def want_all(self) -> None:
        """Keep every topic there is: pattern subscriptions need it."""
        if self._topics is not None:
            self._topics = None
            self.request_update()

    def lacks(self, topic: str) -> bool:
        """Whether the last answer that should have named a topic did not have it."""
        if self.cluster.errors.get(topic) == ErrorCode.unknown_topic_or_partition:
            return True
        return self._topics is None and self.version > 0 and topic not in self.cluster.topics

    @property
    def max_age_ms(self) -> int:
        """The age at which a snapshot is requested again."""
        return self._config.max_age_ms

    def learn_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Apply a leader that a response named; False if it is not newer."""
        cluster = self.cluster.with_leader(partition, leader_id, leader_epoch)
        is_new = cluster is not self.cluster
        self.cluster = cluster
        return is_new

    def learn_brokers(self, brokers: Mapping[int, tuple[str, int, str | None]]) -> None:
        """Add brokers that a response named."""
        self.cluster = self.cluster.with_brokers(
            [BrokerInfo(number, host, port, rack) for number, (host, port, rack) in brokers.items()]
        )
        self._network.set_brokers(self._addresses())

    def _addresses(self) -> dict[int, Address]:
        return {broker.broker_id: (broker.host, broker.port) for broker in self.cluster.brokers.values()}

    def request_update(self) -> int:
        """Request metadata soon; returns the lowest version that its response will have.

        A request in flight may have been answered before what the caller has just learned: it does not count.
        """
        self._is_wanted = True
        return self._sent + 1

    def tick(self, now_ms: int) -> int | None:
        """Send what is due; when to be called again."""
        if self._in_flight:
            return None
        due_ms = self._due_ms(now_ms)
        if now_ms < due_ms:
            return due_ms
        node = self._network.least_loaded()
        if node is None:
            return self._network.retry_at_ms()
        self._ask(node)
        return None

    def _due_ms(self, now_ms: int) -> int:
        if self._is_wanted or self._refreshed_at_ms is None:
            return max(self._retry_at_ms, 0) if self._retry_at_ms > now_ms else now_ms
        return self._refreshed_at_ms + self._config.max_age_ms

    def _ask(self, node: Node) -> None:
        asked = None if self._topics is None else frozenset(self._topics)
        topics = None if asked is None else [MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=self._config.allow_auto_topic_creation
        )
        self._in_flight = True
        self._is_wanted = False
        self._sent += 1

        def done(response: MetadataResponse | None, error: KlammError | None) -> None:
            self._answered(response, error, is_complete=asked is None)

        timeout_ms = self._network.config.request_timeout_ms
        self._network.call(node, Call(ApiKey.METADATA, request, done, timeout_ms))

    def _answered(
        self, response: MetadataResponse | None, error: KlammError | None, *, is_complete: bool
    ) -> None:
        self._in_flight = False
        now_ms = self._network.now_ms
        if response is None or not response.brokers:
            self.error = self._explain(error)
            self._back_off(now_ms)
            self._is_wanted = True
            if isinstance(self.error, AuthenticationError):
                for refusal_listener in list(self._refusal_listeners):
                    refusal_listener(self.error)
            return
        self.error = None
        self._refreshed_at_ms = now_ms
        self.version = self._sent  # one at a time: it is the last one sent
        self.cluster = self.cluster.updated(response, is_complete=is_complete)
        self._network.set_brokers(self._addresses())
        if self._has_retriable_errors():
            self._back_off(now_ms)
            self._is_wanted = True
        else:
            self._attempt = 0
            self._retry_at_ms = 0
        for listener in list(self._listeners):
            listener(self.cluster)
        # Afterwards: a consumer is to be seen to rejoin before its topic is seen to exist.
        self._note_missing(now_ms)

    def missing_topics(self) -> list[str]:
        """Wanted topics that did not exist for a while; safe to call from any thread."""
        return sorted(self._reported)

    def _note_missing(self, now_ms: int) -> None:
        """Log one warning for a topic that stays away; one that is created on demand comes at once."""
        errors, wanted = self.cluster.errors, self._topics or set()
        missing = {name for name in wanted if errors.get(name) == ErrorCode.unknown_topic_or_partition}
        for name in missing:
            since_ms = self._missing.setdefault(name, now_ms)
            if name not in self._reported and now_ms - since_ms >= MISSING_GRACE_MS:
                self._reported.add(name)
                client_id = self._network.config.client_id
                log.warning("client %s: topic %s does not exist; waiting for it", client_id, name)
        for name in self._missing.keys() - missing:
            del self._missing[name]
            if name in self._reported:
                self._reported.discard(name)
                log.info("client %s: topic %s: no longer missing", self._network.config.client_id, name)

    def _back_off(self, now_ms: int) -> None:
        wait_ms = backoff_ms(
            self._config.retry_backoff_ms,
            self._config.retry_backoff_max_ms,
            self._attempt,
            self._network.random,
        )
        self._attempt += 1
        self._retry_at_ms = now_ms + wait_ms

    def _has_retriable_errors(self) -> bool:
        if any(
            code in (ErrorCode.leader_not_available, ErrorCode.unknown_topic_or_partition)
            for code in self.cluster.errors.values()
        ):
            return True
        return any(
            partition.leader_id < 0
            for topic in self.cluster.topics.values()
            for partition in topic.partitions.values()
        )

    def _explain(self, error: KlammError | None) -> KlammError:
        if isinstance(error, AuthenticationError):
            return error
        causes = self._network.failures
        if self.cluster.brokers or not causes:
            return error or NoBrokersError("the cluster answered without any broker")
        lines = "; ".join(str(failure) for failure in causes.values())
        return NoBrokersError(f"no bootstrap server can be reached: {lines}")
