"""One seed, one history of transactions: begun, written to, ended, fenced and read, on both brokers alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from interop.differential import rare_txn_steps, txn_steps
from interop.differential.batches import HOUR_MS
from interop.differential.boundary_steps import KEPT_WITH_MARKERS, at_a_boundary
from interop.differential.comparing import Plain, differences
from interop.differential.deliberate import reason
from interop.differential.runner import AT_A_BOUNDARY, Difference
from interop.differential.txn_steps import AUDIT, learn
from interop.differential.txn_world import GROUPS, TOPICS, Asked, Transaction, TxnSide, TxnWorld
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnResponse
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.testing import wait_until

_GROUP, _TRANSACTION = 0, 1
_ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort"})
_IDS: Final = 3
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105


class TxnHistory:
    """Drives a few transactional ids. Between two steps both brokers finish what they are ending."""

    boundaries = AT_A_BOUNDARY
    makers: ClassVar[dict[Callable[[TxnWorld], Asked], int]] = {**txn_steps.STEPS, **rare_txn_steps.STEPS}

    def __init__(self, ours: TxnSide, kafkas: TxnSide, seed: int) -> None:
        self._sides = (ours, kafkas)
        self._seed = seed
        now_ms = int(time.time() * 1000)
        run = f"{time.time_ns():x}"
        transactions = [Transaction(f"{seed}-{run}-{number}") for number in range(_IDS)]
        self.world = TxnWorld(Random(seed), transactions, now_ms - now_ms % HOUR_MS)
        self._ids = [transaction.transactional_id for transaction in transactions]
        self._handed_out = 0
        self.asked: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()

    def run(self, steps: int) -> Iterator[Difference]:
        """Every difference that nobody meant; after the first, the later ones may follow from it."""
        for side in self._sides:
            self._prepare(side)
        try:
            yield from self._steps(steps)
        finally:
            # Else the markers of what is open would be written to the topics of the next history.
            for side in self._sides:
                for transactional_id in self._ids:
                    wait_until(partial(self._ended, side, transactional_id), "20s", equals=0, every="2ms")

    @staticmethod
    def _ended(side: TxnSide, transactional_id: str) -> Any:
        request = InitProducerIdRequest(transactional_id, 600_000)
        return side.ask(ApiKey.INIT_PRODUCER_ID, 4, request).error_code

    def _steps(self, steps: int) -> Iterator[Difference]:
        number = 0
        for transaction in self.world.transactions:
            first = InitProducerIdRequest(transaction.transactional_id, 600_000)
            yield from self._take(number, Asked(ApiKey.INIT_PRODUCER_ID, 4, first, "the first", transaction))
        makers = list(self.makers)
        for number in range(steps):
            (make,) = self.world.random.choices(makers, [self.makers[each] for each in makers])
            asked = make(self.world)
            if self.world.random.random() < self.boundaries:
                asked.request, says = at_a_boundary(
                    self.world.random, asked.api_key, asked.version, asked.request, KEPT_WITH_MARKERS
                )
                asked.says += says
            yield from self._take(number, asked)
        for make in AUDIT:
            yield from self._take(steps, make(self.world))

    def _prepare(self, side: TxnSide) -> None:
        side.clear()
        topics = [CreatableTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
        side.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics))
        side.settle()
        side.learn()
        for transactional_id in self._ids:
            wait_until(
                partial(self._found, side, transactional_id, _TRANSACTION), "20s", equals=0, every="2ms"
            )
            wait_until(partial(self._loaded, side, transactional_id), "20s", every="2ms")
        for group_id in GROUPS:
            wait_until(partial(self._found, side, group_id, _GROUP), "20s", equals=0, every="2ms")
            wait_until(partial(self._group_loaded, side, group_id), "20s", equals=0, every="2ms")
            side.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest([group_id]))

    @staticmethod
    def _found(side: TxnSide, key: str, key_type: int) -> Any:
        return side.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key, key_type)).error_code

    @staticmethod
    def _loaded(side: TxnSide, transactional_id: str) -> bool:
        answer = side.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([transactional_id]))
        return bool(answer.transaction_states[0].error_code == _TRANSACTIONAL_ID_NOT_FOUND)

    @staticmethod
    def _group_loaded(side: TxnSide, group_id: str) -> Any:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)])
        return side.ask(ApiKey.OFFSET_FETCH, 8, request).groups[0].error_code

    def _take(self, number: int, asked: Asked) -> Iterator[Difference]:
        self.asked[f"{asked.api_key.name} {asked.version}"] += 1
        answers = [side.ask(asked.api_key, asked.version, asked.request) for side in self._sides]
        self._learn_producers(answers)
        plains = [
            Plain(side, groups=set(GROUPS)).of(answer)
            for side, answer in zip(self._sides, answers, strict=True)
        ]
        ours, kafkas = plains
        for path, our, their in differences(ours, kafkas):
            why = reason(asked, path, our, their)
            if why is None:
                yield Difference(self._seed, number, asked, path, our, their, (ours, kafkas))
            else:
                self.excused[why] += 1
        if asked.transaction is not None and not isinstance(answers[1], str):
            answer = answers[1]
            if isinstance(answer, InitProducerIdResponse | EndTxnResponse):
                answer.producer_id = self._sides[1].producer_stand_in(answer.producer_id)
            learn(asked, answer, asked.transaction)
        for side in self._sides:
            wait_until(partial(self._is_ending, side), "20s", equals=False, every="2ms")

    def _learn_producers(self, answers: list[Any]) -> None:
        """The same number for the id that each side handed out."""
        if all(isinstance(each, InitProducerIdResponse | EndTxnResponse) for each in answers):
            reals = [each.producer_id for each in answers]
            known = [
                side.producer_stand_in(real) != real for side, real in zip(self._sides, reals, strict=True)
            ]
            if not any(known):
                self._handed_out += 1
                for side, real in zip(self._sides, reals, strict=True):
                    side.learn_producer(self._handed_out, real)

    def _is_ending(self, side: TxnSide) -> bool:
        # One by one: each may have another coordinator.
        for transactional_id in self._ids:
            request = DescribeTransactionsRequest([transactional_id])
            answer = side.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
            if any(state.transaction_state in _ENDING for state in answer.transaction_states):
                return True
        return False
