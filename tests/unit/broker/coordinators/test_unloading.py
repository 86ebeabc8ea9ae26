"""A partition of __consumer_offsets that another broker takes over: the log says what is unloaded with it."""

from __future__ import annotations

import logging

import pytest

from internals.jar import Jar
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_the_log_names_the_groups_and_offsets_that_are_unloaded(caplog: pytest.LogCaptureFixture) -> None:
    jar = Jar({"offsets.topic.num.partitions": "1"})
    jar.create_topic("t", partitions=2)
    client = jar.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g", 0))
    jar.pass_ms(10)
    rows = [OffsetCommitRequestPartition(number, 5, -1, "") for number in range(2)]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(bytes(16), "t", rows)])
    client.ask(ApiKey.OFFSET_COMMIT, 7, commit)
    with caplog.at_level(logging.INFO):
        jar.services.groups.resign(0, 99)
        jar.services.groups.resign(0, 100)  # nothing is left
    told = [each.message for each in caplog.records if "no longer served" in each.message]
    assert told == ["__consumer_offsets-0 is no longer served: unloaded 1 groups with 2 offsets in 0 ms"]
    jar.close()
