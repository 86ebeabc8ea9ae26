"""A transaction as a value: what several processes did with it is put together, or refused."""

from __future__ import annotations

import pickle

import pytest

from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.errors import IllegalStateError
from unit.client.producer.world import T0, T1

BEGUN = OpenTransaction("orders-1", 7, 3, 2)


def after(**changes: object) -> OpenTransaction:
    return OpenTransaction("orders-1", 7, 3, 2, **changes)  # type: ignore[arg-type]  # as the test says


def test_it_survives_pickling() -> None:
    value = after(next_sequences={T0: 4}, partitions=frozenset({T0}), groups=frozenset({"workers"}))
    assert pickle.loads(pickle.dumps(value)) == value
    assert value.is_written
    assert not BEGUN.is_written


def test_what_two_processes_wrote_to_different_partitions_is_put_together() -> None:
    merged = BEGUN.merged(
        [
            after(next_sequences={T0: 4}, partitions=frozenset({T0})),
            after(next_sequences={T1: 2}, partitions=frozenset({T1}), groups=frozenset({"workers"})),
            BEGUN,
        ]
    )
    assert merged == after(
        next_sequences={T0: 4, T1: 2}, partitions=frozenset({T0, T1}), groups=frozenset({"workers"})
    )


def test_two_processes_that_wrote_to_one_partition_are_refused() -> None:
    one = after(next_sequences={T0: 4}, partitions=frozenset({T0}))
    other = after(next_sequences={T0: 2}, partitions=frozenset({T0}))
    with pytest.raises(IllegalStateError, match="two processes wrote to t-0"):
        BEGUN.merged([one, other])


def test_a_partition_that_was_written_before_and_not_since_is_no_conflict() -> None:
    base = after(next_sequences={T0: 4}, partitions=frozenset({T0}))
    merged = base.merged([base, after(next_sequences={T0: 9}, partitions=frozenset({T0}))])
    assert merged.next_sequences == {T0: 9}


def test_transactions_of_different_epochs_are_not_put_together() -> None:
    with pytest.raises(IllegalStateError, match="two transactions"):
        BEGUN.merged([OpenTransaction("orders-1", 7, 4, 2)])


def test_a_prepared_transaction_is_text_and_back() -> None:
    prepared = PreparedTransaction(4001, 3)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    for text in ("", "4001", "4001:", "a:b"):
        with pytest.raises(ValueError, match="expected producer_id:epoch"):
            PreparedTransaction.parse(text)
