"""Answers to accepted commits: they differ by topic and partitions only, so that most are made once."""

from __future__ import annotations

from typing import Final

from klamm.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.records.core import TopicCommits

MOST_ANSWERS: Final = 1_000
MOST_PARTITIONS: Final = 64  # of an answer that is kept


class CommitAnswers:
    """The answers that were made last. They are shared, and never changed."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[bytes, str, bytes], OffsetCommitResponse] = {}

    def of(self, topic_id: bytes, topic: str, commits: TopicCommits) -> OffsetCommitResponse:
        """The answer to a commit of one topic that is accepted as a whole."""
        key = topic_id, topic, commits.partition_bytes()
        answer = self._made.get(key)
        if answer is None:
            partitions = commits.partitions()
            answers = [OffsetCommitResponsePartition(partition) for partition in partitions]
            answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id, topic, answers)])
            if len(partitions) <= MOST_PARTITIONS:
                if len(self._made) >= MOST_ANSWERS:
                    self._made.clear()
                self._made[key] = answer
        return answer
