"""Incremental fetch sessions (KIP-227), the client's side: after the first request only changes are sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from klamm.protocol.types import ZERO_ID, TopicPartition

FULL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What to fetch of one partition."""

    topic_id: bytes
    offset: int
    current_leader_epoch: int
    max_bytes: int


class SessionPart(NamedTuple):
    """The part of a fetch request that concerns the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    uses_topic_ids: bool


class NodeFetchSession:
    """One node's session. `build` and `answered` alternate, as one request at a time is in flight."""

    def __init__(self) -> None:
        self.session_id = 0
        self._next_epoch = FULL_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}
        self._uses_topic_ids = True

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic that an id meant when it was last sent."""
        return next((key.topic for key, item in self._known.items() if item.topic_id == topic_id), None)

    def build(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionPart:
        """The next request: all partitions in a new session, the changes in an existing one."""
        uses_topic_ids = all(item.topic_id != ZERO_ID for item in wanted.values())
        if uses_topic_ids != self._uses_topic_ids:
            self.reset()
            self._uses_topic_ids = uses_topic_ids
        is_full = self._next_epoch == FULL_EPOCH
        before = {} if is_full else self._known
        changed = {key: item for key, item in wanted.items() if before.get(key) != item}
        gone = [
            (key, item)
            for key, item in before.items()
            if key not in wanted or wanted[key].topic_id != item.topic_id
        ]
        self._known = dict(wanted)
        return SessionPart(
            self.session_id, self._next_epoch, _topics(changed), _forgotten(gone), uses_topic_ids
        )

    def answered(self, session_id: int) -> None:
        """The broker accepted the request; 0: it keeps no session."""
        if session_id == 0:
            self.reset()
            return
        is_same = session_id == self.session_id
        self.session_id = session_id
        self._next_epoch = 1 if not is_same or self._next_epoch >= MAX_EPOCH else self._next_epoch + 1

    def reset(self) -> None:
        """Start a new session: the broker dropped it, or its state is unknown."""
        self.session_id = 0
        self._next_epoch = FULL_EPOCH

    def replace(self) -> None:
        """Start a new session, and have the broker close the old one."""
        self._next_epoch = FULL_EPOCH


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    grouped: dict[tuple[str, bytes], list[FetchPartition]] = defaultdict(list)
    for (topic, number), item in wanted.items():
        grouped[topic, item.topic_id].append(
            FetchPartition(
                partition=number,
                current_leader_epoch=item.current_leader_epoch,
                fetch_offset=item.offset,
                partition_max_bytes=item.max_bytes,
            )
        )
    return [FetchTopic(topic_id, name, items) for (name, topic_id), items in grouped.items()]


def _forgotten(gone: list[tuple[TopicPartition, Wanted]]) -> list[ForgottenTopic]:
    grouped: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for (topic, number), item in gone:
        grouped[topic, item.topic_id].append(number)
    return [ForgottenTopic(topic_id, name, numbers) for (name, topic_id), numbers in grouped.items()]
