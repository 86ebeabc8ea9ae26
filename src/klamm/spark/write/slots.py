"""The transactions of single tasks: each task has a slot, which is a transactional id of its own.

A slot is ended by any process that has its producer id and epoch: the driver that decided, or the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.client.producer.transactions.manager import V1_END_TXN
from klamm.client.producer.transactions.requests import CoordinatorRequests
from klamm.client.runtime import ClientThread
from klamm.errors import BrokerError, KlammError, KlammTimeoutError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import admin, fetcher
from klamm.spark.write.steps import FENCED

_RETRIES: Final = RetryPolicy(timeout_ms=60_000, retry_backoff_ms=100, retry_backoff_max_ms=1_000)
# What EndTxn answers when another transaction followed, or this one ended in the other way.
_ENDED_OTHERWISE: Final = (*FENCED, ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_id_mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What one task wrote in a transaction of its own."""

    number: int
    producer_id: int
    epoch: int
    version: int  # of the transaction protocol
    row_count: int
    digest: str


def slot_id(transactional_id: str, number: int) -> str:
    """The transactional id of a slot: by the number of the Spark partition, the same for every attempt."""
    return f"{transactional_id}-{number}"


def driver_id(transactional_id: str) -> str:
    return f"{transactional_id}-drv"


def open_slot(transactional_id: str, slot: Slot) -> OpenTransaction:
    return OpenTransaction(slot_id(transactional_id, slot.number), slot.producer_id, slot.epoch, slot.version)


def end(
    options: SinkOptions, transactions: Sequence[OpenTransaction], *, commits: bool
) -> list[BrokerError | None]:
    """End transactions, all at the same time: None for each that ended so, or had, else the refusal.

    Raises KlammError for one whose end is not known.
    """
    thread = fetcher(options.client)
    asked = [(transaction, _ask(thread, transaction, commits)) for transaction in transactions]
    results: list[BrokerError | None] = []
    for transaction, future in asked:
        try:
            future.result(options.transaction_timeout_s)
        except BrokerError as error:
            if error.error_code not in _ENDED_OTHERWISE:
                raise
            results.append(error)
        except TimeoutError as error:
            if isinstance(error, KlammError):
                raise
            raise KlammTimeoutError(
                f"ending the transaction of {transaction.transactional_id} took longer than "
                f"{options.transaction_timeout_s:g} s"
            ) from error
        else:
            results.append(None)
    return results


def _ask(thread: ClientThread, transaction: OpenTransaction, commits: bool) -> Future[Any]:
    requests = CoordinatorRequests(thread.core, Calls(thread.core, _RETRIES), transaction.transactional_id)
    message = EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=commits,
    )
    word = "committing" if commits else "aborting"
    return thread.run(
        lambda: requests.to_transaction_coordinator(
            ApiKey.END_TXN,
            message,
            f"{word} the transaction of {transaction.transactional_id}",
            max_version=32767 if transaction.version >= 2 else V1_END_TXN,
        )
    )


def fence(options: SinkOptions, numbers: Sequence[int]) -> None:
    """Abort what these slots have open; when this returns, everything they had is decided and visible."""
    assert options.transactional_id is not None
    ids = [slot_id(options.transactional_id, number) for number in numbers]
    if ids:
        admin(options.client).fence_producers(ids).unwrap()


def open_numbers(options: SinkOptions) -> list[int]:
    """The slots with an open transaction: those of a batch that was not decided."""
    assert options.transactional_id is not None
    pattern = re.compile(re.escape(options.transactional_id) + r"-(\d+)")
    listed = admin(options.client).list_transactions(states=["Ongoing"])
    found = [pattern.fullmatch(item.transactional_id) for item in listed]
    return sorted(int(match[1]) for match in found if match is not None)
