"""Incremental fetch sessions (KIP-227): the broker stores what a client fetches and what it has sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.clock import Clock
from klamm.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.protocol.messages.fetch import FetchRequest, PartitionData

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0  # requests a session
FINAL_EPOCH: Final = -1  # no session, or close it
MAX_EPOCH: Final = 2**31 - 1
EVICTABLE_AFTER_MS: Final = 120_000
# Kafka keeps sessions in eight parts, each for a range of ids, and fails if an id is in none of them.
_IDS_PER_PART: Final = (2**31 - 1) // 8
_ID_LIMIT: Final = 8 * _IDS_PER_PART

TargetKey = tuple[bytes | str, int]  # (topic id or name, partition)


@dataclass(slots=True)
class FetchTarget:
    """A partition that a client fetches, from where and how much; and what was last sent about it."""

    key: TargetKey
    topic: str  # "" when the client names topics by id
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int
    found_as: str = ""  # the name for the id: a session reports a deleted topic by name, as Kafka does
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def tell(self, data: PartitionData) -> bool:
        """Store what a response contains; whether any of it is new to the client."""
        is_news = bool(data.records) or data.error_code != 0 or data.diverging_epoch is not None
        if data.high_watermark != self.told_high_watermark:
            self.told_high_watermark, is_news = data.high_watermark, True
        if data.log_start_offset != self.told_log_start_offset:
            self.told_log_start_offset, is_news = data.log_start_offset, True
        if data.error_code:
            # The recovery from an error is a change as well.
            self.told_high_watermark = -1
        return is_news


@dataclass(slots=True)
class FetchSession:
    """The partitions that one client fetches repeatedly."""

    session_id: int
    uses_topic_ids: bool
    targets: dict[TargetKey, FetchTarget]
    created_at_ms: int
    used_at_ms: int
    epoch: int = 1  # the next request's

    def update(self, wanted: Mapping[TargetKey, FetchTarget], forgotten: Iterable[TargetKey]) -> None:
        """Apply the changes since the last request."""
        for key, target in wanted.items():
            known = self.targets.get(key)
            if known is None:
                self.targets[key] = target
                continue
            known.current_leader_epoch = target.current_leader_epoch
            known.fetch_offset = target.fetch_offset
            known.last_fetched_epoch = target.last_fetched_epoch
            known.max_bytes = target.max_bytes
        for key in forgotten:
            self.targets.pop(key, None)


@dataclass(slots=True)
class FetchPlan:
    """What one request fetches, and how its response changes the session."""

    targets: list[FetchTarget]
    error_code: ErrorCode = ErrorCode.none  # of the session: nothing is fetched
    session: FetchSession | None = None  # an incremental fetch
    epoch: int = 0  # the session's after this request
    creates: bool = False  # a full fetch that requests a session
    uses_topic_ids: bool = False


@dataclass(slots=True)
class FetchAnswer:
    """The data to send, and its session."""

    error_code: ErrorCode
    session_id: int
    data: list[tuple[FetchTarget, PartitionData]] = field(default_factory=list)


class FetchSessions:
    """All sessions, by id; not bound to connections."""

    def __init__(self, clock: Clock, random: Random, slots: int) -> None:
        self._clock = clock
        self._random = random
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def target_count(self) -> int:
        """Number of partitions in all sessions."""
        return sum(len(session.targets) for session in self._sessions.values())

    def plan(self, request: FetchRequest) -> FetchPlan:
        """What this request fetches."""
        wanted = _wanted(request)
        session_id, epoch = request.session_id, request.session_epoch
        if not -_IDS_PER_PART < session_id < _ID_LIMIT:
            return FetchPlan([], ErrorCode.unknown_server_error)
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION_ID:
                self._sessions.pop(session_id, None)
            return FetchPlan(
                list(wanted.values()),
                creates=epoch == INITIAL_EPOCH,
                uses_topic_ids=request.uses_topic_ids,
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchPlan([], ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            return FetchPlan([], ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != request.uses_topic_ids:
            return FetchPlan([], ErrorCode.fetch_session_topic_id_error)
        session.update(wanted, _forgotten(request))
        if not session.targets:
            del self._sessions[session_id]
            return FetchPlan(list(wanted.values()))
        self._touch(session)
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return FetchPlan(list(session.targets.values()), session=session, epoch=session.epoch)

    def answer(self, plan: FetchPlan, data: list[tuple[FetchTarget, PartitionData]]) -> FetchAnswer:
        """Select what to send, and store it in the session."""
        if plan.session is not None:
            return self._incremental(plan.session, plan.epoch, data)
        if not plan.creates:
            return FetchAnswer(ErrorCode.none, NO_SESSION_ID, data)
        return FetchAnswer(ErrorCode.none, self._create(plan, data), data)

    def _incremental(
        self, session: FetchSession, epoch: int, data: list[tuple[FetchTarget, PartitionData]]
    ) -> FetchAnswer:
        if session.epoch != epoch:
            return FetchAnswer(ErrorCode.invalid_fetch_session_epoch, NO_SESSION_ID)
        news = []
        for target, partition_data in data:
            if not target.tell(partition_data):
                continue
            news.append((target, partition_data))
            if partition_data.records and target.key in session.targets:
                # Partitions with data move to the end: every partition gets its turn in small responses.
                session.targets[target.key] = session.targets.pop(target.key)
        return FetchAnswer(ErrorCode.none, session.session_id, news)

    def _create(self, plan: FetchPlan, data: list[tuple[FetchTarget, PartitionData]]) -> int:
        now_ms = self._clock.now_ms()
        if not self._make_room(now_ms, len(plan.targets)):
            return NO_SESSION_ID
        for target, partition_data in data:
            target.tell(partition_data)
        session_id = self._random.randrange(1, _ID_LIMIT)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, _ID_LIMIT)
        targets = {target.key: target for target, _ in data}  # in the order of the response, as in Kafka
        self._sessions[session_id] = FetchSession(session_id, plan.uses_topic_ids, targets, now_ms, now_ms)
        return session_id

    def _make_room(self, now_ms: int, partitions: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_at_ms > EVICTABLE_AFTER_MS:
            self._evict(oldest)
            return True
        settled = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_at_ms > EVICTABLE_AFTER_MS and len(session.targets) < partitions
        ]
        if not settled:
            return False
        self._evict(min(settled, key=lambda session: len(session.targets)))
        return True

    def _evict(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self.evictions += 1

    def _touch(self, session: FetchSession) -> None:
        session.used_at_ms = self._clock.now_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)


def _wanted(request: FetchRequest) -> dict[TargetKey, FetchTarget]:
    """The targets of a request; of a repeated partition the last one counts."""
    wanted: dict[TargetKey, FetchTarget] = {}
    for topic in request.topics:
        name: bytes | str = topic.topic_id if request.uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (name, partition.partition)
            wanted[key] = FetchTarget(
                key,
                topic.topic,
                topic.topic_id,
                partition.partition,
                partition.current_leader_epoch,
                partition.fetch_offset,
                partition.last_fetched_epoch,
                partition.partition_max_bytes,
            )
    return wanted


def _forgotten(request: FetchRequest) -> list[TargetKey]:
    return [
        (topic.topic_id if request.uses_topic_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
