"""What holds whatever producers, clocks, partitions and disks do."""

from __future__ import annotations

from copy import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.coordinator.transaction.actions import WriteMarkers
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.coordinator.transaction.records import decode_record
from klamm.coordinator.transaction.remembered import TransactionForgotten, TransactionStored
from klamm.coordinator.transaction.state import TransactionOutcome, TransactionState
from klamm.coordinator.transaction.states import COMPLETIONS, NEXT_STATES, PREPARED, State
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.types import TopicPartition
from unit.coordinator.memory_log import MemoryLog
from unit.coordinator.transaction.driver import OUT_0, OUT_1, Call, Identity, World

IDS = ("a", "b")
IN_0 = TopicPartition("in", 0)
ids = st.sampled_from(IDS)
partition_sets = st.sampled_from(((OUT_0,), (OUT_0, OUT_1), (IN_0,)))
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=3_600_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=600_000,
    transaction_two_phase_commit_enable=True,
)


class CheckedMachine(TransactionMachine):
    """A machine that notices when a decision changes something."""

    def decide(self, request: object, context: Context) -> TransactionOutcome:
        before = _snapshot(self.state)
        outcome = super().decide(request, context)
        assert _snapshot(self.state) == before, f"{type(request).__name__} changed the state"
        return outcome


def _snapshot(state: TransactionState) -> tuple[Any, ...]:
    """What a decision could change. No deep copies: an hour of refused markers has thousands of decisions."""
    return (
        [
            (
                name,
                each.stored,
                each.stored_until,
                each.last_epoch,
                each.owner,
                each.missing and {*each.missing},
            )
            for name, each in state.transactions.items()
        ],
        list(state.ongoing),
        {name: parked.request for name, parked in state.parked.items()},
        list(state.held_ends),
        copy(state.timeout_timer),
        copy(state.expiry_timer),
        state.expiry_queue,
    )


def rebuild(log: MemoryLog) -> dict[str, TransactionStored]:
    machine = TransactionMachine(CONFIG, lambda: 2)
    if log.batches:
        machine.load(b"".join(log.batches))
    return machine.state.remembered()


