"""Whichever decision about transactions raises, its shard serves on, and each transaction still ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.coordinator.runtime.shard import ShardStatus
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.machine import DECISIONS
from klamm.coordinator.transaction.requests import AddPartitions
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Request
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from unit.coordinator.faults import Faults
from unit.coordinator.transaction.driver import OUT_0, TIMEOUT_MS, Identity, World

OK = ErrorCode.none
MINUTE_MS = 60_000
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=10 * MINUTE_MS,
    transaction_remove_expired_transaction_cleanup_interval_ms=5 * MINUTE_MS,
)
KINDS = sorted(DECISIONS, key=lambda kind: kind.__name__)
SIGNALS = [kind for kind in KINDS if not issubclass(kind, Request) and kind is not AddPartitions]
OVER = {"Empty", "CompleteCommit", "CompleteAbort"}


def test_the_day_has_every_decision() -> None:
    faults = Faults()
    day = Day(faults)
    day.pass_by()
    day.end()
    assert set(faults.decided) == set(DECISIONS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_decision_that_raises_leaves_its_shard_serving(kind: type, is_lasting: bool) -> None:
    day = Day(Faults(kind, is_lasting))
    day.pass_by()
    assert day.faults.raised
    day.end()


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_whose_decision_raised_is_decided_again(kind: type) -> None:
    day = Day(Faults(kind))
    day.pass_by(until=lambda: bool(day.faults.raised))
    day.world.pass_ms(1_000)
    assert day.faults.is_decided_again


class Day:
    """Producers that take every way through the coordinator, whatever they are answered."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.world = World(CONFIG, make_machine=faults.transactions())
        kind, faults.kind = faults.kind, None
        self.world.init("calm")
        faults.kind = kind

    def pass_by(self, until: Callable[[], bool] = lambda: False) -> None:
        """Take one step after the other; nobody else notices."""
        for step in (
            self._work,
            self._have_slow_markers,
            self._have_refused_markers,
            self._are_refused_by_the_log,
            self._use_up_their_epochs,
            self._vanish,
            self._are_forgotten,
        ):
            step()
            if until():
                return
            assert self.world.shard.status is ShardStatus.ACTIVE, step.__name__
            assert not self.world.loading, f"loaded again after {step.__name__}"
            if self.faults.kind is not DescribeTransactionsRequest and step != self._are_forgotten:
                assert self.world.describe("calm").error_code == OK

    def end(self) -> None:
        """The fault is gone: after a while every transaction is over, and everybody is served."""
        world = self.world
        self.faults.heal()
        world.pass_ms(3 * MINUTE_MS)
        assert not world.shard.postponed_count
        assert world.state.timeout_timer.due_at_ms is not None
        assert world.state.expiry_timer.due_at_ms is not None
        assert {world.state_name(name) for name in world.state.transactions} <= OVER
        identity = world.init("after").identity
        assert world.add_one(identity, transactional_id="after") is OK
        assert world.end(identity, transactional_id="after").error is OK
        assert world.state_name("after") == "CompleteCommit"

    # --- steps ---------------------------------------------------------------------------------------

    def _open(self, name: str) -> Identity:
        call = self.world.init(name)
        answer = call.answers[0] if call.answers else None
        identity = (-1, -1) if answer is None else (answer.producer_id, answer.producer_epoch)
        self.world.add_later(identity, transactional_id=name)
        return identity

    def _work(self) -> None:
        identity = self._open("a")
        self.world.end_later(identity, transactional_id="a")
        self.world.ask(DescribeTransactionsRequest(transactional_ids=("a",)))
        self.world.ask(ListTransactionsRequest())

    def _have_slow_markers(self) -> None:
        identity = self._open("b")
        self.world.holds_markers = True
        self.world.end_later(identity, transactional_id="b")
        self.world.pass_ms(1_500)
        self.world.release_markers()

    def _have_refused_markers(self) -> None:
        identity = self._open("c")
        self.world.marker_errors[OUT_0] = ErrorCode.not_leader_or_follower
        self.world.end_later(identity, transactional_id="c")
        self.world.pass_ms(200)
        self.world.marker_errors.clear()
        self.world.pass_ms(1_000)

    def _are_refused_by_the_log(self) -> None:
        world, identity = self.world, self._open("d")
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.end_later(identity, transactional_id="d")
        world.log.refuse_with = None
        world.holds_markers = True
        world.end_later(identity, transactional_id="d")
        world.log.refuse_with = ErrorCode.kafka_storage_error
        world.release_markers()
        world.log.refuse_with = None
        world.pass_ms(1_000)

    def _use_up_their_epochs(self) -> None:
        kind, self.faults.kind = self.faults.kind, None
        identity = self.world.at_epoch(32_766, transactional_id="e")
        self.world.add_later(identity, transactional_id="e")
        self.faults.kind = kind
        self.world.end_later(identity, version=5, transactional_id="e")

    def _vanish(self) -> None:
        self._open("f")
        self.world.pass_ms(TIMEOUT_MS + 15_000)

    def _are_forgotten(self) -> None:
        self.world.log.refuse_with = ErrorCode.kafka_storage_error
        self.world.pass_ms(16 * MINUTE_MS)
        self.world.log.refuse_with = None
        self.world.pass_ms(6 * MINUTE_MS)
