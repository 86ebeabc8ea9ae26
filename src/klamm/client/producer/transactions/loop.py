"""Consume, transform, produce, exactly once, as one call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import Records
from klamm.client.producer.producer import Producer
from klamm.errors import KlammError

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 5


def run_transaction_loop(
    consumer: Consumer[Any, Any],
    producer: Producer,
    transform: Callable[[Records[Any, Any]], None],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    poll_timeout: float = 1.0,
    max_attempts: int = MAX_ATTEMPTS,
) -> None:
    """Poll, `transform(records)` in a transaction, commit it with the offsets of these records; and again.

    `transform` sends with the same producer. The consumer needs `enable.auto.commit=false`; call
    `init_transactions()` before. After an abortable error the records are read and transformed again, at most
    `max_attempts` times in a row; what `transform` raises, and fatal errors, end the loop.
    """
    failures = 0
    while not should_stop():
        records = consumer.poll(poll_timeout)
        if not records:
            continue
        try:
            with producer.transaction():
                transform(records)
                producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
        except KlammError as error:
            failures += 1
            if not error.is_abortable or failures >= max_attempts:
                raise
            log.warning("transaction aborted, reading its records again: %s", error)
            # Partitions that were reassigned are read again by their new owner.
            kept = set(records.partitions()) & set(consumer.assignment())
            if kept:
                consumer.seek_to_committed(*kept)
        else:
            failures = 0