class TransactionLife(RuleBasedStateMachine):
    """Producers begin, add, commit, abort, restart and repeat; time passes; disks and partitions fail."""

    world: World
    calls: list[Call]
    known: dict[str, list[Identity]]  # identities that clients were given, the latest last
    marked: set[tuple[int, int, int, TopicPartition]]  # partitions that got the marker of a Prepare record

    @initialize(version=st.sampled_from((1, 2)), epoch=st.sampled_from((0, 32_763)))
    def start(self, version: int, epoch: int) -> None:
        self.world = World(CONFIG, version=version, make_machine=CheckedMachine)
        self.calls, self.known, self.marked = [], {name: [] for name in IDS}, set()
        for name in IDS if epoch else ():
            self.known[name].append(self.world.at_epoch(epoch, transactional_id=name))
        self.world.write = self._write  # type: ignore[method-assign]

    def _write(self, shard: Any, order: WriteMarkers) -> None:
        results = {each: self.world.marker_errors.get(each, ErrorCode.none) for each in order.partitions}
        for each, error_code in results.items():
            if error_code is ErrorCode.none:
                self.marked.add((order.producer_id, order.producer_epoch, order.prepared_until, each))
        self.world.report(shard, order, results)

    def identity_of(self, data: st.DataObject, name: str) -> Identity:
        latest = self.known[name][-3:] or [(1, 0)]
        return data.draw(st.sampled_from(latest[::-1]), label="identity")

    def note(self, name: str, call: Call) -> None:
        self.calls.append(call)

    @rule(name=ids, keeps=st.sampled_from((False, False, True)))
    def a_new_instance_comes(self, name: str, keeps: bool) -> None:
        self.note(name, self.world.init(name, keeps=keeps, version=6))

    @rule(name=ids, data=st.data())
    def a_producer_recovers(self, name: str, data: st.DataObject) -> None:
        self.note(name, self.world.init(name, self.identity_of(data, name)))

    @rule(name=ids, partitions=partition_sets, version=st.sampled_from((3, 5)), data=st.data())
    def add(
        self, name: str, partitions: tuple[TopicPartition, ...], version: int, data: st.DataObject
    ) -> None:
        identity = self.identity_of(data, name)
        call = self.world.add_later(identity, *partitions, transactional_id=name, version=version)
        self.calls.append(call)

    @rule(name=ids, commit=st.booleans(), version=st.sampled_from((4, 5)), data=st.data())
    def end(self, name: str, commit: bool, version: int, data: st.DataObject) -> None:
        identity = self.identity_of(data, name)
        call = self.world.end(identity, commit=commit, version=version, transactional_id=name)
        self.note(name, call)

    @rule(duration_ms=st.sampled_from((1, 25, 1_000, 10_000, 75_000, 5_000_000)))
    def time_passes(self, duration_ms: int) -> None:
        self.world.pass_ms(duration_ms)

    @rule(
        partition=st.sampled_from((OUT_0, OUT_1)),
        error_code=st.sampled_from((ErrorCode.none, ErrorCode.none, ErrorCode.not_leader_or_follower)),
    )
    def a_leader_moves(self, partition: TopicPartition, error_code: ErrorCode) -> None:
        self.world.marker_errors[partition] = error_code

    @rule(holds=st.booleans())
    def markers_take_their_time(self, holds: bool) -> None:
        self.world.holds_markers = holds
        self.world.settle()

    @rule(holds=st.booleans())
    def producer_ids_take_their_time(self, holds: bool) -> None:
        self.world.holds_producer_ids = holds
        self.world.settle()

    @rule(is_holding=st.booleans())
    def the_disk_takes_its_time(self, is_holding: bool) -> None:
        self.world.log.is_holding = is_holding
        self.world.flush()

    @rule(refuse_with=st.sampled_from((None, None, ErrorCode.not_enough_replicas)))
    def the_log_refuses(self, refuse_with: ErrorCode | None) -> None:
        self.world.log.refuse_with = refuse_with

    @rule()
    def a_flush_fails(self) -> None:
        self.world.shard.on_flush_failed()
        self.world.load_all()

    @rule()
    def the_coordinator_moves(self) -> None:
        self.world.coordinator.shards.resign(0, self.world.epochs[0])
        self.world.restart()

    @invariant()
    def identities_are_learned(self) -> None:
        """What clients know is what they were told."""
        for call in self.calls:
            for answer in call.answers:
                request: Any = call.request
                known = self.known.get(getattr(request, "transactional_id", ""), [])
                identity = getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1)
                if identity[0] != -1 and identity not in known:
                    known.append(identity)

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        for call in self.calls:
            assert len(call.answers) <= 1, call

    @invariant()
    def the_log_remembers_the_state(self) -> None:
        log = self.world.log
        if self.world.shard.status is ShardStatus.ACTIVE:
            for copy in (log, log.compacted()):
                assert rebuild(copy) == self.world.state.remembered()

    @invariant()
    def promise_10_a_producer_id_belongs_to_one_transactional_id(self) -> None:
        owners: dict[int, str] = {}
        for record in self._records():
            if isinstance(record, TransactionStored):
                assert owners.setdefault(record.producer_id, record.transactional_id) == (
                    record.transactional_id
                )

    @invariant()
    def promise_11_a_new_instance_never_gets_an_identity_that_another_has(self) -> None:
        given: set[tuple[str, int, int]] = set()
        for call in self.calls:
            request = call.request
            if not isinstance(request, InitProducerIdRequest) or request.producer_id != -1:
                continue
            for answer in call.answers:
                if answer.error_code == ErrorCode.none:
                    identity = str(request.transactional_id), answer.producer_id, answer.producer_epoch
                    assert identity not in given
                    assert answer.producer_epoch < 32_767
                    given.add(identity)

    @invariant()
    def promise_12_records_follow_the_table(self) -> None:
        before: dict[str, TransactionStored] = {}
        for record in self._records():
            last = before.get(record.transactional_id)
            if isinstance(record, TransactionForgotten):
                assert last is None or last.state not in {*PREPARED, State.ONGOING}
                before.pop(record.transactional_id, None)
                continue
            if last is not None:
                assert record.state in NEXT_STATES[last.state]
                if last.state in PREPARED:
                    assert record.state is COMPLETIONS[last.state]
            before[record.transactional_id] = record

    @invariant()
    def promise_13_complete_comes_after_every_marker(self) -> None:
        before: dict[str, tuple[int, TransactionStored]] = {}
        for offset, record in enumerate(self._records()):
            if isinstance(record, TransactionStored):
                if record.transactional_id in before:
                    until, last = before[record.transactional_id]
                    if last.state in PREPARED:
                        for partition in last.partitions:
                            key = last.producer_id, last.producer_epoch, until, partition
                            assert key in self.marked
                before[record.transactional_id] = offset + 1, record

    def _records(self) -> list[TransactionStored | TransactionForgotten]:
        decoded = [decode_record(each.key, each.value) for each in self.world.log.records()]
        return [each for each in decoded if isinstance(each, TransactionStored | TransactionForgotten)]

    def teardown(self) -> None:
        """While all is well, every request is answered and every transaction ends in time."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.log.is_holding, world.log.refuse_with = False, None
        world.holds_markers = world.holds_producer_ids = False
        world.marker_errors.clear()
        world.flush()
        world.pass_ms(1_000)
        world.pass_ms(900_000)
        assert world.shard.status is ShardStatus.ACTIVE
        assert all(call.is_answered for call in self.calls)
        assert not world.state.parked
        assert not {
            name: each.stored
            for name, each in world.state.transactions.items()
            if each.stored.state in PREPARED
        }
        assert not world.state.ongoing


TransactionLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTransactionLife = TransactionLife.TestCase
