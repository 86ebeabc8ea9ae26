"""What holds whatever clients, clocks and disks do."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, get_args

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.coordinator.group.classic.membership import classic_membership
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.membership import NOBODY
from klamm.coordinator.group.notes import CHANGES, Note, apply
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.records import UnknownGroupKey, decode_record
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.group.replay import replay
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from unit.coordinator.asking import Call, assignment, subscription
from unit.coordinator.driver import World
from unit.coordinator.memory_log import MemoryLog

GROUPS = ("g", "h")
INSTANCES = (None, None, "a", "b")
PROTOCOLS: tuple[dict[str, bytes], ...] = (
    {"range": subscription("t")},
    {"range": subscription("t", "t2"), "sticky": b""},
    {"sticky": b"", "range": subscription("t")},
)
groups, instances, protocols = st.sampled_from(GROUPS), st.sampled_from(INSTANCES), st.sampled_from(PROTOCOLS)


class CheckedMachine(GroupMachine):
    """A machine that notices when a decision changes something."""

    def decide(self, request: object, context: Context) -> GroupOutcome:
        before = _snapshot(self.state)
        outcome = super().decide(request, context)
        assert _snapshot(self.state) == before, f"{type(request).__name__} changed the state"
        return outcome


def _snapshot(state: GroupState) -> tuple[Any, ...]:
    # Tokens are compared as the objects they are: deepcopy is told to leave them.
    calls = {
        id(parked): parked
        for group in state.groups.values()
        if (live := classic_membership(group)) is not None
        for member in live.members.values()
        for parked in (member.parked_join, member.parked_sync)
        if parked is not None
    }
    memo: dict[int, Any] = {**calls, id(NOBODY): NOBODY}
    for group in state.groups.values():
        tables = [group.memory.offsets, *group.memory.pending.values()]
        memo |= {id(table): table.items() for by_topic in tables for table in by_topic.values()}
        memo |= {id(staged.replaced): staged.replaced for staged in group.staged}
    return (
        deepcopy(state.groups, memo),
        deepcopy(state.open_transactions),
        deepcopy(state.expiry_timer),
        (state.expiry_queue, state.end_offset, state.durable_offset),
    )


def rebuild(log: MemoryLog) -> dict[str, tuple[object, ...]]:
    machine = GroupMachine(GroupConfig())
    if log.batches:
        machine.load(b"".join(log.batches))
    return machine.state.remembered()


class GroupLife(RuleBasedStateMachine):
    """Clients join, sync, heartbeat, leave, commit and vanish; time passes; disks fail."""

    world: World
    calls: list[Call[Any]]
    joins: list[tuple[str, Call[JoinGroupResponse]]]
    generations: dict[str, int]
    producer: int

    @initialize(delay_ms=st.sampled_from((0, 3_000)), max_size=st.sampled_from((3, 100)))
    def start(self, delay_ms: int, max_size: int) -> None:
        self.world = World(
            GroupConfig(
                group_initial_rebalance_delay_ms=delay_ms,
                group_max_size=max_size,
                offsets_retention_minutes=5,
                offsets_retention_check_interval_ms=60_000,
            ),
            make_machine=CheckedMachine,
        )
        self.calls, self.joins, self.generations, self.producer = [], [], {}, 0

    def ask(self, call: Call[Any]) -> None:
        self.calls.append(call)

    def member_of(self, data: st.DataObject, group: str) -> str:
        known = sorted({*self.live_members(group), "stranger"})
        return data.draw(st.sampled_from(known), label="member")

    def live_members(self, group: str) -> list[str]:
        found = self.world.state.groups.get(group)
        live = classic_membership(found)
        return [] if live is None else [*live.members, *live.pending]

    def generation_of(self, data: st.DataObject, group: str) -> int:
        found = self.world.state.groups.get(group)
        current = 0 if found is None else found.membership.generation
        return current + data.draw(st.sampled_from((0, 0, 0, 0, -1)), label="generation off by")

    @rule(group=groups, instance=instances, offered=protocols, version=st.sampled_from((3, 4, 9)))
    def join_anew(self, group: str, instance: str | None, offered: dict[str, bytes], version: int) -> None:
        call = self.world.join(group=group, instance=instance, protocols=offered, version=version)
        self.ask(call)
        self.joins.append((group, call))

    @rule(group=groups, offered=protocols, data=st.data())
    def join_again(self, group: str, offered: dict[str, bytes], data: st.DataObject) -> None:
        call = self.world.join(self.member_of(data, group), group=group, protocols=offered)
        self.ask(call)
        self.joins.append((group, call))

    @rule(group=groups)
    def everybody_joins_again(self, group: str) -> None:
        for member_id in self.live_members(group):
            self.ask(self.world.join(member_id, group=group, protocols=PROTOCOLS[1]))

    @rule(group=groups, data=st.data())
    def sync(self, group: str, data: st.DataObject) -> None:
        members = self.live_members(group)
        given = {member_id: assignment(("t", number)) for number, member_id in enumerate(members)}
        member_id, generation = self.member_of(data, group), self.generation_of(data, group)
        self.ask(self.world.sync(member_id, generation, given, group=group))

    @rule(group=groups)
    def everybody_syncs(self, group: str) -> None:
        found = self.world.state.groups.get(group)
        for member_id in self.live_members(group):
            assert found is not None
            self.ask(self.world.sync(member_id, found.membership.generation, {}, group=group))

    @rule(group=groups, data=st.data())
    def heartbeat(self, group: str, data: st.DataObject) -> None:
        member_id, generation = self.member_of(data, group), self.generation_of(data, group)
        self.ask(self.world.heartbeat_later(member_id, generation, group=group))

    @rule(group=groups, data=st.data())
    def leave(self, group: str, data: st.DataObject) -> None:
        self.ask(self.world.leave_later(self.member_of(data, group), group=group))

    @rule(group=groups, offset=st.integers(0, 9), partition=st.integers(0, 2), data=st.data())
    def commit(self, group: str, offset: int, partition: int, data: st.DataObject) -> None:
        simple = data.draw(st.booleans(), label="as nobody")
        self.ask(
            self.world.commit(
                {("t", partition): offset},
                group=group,
                member_id="" if simple else self.member_of(data, group),
                generation=-1 if simple else self.generation_of(data, group),
            )
        )

    @rule(group=groups, offset=st.integers(0, 9), producer=st.integers(1, 2), data=st.data())
    def commit_in_a_transaction(self, group: str, offset: int, producer: int, data: st.DataObject) -> None:
        simple = data.draw(st.booleans(), label="as nobody")
        self.ask(
            self.world.txn_commit(
                {("t", 0): offset},
                group=group,
                producer=producer,
                member_id="" if simple else self.member_of(data, group),
                generation=-1 if simple else self.generation_of(data, group),
            )
        )

    @precondition(lambda self: self.world.log.refuse_with is None)
    @rule(producer=st.integers(1, 2), commit=st.booleans())
    def end_a_transaction(self, producer: int, commit: bool) -> None:
        self.world.end_transaction(commit=commit, producer=producer)

    @rule(group=groups)
    def delete(self, group: str) -> None:
        self.ask(self.world.ask_delete(group))

    @rule(topic=st.sampled_from(("t", "t2")))
    def delete_a_topic(self, topic: str) -> None:
        self.world.coordinator.topic_deleted(topic, self.world.context())

    @rule(duration_ms=st.sampled_from((1, 3_000, 9_999, 10_000, 60_000, 400_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.world.pass_ms(duration_ms)

    @rule(is_holding=st.booleans())
    def the_disk_takes_its_time(self, is_holding: bool) -> None:
        self.world.log.is_holding = is_holding
        self.world.flush()

    @rule(refuse_with=st.sampled_from((None, ErrorCode.message_too_large, ErrorCode.kafka_storage_error)))
    def the_log_refuses(self, refuse_with: ErrorCode | None) -> None:
        self.world.log.refuse_with = refuse_with

    @rule()
    def a_flush_fails(self) -> None:
        self.world.fail_flush()
        self.world.load_all()
        self.generations.clear()

    @rule()
    def restart(self) -> None:
        self.world.coordinator.shards.resign(0, self.world.epochs[0])
        self.world.restart()
        self.generations.clear()

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        for call in self.calls:
            assert len(call.answers) <= 1, call

    @invariant()
    def the_log_remembers_all_we_promised(self) -> None:
        log = self.world.log
        for copy in (log, log.compacted()):
            assert rebuild(copy) == self.world.state.remembered()

    @invariant()
    def generations_only_grow(self) -> None:
        for group_id, group in self.world.state.groups.items():
            assert group.membership.generation >= self.generations.get(group_id, 0)
        self.generations = {
            group_id: group.membership.generation for group_id, group in self.world.state.groups.items()
        }

    @invariant()
    def counts_agree_with_what_they_count(self) -> None:
        for group in self.world.state.groups.values():
            live = classic_membership(group)
            if live is None:
                assert group.membership is NOBODY
                continue
            members = live.members.values()
            assert live.awaiting_join == sum(member.parked_join is not None for member in members)
            statics = {member.group_instance_id: member.member_id for member in members}
            statics.pop(None, None)
            assert live.static_members == statics
            assert set(live.pending_sync) <= set(live.members)
            assert live.leader_id is None or live.leader_id in live.members
            assert bool(live.members) <= (live.phase is not Phase.EMPTY)
            for member in members:
                assert member.parked_join is None or live.phase is Phase.PREPARING
                assert member.parked_sync is None or live.phase is Phase.COMPLETING

    def teardown(self) -> None:
        """Every request ends: by itself while the disk works and time passes."""
        if not hasattr(self, "world"):
            return
        self.world.log.is_holding = False
        self.world.log.refuse_with = None
        self.world.flush()
        self.world.pass_ms(1_000_000)
        assert self.world.shard.status is ShardStatus.ACTIVE
        assert all(call.is_answered for call in self.calls)


GroupLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroupLife = GroupLife.TestCase


def test_a_loaded_group_is_opened_through_the_door() -> None:
    world = World()
    world.stable(2)
    world.commit(group="simple")
    machine = GroupMachine(GroupConfig())
    machine.load(b"".join(world.log.batches))
    assert {group.membership for group in machine.state.groups.values()} == {NOBODY}
    before = _snapshot(machine.state)
    outcome = machine.loaded(world.context())
    assert _snapshot(machine.state) == before, "the decision changed the state"
    for note in outcome.notes:
        machine.apply(note)
    assert machine.state.groups["simple"].membership is NOBODY
    revived = classic_membership(machine.state.groups["g"])
    assert revived is not None
    assert list(revived.members) == list(world.live().members)


def test_what_a_load_stores_in_bulk_is_what_replaying_one_by_one_stores() -> None:
    world = World()
    world.stable(1)
    for offset in range(3):
        world.commit({("t", partition): offset for partition in range(8)}, group=f"g{offset % 2}")
        world.delete_offsets(("t", offset), group="g0")
    one_by_one = GroupState()
    for record in world.log.records():
        decoded = decode_record(record.key, record.value)
        assert not isinstance(decoded, UnknownGroupKey)
        replay(one_by_one, decoded, record.offset)
    assert rebuild(world.log) == one_by_one.remembered() == world.state.remembered()


def test_pending_offsets_are_loaded_as_they_were_pended() -> None:
    world = World()
    every = {(topic, partition): 7 for topic in ("t", "t2") for partition in range(8)}
    for producer, group in ((1, "g0"), (2, "g0"), (1, "g1")):
        world.txn_commit(every, group=group, producer=producer)
    world.delete_offsets(("t", 3), group="g0")  # in the middle: of both producers
    world.txn_commit({("t", 3): 8, ("t", 4): 8}, group="g0", producer=2)
    assert rebuild(world.log) == world.state.remembered()
    world.end_transaction(commit=True, producer=1)
    world.txn_commit(dict.fromkeys(every, 9), group="g0", producer=1)  # the next one of the same producer
    world.delete_offsets(*every, group="g1")
    world.txn_commit({("t", 0): 5}, group="g1", producer=1)
    assert rebuild(world.log) == world.state.remembered()
    world.end_transaction(commit=False, producer=1)
    world.end_transaction(commit=True, producer=2)
    assert rebuild(world.log) == world.state.remembered()
    assert world.fetch(("t", 3), ("t", 4), ("t", 5), group="g0") == {
        ("t", 3): (8, ErrorCode.none),
        ("t", 4): (8, ErrorCode.none),
        ("t", 5): (7, ErrorCode.none),
    }
    assert world.fetch(group="g1") == {}


def test_every_note_has_its_change() -> None:
    assert set(CHANGES) == set(get_args(Note))


def test_the_doors_are_what_changes_state() -> None:
    world = World()
    world.stable(2)
    before = _snapshot(world.state)
    replay(world.state, TransactionEnded(1, is_commit=True), 99)
    assert _snapshot(world.state) == before
    outcome = world.shard.machine.decide(world.live().join_timer.signal, world.context())
    for note in outcome.notes:
        apply(world.state, note)
    assert _snapshot(world.state) == before
