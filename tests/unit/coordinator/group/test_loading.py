"""What a restart, a reload and a change of leadership bring back."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.loading import GroupLoader
from klamm.coordinator.group.records import encode_end, encode_offset, encode_records, offset_key
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    RegisteredMember,
    TransactionEnded,
)
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import stamp
from klamm.records.layout import OffsetCommitValue
from klamm.records.record import Record, encode_batch
from unit.coordinator.asking import assignment, subscription
from unit.coordinator.driver import World

OK = ErrorCode.none
T0 = ("t", 0)
OFFSET = OffsetCommitted("g", "t", 0, OffsetCommitValue(5))


MEMBER = RegisteredMember("m", None, "c", "/h", 60_000, 10_000, subscription("t"), assignment(T0))
REGISTERED = GroupRegistered("g", "consumer", 1, "range", "m", 0, (MEMBER,))


def loaded(*records: GroupRecord) -> World:
    """A coordinator that finds these records, one batch each."""
    world = World(elect=False)
    for record in records:
        world.log.append(encode_records([record], 0), now_ms=0, timestamp_ms=0)
    world.elect_all()
    return world


def test_a_restart_brings_back_members_generation_leader_and_offsets() -> None:
    world = World()
    leader_id, follower_id = world.stable(2)
    world.commit({T0: 7}, member_id=leader_id, generation=1)
    before = world.describe()
    world.restart()
    assert world.describe() == before
    assert (world.live().generation, world.live().leader_id) == (1, leader_id)
    assert world.fetch() == {T0: (7, OK)}
    assert world.heartbeat(follower_id, 1) is OK
    assert world.sync(follower_id, 1).response.assignment == assignment(("t", 1))


def test_sessions_run_afresh_after_a_restart() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.pass_ms(9_000)
    world.restart()
    world.pass_ms(9_999)
    assert world.phase() is Phase.STABLE
    world.pass_ms(1)
    assert world.phase() is Phase.EMPTY
    assert member_id not in world.live().members


def test_a_group_that_was_forgotten_comes_back_as_a_simple_one_by_its_offsets() -> None:
    world = loaded(REGISTERED, GroupForgotten("g"), OFFSET)
    assert world.listed() == {"g": "Empty"}
    assert world.describe().protocol_type == ""
    assert world.fetch() == {T0: (5, OK)}


def test_an_offset_whose_tombstone_came_last_is_absent() -> None:
    world = loaded(OFFSET, OffsetForgotten("g", "t", 0))
    assert world.listed() == {}


def test_an_offset_that_was_committed_after_its_tombstone_is_there() -> None:
    later = OffsetCommitted("g", "t", 0, OffsetCommitValue(6))
    other = OffsetCommitted("g", "t", 1, OffsetCommitValue(7))
    world = loaded(OFFSET, OffsetForgotten("g", "t", 0), other, later)
    assert world.fetch() == {T0: (6, OK), ("t", 1): (7, OK)}


def test_offsets_alone_make_an_empty_group_without_a_type() -> None:
    world = loaded(OFFSET)
    group = world.describe()
    assert (group.group_state, group.protocol_type, list(group.members)) == ("Empty", "", [])


def test_the_oldest_registration_has_no_rebalance_timeout_and_no_time() -> None:
    world = World(elect=False)
    value = bytes.fromhex(
        "0000 0008636f6e73756d6572 00000003 000572616e6765 0003632d31 00000001 0003632d31 000163 00022f68"
        "00002710 00000000 00000000"
    )
    batch = encode_batch([Record(0, 0, bytes.fromhex("0002 000167"), value, ())])
    world.log.append(batch, now_ms=0, timestamp_ms=0)
    world.elect_all()
    (member,) = world.live().members.values()
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (10_000, 10_000)
    assert world.live().phase_timestamp_ms is None


def test_an_old_epoch_neither_loads_nor_unloads() -> None:
    world = World()
    world.elect(0, 5)
    world.load_all()
    assert not world.elect(0, 4)
    assert not world.coordinator.shards.resign(0, 4)
    assert not world.elect(0, 5)
    assert world.commit_error() is OK
    assert world.coordinator.shards.resign(0, 5)
    assert world.commit_error() is ErrorCode.not_coordinator
    assert not world.elect(0, 4)


def test_a_newer_epoch_loads_anew() -> None:
    world = World()
    waiting = world.join()
    assert world.elect(0, 9)
    assert waiting.error is ErrorCode.not_coordinator
    assert world.join().error is ErrorCode.coordinator_load_in_progress
    world.load_all()
    assert world.commit_error() is OK


def test_those_who_wait_are_told_when_leadership_goes() -> None:
    world = World()
    joining = world.join()
    world.coordinator.shards.resign(0, 1)
    assert joining.error is ErrorCode.not_coordinator
    world.elect(0, 2)
    world.load_all()
    _, follower_id = world.joined(2)
    syncing = world.sync(follower_id, 1)
    world.coordinator.shards.resign(0, 2)
    assert syncing.error is ErrorCode.not_coordinator


def test_when_leadership_goes_while_loading_the_partition_is_not_served() -> None:
    world = World(elect=False)
    world.log.append(encode_records([OFFSET], 0), now_ms=0, timestamp_ms=0)
    world.elect(0)
    world.log.is_readable = False
    world.load_all()
    assert world.fetch_response(T0).error_code == ErrorCode.not_coordinator
    assert world.list_groups().error_code == OK


def test_a_rebalance_that_was_open_is_lost_and_its_members_join_again() -> None:
    world = World()
    (old_id,) = world.stable(1)
    newcomer = world.join()
    rejoined = world.join(old_id)
    assert rejoined.response.generation_id == 2
    world.restart()
    assert world.live().generation == 1
    assert world.heartbeat(old_id, 2) is ErrorCode.illegal_generation
    assert world.heartbeat(newcomer.response.member_id, 2) is ErrorCode.unknown_member_id
    again = world.join(old_id)
    assert again.response.generation_id == 2
    world.settle([old_id])
    assert world.phase() is Phase.STABLE


def test_a_record_of_an_unknown_kind_is_skipped_with_a_warning_that_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(elect=False)
    strange = Record(0, 0, bytes.fromhex("0011 00"), b"new", ())
    world.log.append(encode_batch([strange, strange._replace(offset=1)]), now_ms=0, timestamp_ms=0)
    world.log.append(encode_records([OFFSET], 0), now_ms=0, timestamp_ms=0)
    with caplog.at_level(logging.WARNING):
        world.elect_all()
    assert [record.getMessage() for record in caplog.records] == [
        "skipping records with unknown key version 17, the first at offset 0"
    ]
    assert world.fetch() == {T0: (5, OK)}


@pytest.mark.parametrize("fault", ["value version", "checksum", "no key"])
def test_a_corrupt_record_stops_its_shard_only_and_says_where(fault: str) -> None:
    world = World(partition_count=50, elect=False)
    log = world.logs[27]
    log.append(encode_records([OFFSET], 0), now_ms=0, timestamp_ms=0)
    key = None if fault == "no key" else bytes.fromhex("0001 000167 000174 00000000")
    value = b"\x00\x05" + bytes(30) if fault == "value version" else b"\x00\x04"
    batch = encode_batch([Record(0, 0, key, value, ())])
    if fault == "checksum":
        batch = batch[:-1] + bytes([batch[-1] ^ 1])
    log.append(batch, now_ms=0, timestamp_ms=0)
    world.elect_all()
    assert world.commit_error(group="testgroup") is ErrorCode.not_coordinator
    assert world.commit_error(group="group") is OK
    shard = world.coordinator.shards.by_partition.get(27)
    assert shard is not None
    assert shard.status is ShardStatus.FAILED
    assert shard.failure is not None
    assert "at offset 1: " in str(shard.failure.error)


def test_a_log_is_loaded_in_parts() -> None:
    world = World()
    for partition in range(8):
        world.commit({("t", partition): partition})
    world.restart()
    remembered = world.state.remembered()
    world.elect(0, 99)
    (shard,) = world.loading
    steps = 0
    while not shard.load_some(world.context(), max_bytes=200):
        steps += 1
    assert steps > 3
    assert world.state.remembered() == remembered


def test_a_topic_that_is_deleted_while_its_offsets_are_loaded_leaves_none() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t2", 0): 2})
    world.elect(0, 99)
    del world.topics.known["t"]
    world.coordinator.topic_deleted("t", world.context())
    world.load_all()
    assert world.fetch() == {("t2", 0): (2, OK)}
    world.flush()
    world.restart()
    assert world.fetch() == {("t2", 0): (2, OK)}


def test_a_registration_with_an_unknown_leader_is_led_by_its_first_member() -> None:
    world = loaded(REGISTERED._replace(leader_id="gone"))
    assert world.live().leader_id == "m"
    assert world.join("m").response.generation_id == 2


def test_a_log_from_kafka_with_a_record_at_the_groups_creation_is_read() -> None:
    empty = GroupRegistered("g", "", 0, None, None, 0)
    world = loaded(empty)
    assert world.listed() == {"g": "Empty"}
    world.pass_ms(600_000)
    assert world.listed() == {}
    assert world.log.decoded()[-1] == GroupForgotten("g")


def test_an_empty_registration_expires_by_the_time_it_was_written() -> None:
    world = loaded(REGISTERED._replace(members=(), leader_id=None, protocol_name=None), OFFSET)
    world.pass_ms(600_000)  # registered in 1970
    assert world.listed() == {}


def _any_batch(kind: int, partition: int, offset: int, producer_id: int) -> bytes:
    """One batch about one of few offsets: a commit, an old one, a tombstone, or part of a transaction."""
    committed = OffsetCommitValue(offset, 1, "", 5, -1)
    match kind:
        case 0 | 1 | 2:
            return encode_records([OffsetCommitted("g", "t", partition, committed)], 5)
        case 3:
            key = b"\0\0" + offset_key("g", "t", partition)[2:]
            return encode_batch([Record(0, 5, key, encode_offset(committed))])
        case 4:
            return encode_records([OffsetForgotten("g", "t", partition)], 5)
        case 5:
            return encode_records([OffsetPended("g", "t", partition, committed, producer_id, 0)], 5)
        case 6:
            return encode_end(TransactionEnded(producer_id, is_commit=offset % 3 > 0), 5)
        case _:
            return encode_records([GroupRegistered("g", "consumer", offset, None, None, 5)], 5)


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 99), st.integers(1, 2)), max_size=30
    )
)
def test_what_is_read_at_once_is_what_is_read_one_by_one(steps: list[tuple[int, int, int, int]]) -> None:
    batches = []
    for number, step in enumerate(steps):
        batch = bytearray(_any_batch(*step))
        stamp(batch, number, 0)
        batches.append(bytes(batch))
    at_once, one_by_one = GroupState(), GroupState()
    loader = GroupLoader(one_by_one)
    for each in batches:
        loader.load(each)
    if batches:
        assert GroupLoader(at_once).load(b"".join(batches)) == len(batches)
    assert at_once.remembered() == one_by_one.remembered()


def test_a_value_that_was_left_for_later_and_makes_no_sense_says_where_it_stands() -> None:
    good = encode_records([OffsetCommitted("g", "t", 0, OffsetCommitValue(1))], 5)
    bad = bytearray(encode_batch([Record(0, 5, offset_key("g", "t", 1), b"\0\3short")]))
    stamp(bad, 1, 0)
    with pytest.raises(CorruptLogError, match="invalid record at offset 1"):
        GroupLoader(GroupState()).load(good + bytes(bad))
