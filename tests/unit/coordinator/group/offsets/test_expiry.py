"""Offsets and groups that nobody needs any more."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.events import GroupRemoved, OffsetsRemoved
from klamm.coordinator.group.offsets import expiry
from klamm.coordinator.group.remembered import GroupForgotten, OffsetForgotten
from klamm.coordinator.runtime import dividing
from klamm.groups.story import sentence
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import subscription
from unit.coordinator.driver import World

OK = ErrorCode.none
MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS
QUICK = GroupConfig(offsets_retention_minutes=10, offsets_retention_check_interval_ms=1)


def test_an_empty_group_keeps_its_offsets_for_the_retention_time_and_not_longer() -> None:
    world = World(QUICK)
    (member_id,) = world.stable(1)
    world.commit({("t", 0): 1, ("t2", 1): 2}, member_id=member_id, generation=1)
    world.leave(member_id)
    world.jump_ms(RETENTION_MS - 1)
    assert world.fetch(("t", 0)) == {("t", 0): (1, OK)}
    world.pass_ms(1)
    assert world.fetch(("t", 0)) == {("t", 0): (-1, OK)}
    assert world.listed() == {}
    assert world.log.decoded()[-3:] == [
        OffsetForgotten("g", "t", 0),
        OffsetForgotten("g", "t2", 1),
        GroupForgotten("g"),
    ]
    removed = [event for event in world.events if isinstance(event, OffsetsRemoved | GroupRemoved)]
    assert [type(event).__name__ for event in removed] == ["OffsetsRemoved", "GroupRemoved"]


def test_what_is_removed_says_how_old_it_was_and_how_long_it_was_kept() -> None:
    world = World(QUICK)
    (member_id,) = world.stable(1, session_ms=1_800_000)
    world.commit({("t", 0): 1}, member_id=member_id, generation=1)
    world.jump_ms(5_000)
    world.commit({("t", 1): 1}, member_id=member_id, generation=1)
    world.jump_ms(60_000)
    world.leave(member_id)
    world.jump_ms(RETENTION_MS)
    (removed,) = (event for event in world.events if isinstance(event, OffsetsRemoved))
    assert (removed.count, removed.retention_ms) == (2, RETENTION_MS)
    assert removed.last_commit_age_ms == RETENTION_MS + 60_000
    assert sentence(removed.as_json()) == (
        "2 committed offsets removed because the retention time is over: last committed 11.0 min ago, kept "
        "for 10.0 min."
    )


def test_a_working_group_loses_only_what_it_does_not_read() -> None:
    world = World(QUICK)
    (member_id,) = world.stable(1, protocols={"range": subscription("t1")}, session_ms=1_800_000)
    world.commit({("t1", 0): 1, ("t2", 0): 2}, member_id=member_id, generation=1)
    world.jump_ms(RETENTION_MS)
    assert world.fetch() == {("t1", 0): (1, OK)}
    assert world.phase() is Phase.STABLE


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_a_group_whose_topics_cannot_be_told_loses_nothing_while_it_works(protocol_type: str) -> None:
    world = World(QUICK)
    (member_id,) = world.stable(
        1, protocol_type=protocol_type, protocols={"p": b"\x00"}, session_ms=1_800_000
    )
    world.commit({("t2", 0): 2}, member_id=member_id, generation=1)
    world.jump_ms(RETENTION_MS)
    assert world.fetch() == {("t2", 0): (2, OK)}


def test_a_simple_group_expires_by_the_time_of_each_commit_without_a_group_tombstone() -> None:
    world = World(QUICK)
    world.commit({("t", 0): 1})
    world.pass_ms(1_000)
    world.commit({("t", 1): 2})
    world.jump_ms(RETENTION_MS - 1_000)
    assert world.fetch() == {("t", 1): (2, OK)}
    world.pass_ms(1_000)
    assert world.listed() == {}
    assert world.log.decoded()[-2:] == [OffsetForgotten("g", "t", 0), OffsetForgotten("g", "t", 1)]


def test_a_group_that_never_committed_is_gone_at_the_next_pass() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.leave(member_id)
    world.pass_ms(600_000)
    assert world.listed() == {}
    assert world.log.decoded()[-1] == GroupForgotten("g")


def test_a_group_of_pending_ids_only_is_gone_at_the_next_pass() -> None:
    world = World()
    member_id = world.join(version=4, session_ms=1_800_000).response.member_id
    world.pass_ms(600_000)
    assert world.listed() == {}
    assert world.log.batches == []
    assert world.join(member_id).error is ErrorCode.unknown_member_id


def test_the_longest_retention_does_not_overflow() -> None:
    world = World(GroupConfig(offsets_retention_minutes=2_147_483_647))
    world.commit({("t", 0): 1})
    world.jump_ms(365 * 24 * 60 * MINUTE_MS)
    assert world.fetch() == {("t", 0): (1, OK)}


def test_a_commit_on_its_way_to_the_disk_does_not_expire() -> None:
    world = World(QUICK)
    world.log.is_holding = True
    world.commit({("t", 0): 1})
    world.jump_ms(RETENTION_MS + 10)
    world.log.is_holding = False
    world.flush()
    assert world.log.decoded()[-1] != OffsetForgotten("g", "t", 0)
    world.pass_ms(1)
    assert world.listed() == {}


def test_what_cannot_be_written_expires_with_the_next_pass() -> None:
    world = World(QUICK)
    world.commit({("t", 0): 1})
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.jump_ms(RETENTION_MS + 10)
    assert world.fetch() == {("t", 0): (1, OK)}
    world.log.refuse_with = None
    world.pass_ms(1)
    assert world.listed() == {}


def test_a_pass_over_many_groups_goes_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "OFFSETS_AT_A_TIME", 2 * (expiry.GROUP_COST + 1))
    world = World(QUICK)
    for number in range(10):
        world.commit({("t", 0): 1}, group=f"g{number}")
    world.clock.advance(RETENTION_MS)
    world.shard.tick(world.context(), limit=1)
    assert len(world.listed()) == 8
    world.shard.tick(world.context(), limit=1)
    assert len(world.listed()) == 6
    world.shard.tick(world.context(), limit=100)
    assert world.listed() == {}


def test_more_tombstones_than_fit_in_a_batch_go_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "RECORDS_AT_ONCE", 5)
    world = World(QUICK)
    world.commit({("t", partition): 1 for partition in range(8)})
    written = len(world.log.batches)
    world.clock.advance(RETENTION_MS)
    world.shard.tick(world.context(), limit=1)
    assert world.listed() == {}
    assert len(world.log.batches) == written + 2
