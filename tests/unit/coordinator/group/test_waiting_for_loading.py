"""Requests that arrive while their shard is loaded: they wait for it, but not for long."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.coordinator import GroupCoordinator
from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import OffsetCommitted
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_fetch import OffsetFetchResponse
from klamm.records.layout import OffsetCommitValue
from unit.coordinator.asking import DELAY_MS, Call, commit_errors
from unit.coordinator.driver import World

OK = ErrorCode.none
LOADING = ErrorCode.coordinator_load_in_progress
T0 = ("t", 0)
PATIENCE_MS = 1_000


class PatientWorld(World):
    """As in a broker. Its log has one offset, and is not loaded yet."""

    def __init__(self) -> None:
        super().__init__(elect=False)
        offset = OffsetCommitted("g", "t", 0, OffsetCommitValue(5))
        self.log.append(encode_records([offset], 0), now_ms=0, timestamp_ms=0)
        self.elect(0)

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            partition_count=self.partition_count,
            topics=self.topics,
            host=self,
            loading_patience_ms=PATIENCE_MS,
        )


def offset_in(call: Call[OffsetFetchResponse]) -> int:
    ((answer,),) = (topic.partitions for topic in call.response.topics)
    return answer.committed_offset


def test_requests_are_decided_in_their_order_when_the_shard_is_loaded() -> None:
    world = PatientWorld()
    before = world.fetch_later(T0)
    commit = world.commit({T0: 6})
    transaction = world.txn_commit({("t", 1): 7})
    after = world.fetch_later(T0)
    listed = world.ask(ListGroupsRequest())
    calls = (before, commit, transaction, after, listed)
    world.pass_ms(PATIENCE_MS - 1)
    assert not any(call.is_answered for call in calls)
    world.load_all()
    assert (offset_in(before), offset_in(after)) == (5, 6)
    assert commit_errors(commit) == {T0: OK}
    assert commit_errors(transaction) == {("t", 1): OK}
    assert [group.group_id for group in listed.response.groups] == ["g"]
    world.pass_ms(10 * PATIENCE_MS)
    assert all(call.is_answered for call in calls)


def test_a_request_that_has_waited_for_too_long_is_refused_as_in_kafka() -> None:
    world = PatientWorld()
    fetch = world.fetch_later(T0)
    world.pass_ms(PATIENCE_MS // 2)
    commit = world.commit({T0: 6})
    listed = world.ask(ListGroupsRequest())
    world.pass_ms(PATIENCE_MS // 2)
    assert fetch.error is LOADING
    assert not commit.is_answered
    assert not listed.is_answered
    world.pass_ms(PATIENCE_MS // 2)
    assert commit_errors(commit) == {T0: LOADING}
    assert (listed.error, list(listed.response.groups)) == (LOADING, [])
    world.load_all()
    assert world.fetch() == {T0: (5, OK)}


def test_a_heartbeat_does_not_wait() -> None:
    world = PatientWorld()
    assert world.heartbeat("m", 1) is OK


def test_a_join_that_waited_counts_from_when_the_shard_is_loaded() -> None:
    world = PatientWorld()
    join = world.join()
    world.pass_ms(PATIENCE_MS - 1)
    world.load_all()
    world.pass_ms(DELAY_MS - 1)
    assert not join.is_answered
    world.pass_ms(1)
    assert join.error is OK


@pytest.mark.parametrize("reason", ["leadership", "stop", "log"])
def test_when_the_shard_is_not_served_after_all_those_who_wait_are_told(reason: str) -> None:
    world = PatientWorld()
    commit = world.commit({T0: 6})
    expected = ErrorCode.not_coordinator
    if reason == "leadership":
        world.coordinator.shards.resign(0, 2)
    elif reason == "stop":
        world.coordinator.shards.stop()
        expected = ErrorCode.coordinator_not_available
    else:
        world.log.is_readable = False
        world.load_all()
    assert commit_errors(commit) == {T0: expected}
    assert world.coordinator.shards.next_check_ms() is None


def test_a_failed_flush_sends_everybody_to_look_again_and_later_requests_wait() -> None:
    world = PatientWorld()
    world.load_all()
    world.log.is_holding = True
    lost = world.commit({T0: 6})
    world.fail_flush()
    assert commit_errors(lost) == {T0: ErrorCode.not_coordinator}
    world.log.is_holding = False
    again = world.commit({T0: 7})
    assert not again.is_answered
    world.load_all()
    assert commit_errors(again) == {T0: OK}
    assert world.fetch() == {T0: (7, OK)}
