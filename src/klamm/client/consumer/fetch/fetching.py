"""Fetching ahead: one request in flight per broker, for what may be fetched and is not buffered yet."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from klamm.client.consumer.fetch.buffer import Buffered, FetchBuffer
from klamm.client.consumer.fetch.fetch_session import FINAL_EPOCH, NodeFetchSession, SessionPart, Wanted
from klamm.client.consumer.fetch.fetched import Fetched
from klamm.client.consumer.polling.inbox import Inbox
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import PartitionState, PositionStatus, SubscriptionState
from klamm.client.runtime import Core
from klamm.errors import KlammError, OffsetOutOfRangeError, broker_error
from klamm.net.network import Node
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from klamm.protocol.types import ZERO_ID, TopicPartition

log = logging.getLogger(__name__)

NAMES_VERSION: Final = 12  # the last version with topic names; later ones use topic ids
NEEDS_METADATA: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
ASK_AGAIN: Final = frozenset({ErrorCode.unknown_leader_epoch, ErrorCode.unknown_server_error})
EARLIEST: Final = -2
LATEST: Final = -1
POLICIES: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}


class Fetching:
    """Sends fetches and puts their data into the buffer. Runs on the client's thread."""

    def __init__(
        self,
        core: Core,
        settings: ConsumerSettings,
        state: SubscriptionState,
        buffer: FetchBuffer,
        inbox: Inbox,
    ) -> None:
        self._core = core
        self._settings = settings
        self._state = state
        self._buffer = buffer
        self._inbox = inbox
        self._sessions: dict[int, NodeFetchSession] = {}
        self._in_flight: set[int] = set()
        self._not_before_ms: dict[int, int] = {}  # brokers that throttle this client
        self.request_count = self.answer_count = 0
        self.answers_ms = 0
        self.received_bytes = 0

    def send(self) -> int | None:
        """Send what may be sent; when something that must wait may be sent."""
        now_ms = self._core.now_ms
        wanted: dict[int, dict[TopicPartition, Wanted]] = defaultdict(dict)
        news: set[int] = set()  # brokers that are known to respond at once
        busy: set[int] = set()  # brokers that have more than the caller has taken
        due_ms: int | None = None
        with self._state.lock:
            buffered = self._buffer.partitions()
            for partition, state in self._state.partitions.items():
                if not state.is_fetchable:
                    continue
                is_ahead = state.ahead_offset >= 0 and state.ahead_offset != state.asked_offset
                held = None if is_ahead else buffered.get(partition)
                if held is not None and not held.has_more:
                    continue
                if now_ms < state.retry_at_ms:
                    due_ms = state.retry_at_ms if due_ms is None else min(due_ms, state.retry_at_ms)
                    continue
                node_id = self._node_for(partition, state, now_ms)
                if node_id is None:
                    continue
                if held is not None and not held.wants_more:
                    busy.add(node_id)
                    continue
                item = wanted[node_id][partition] = self._wanted(partition, state, held)
                if not self._buffer.is_at_end(state, item.offset):
                    news.add(node_id)
        for node_id, partitions in wanted.items():
            waits_until_ms = self._not_before_ms.get(node_id, 0)
            if node_id in self._in_flight:
                continue
            if node_id in busy and node_id not in news:
                # It would wait there for new records, and data the caller needs would wait behind it.
                continue
            if now_ms < waits_until_ms:
                due_ms = waits_until_ms if due_ms is None else min(due_ms, waits_until_ms)
                continue
            self._fetch(node_id, partitions)
        return due_ms

    def _node_for(self, partition: TopicPartition, state: PartitionState, now_ms: int) -> int | None:
        cluster = self._core.metadata.cluster
        if state.read_replica >= 0:
            if now_ms < state.read_replica_until_ms and state.read_replica in cluster.brokers:
                return state.read_replica
            state.read_replica = -1
        info = cluster.partition(partition)
        if info is None or info.leader_id not in cluster.brokers:
            if partition.topic in cluster.topics:
                self._core.metadata.request_update()
                state.retry_at_ms = now_ms + self._settings.retry_backoff_ms
            return None
        return info.leader_id

    def _wanted(self, partition: TopicPartition, state: PartitionState, held: Buffered | None) -> Wanted:
        topic = self._core.metadata.cluster.topics.get(partition.topic)
        if held is not None:
            offset = held.end_offset
        else:
            offset = state.ahead_offset if state.ahead_offset >= 0 else state.offset
        return Wanted(
            topic.topic_id if topic else ZERO_ID,
            offset,
            state.current_leader_epoch,
            self._settings.max_partition_fetch_bytes,
        )

    def _fetch(self, node_id: int, partitions: dict[TopicPartition, Wanted]) -> None:
        session = self._sessions.setdefault(node_id, NodeFetchSession())
        part = session.build(partitions)
        self._in_flight.add(node_id)
        self.request_count += 1
        asked_at_ms = self._core.now_ms
        self._note_asked({partition: item.offset for partition, item in partitions.items()})

        def done(response: FetchResponse | None, error: KlammError | None) -> None:
            self._in_flight.discard(node_id)
            if response is not None:
                self.answer_count += 1
                self.answers_ms += self._core.now_ms - asked_at_ms
                self._answered(node_id, session, partitions, response)
            else:
                self._failed(node_id, session, partitions, error)

        self._call(node_id, part, self._settings.fetch_max_wait_ms, done)

    def _note_asked(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self._state.lock:
            for partition, offset in offsets.items():
                if partition in self._state.partitions:
                    self._state.partitions[partition].asked_offset = offset

    def _call(
        self,
        node_id: int,
        part: SessionPart,
        max_wait_ms: int,
        done: Callable[[FetchResponse | None, KlammError | None], None],
    ) -> None:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=int(self._settings.is_read_committed),
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            rack_id=self._settings.client_rack,
        )
        max_version = 32767 if part.uses_topic_ids else NAMES_VERSION
        self._core.network.call(
            fetch_node(node_id),
            Call(ApiKey.FETCH, request, done, self._settings.request_timeout_ms, max_version),
        )

    def _failed(
        self,
        node_id: int,
        session: NodeFetchSession,
        asked: Mapping[TopicPartition, Wanted],
        error: KlammError | None,
    ) -> None:
        if not self._core.network.is_closing:
            log.info("fetch from broker %d failed: %s", node_id, error)
        session.replace()
        self._core.metadata.request_update()
        self._note_asked(dict.fromkeys(asked, -1))
        with self._state.lock:
            for partition in asked:
                state = self._state.partitions.get(partition)
                if state is not None and state.read_replica == node_id:
                    state.read_replica = -1
        if error is not None and not error.retriable:
            self._not_before_ms[node_id] = self._core.now_ms + self._settings.retry_backoff_max_ms
            self._inbox.fail(error)

    def _answered(
        self,
        node_id: int,
        session: NodeFetchSession,
        asked: Mapping[TopicPartition, Wanted],
        response: FetchResponse,
    ) -> None:
        if response.throttle_time_ms > 0:
            self._not_before_ms[node_id] = self._core.now_ms + response.throttle_time_ms
        if response.error_code:
            self._refused(node_id, session, response.error_code)
            return
        names = {
            topic.topic_id: session.name_of(topic.topic_id)
            for topic in response.responses
            if topic.topic_id != ZERO_ID
        }
        session.answered(response.session_id)
        if response.node_endpoints:
            self._core.metadata.learn_brokers(
                {item.node_id: (item.host, item.port, item.rack) for item in response.node_endpoints}
            )
        is_news = False
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if partition in asked:
                    is_news |= self._received(node_id, partition, asked[partition], data)
        if is_news:
            self._inbox.signal.set()

    def _refused(self, node_id: int, session: NodeFetchSession, error_code: int) -> None:
        """The whole request was refused: begin a new session."""
        match error_code:
            case ErrorCode.fetch_session_id_not_found:
                session.reset()
            case ErrorCode.invalid_fetch_session_epoch:
                session.replace()
            case ErrorCode.fetch_session_topic_id_error:
                session.replace()
                self._core.metadata.request_update()
            case _:
                session.reset()
                self._core.metadata.request_update()
                self._not_before_ms[node_id] = self._core.now_ms + self._settings.retry_backoff_ms

    def _received(self, node_id: int, partition: TopicPartition, asked: Wanted, data: PartitionData) -> bool:
        """Process one partition of a response; returns whether the poller has something to do."""
        offset = asked.offset
        with self._state.lock:
            state = self._state.partitions.get(partition)
            if state is None or state.topic_id not in (asked.topic_id, ZERO_ID):
                return False  # revoked, or of a topic that was deleted meanwhile
            if data.error_code:
                return self._partition_refused(node_id, partition, state, offset, data)
            if data.preferred_read_replica >= 0:
                state.read_replica = data.preferred_read_replica
                state.read_replica_until_ms = self._core.now_ms + self._core.metadata.max_age_ms
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
        if not data.records:
            return False
        self.received_bytes += len(data.records)
        aborted = [(item.producer_id, item.first_offset) for item in data.aborted_transactions or ()]
        self._buffer.add(Fetched(partition, offset, data.records, self._settings, aborted))
        return True

    def _partition_refused(
        self,
        node_id: int,
        partition: TopicPartition,
        state: PartitionState,
        offset: int,
        data: PartitionData,
    ) -> bool:
        code = data.error_code
        metadata = self._core.metadata
        if code in NEEDS_METADATA:
            was_follower = state.read_replica == node_id
            state.read_replica = -1
            metadata.request_update()
            leader = data.current_leader
            if leader is not None and leader.leader_id >= 0:
                is_new = metadata.learn_leader(partition, leader.leader_id, leader.leader_epoch)
                if is_new:
                    return False
            if not was_follower:
                state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
            return False
        if code in ASK_AGAIN:
            state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
            return False
        if code == ErrorCode.offset_out_of_range:
            return self._out_of_range(node_id, partition, state, offset)
        error = broker_error(code, f"fetching {partition} at offset {offset}")
        state.retry_at_ms = self._core.now_ms + self._settings.retry_backoff_ms
        self._buffer.add(Fetched(partition, offset, b"", self._settings, error=error))
        return True

    def _out_of_range(
        self, node_id: int, partition: TopicPartition, state: PartitionState, offset: int
    ) -> bool:
        if state.status is not PositionStatus.FETCHING or offset != state.offset:
            return False  # a seek changed the position meanwhile
        if state.read_replica == node_id:
            state.read_replica = -1  # a follower may lag behind: the leader decides
            return False
        policy = POLICIES.get(self._settings.reset_policy)
        if policy is not None:
            log.info(
                "%s: offset %d is out of range, resetting to %s",
                partition,
                offset,
                self._settings.reset_policy,
            )
            state.request_reset(policy)
        else:
            out_of_range = OffsetOutOfRangeError({partition: offset})
            self._buffer.add(Fetched(partition, offset, b"", self._settings, error=out_of_range))
        return True

    def end_sessions(self) -> None:
        """Close the fetch sessions, without waiting for responses."""
        for node_id, session in self._sessions.items():
            if session.session_id and self._core.network.is_ready(fetch_node(node_id)):
                part = SessionPart(session.session_id, FINAL_EPOCH, [], [], True)
                self._call(node_id, part, 0, lambda _response, _error: None)
        self._sessions.clear()


def fetch_node(node_id: int) -> Node:
    """A connection for fetches alone: a broker answers in order, and a fetch may wait for data."""
    return Node("fetch", node_id)
