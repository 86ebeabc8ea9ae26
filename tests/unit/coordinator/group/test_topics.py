"""Which topics of a request exist."""

from __future__ import annotations

from copy import deepcopy

import pytest

from klamm.assignors.base import PartitionView
from klamm.coordinator.group.topics import KnownTopic, screen_commit
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.types import ZERO_ID

TOPIC = KnownTopic("t", bytes(15) + b"t", 2)


class OneTopic:
    """A cluster with the topic `t`."""

    version = 0

    def are_complete(self) -> bool:
        return True

    def names(self) -> tuple[str, ...]:
        return (TOPIC.name,)

    def partition_views(self, name: str) -> tuple[PartitionView, ...]:
        return ()

    def by_name(self, name: str) -> KnownTopic | None:
        return TOPIC if name == TOPIC.name else None

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return TOPIC if topic_id == TOPIC.topic_id else None


@pytest.mark.parametrize("partitions", [(0, 1), (0, 7)])
def test_screening_a_commit_leaves_the_request_as_it_came(partitions: tuple[int, ...]) -> None:
    asked = [OffsetCommitRequestPartition(each, committed_offset=5) for each in partitions]
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        group_instance_id="i",
        retention_time_ms=9,
        topics=[OffsetCommitRequestTopic(ZERO_ID, "t", asked)],
        knows_group_id_not_found=True,
        uses_topic_ids=False,
    )
    before = deepcopy(request)
    screened, refused = screen_commit(request, OneTopic())
    assert request == before
    existing = [each for each in asked if each.partition_index < TOPIC.partition_count]
    known = OffsetCommitRequestTopic(TOPIC.topic_id, "t", existing)
    assert screened == before.but(topics=[known])
    assert bool(refused) is (len(existing) < len(asked))
