"""Records that were not delivered, as one error for `flush` and `close`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from klamm.client.producer.batch import Batch
from klamm.errors import DeliveryError, TransactionAbortedError


def delivery_error(batches: Iterable[Batch], dropped: Counter[str]) -> DeliveryError | None:
    """The failures that no future or callback has reported; None if there are none.

    Records of an aborted transaction are not failures: the caller wanted them gone. `dropped` counts failed
    records, by topic, whose batches were not kept.
    """
    failures: list[Exception] = []
    topics = dropped.copy()
    for batch in batches:
        for error in batch.unseen_failures():
            if not isinstance(error, TransactionAbortedError):
                failures.append(error)
                topics[batch.partition.topic] += 1
    if not topics.total():
        return None
    return DeliveryError(failures, topics)


def attach(error: BaseException, failed: DeliveryError) -> None:
    """Report failed records beside an exception that is being raised already, without replacing it."""
    error.add_note(f"closing the producer: {failed}")
    last = error
    while last.__context__ is not None and last.__context__ is not failed:
        last = last.__context__
    if last is not failed:
        last.__context__ = failed
