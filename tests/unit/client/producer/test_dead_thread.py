"""A producer whose thread has died: whatever waits for it fails, and nothing waits for ever."""

from __future__ import annotations

import pytest

import klamm
from klamm.errors import IllegalStateError

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
PATIENCE_S = 10


def die() -> None:
    raise MemoryError("out of memory")


def test_records_that_wait_fail_and_new_ones_are_refused() -> None:
    with klamm.Broker() as broker:
        producer = klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000)
        waiting = producer.send("t", b"x")
        producer._thread.reactor.submit(die)
        with pytest.raises(IllegalStateError, match="out of memory"):
            waiting.result(PATIENCE_S)
        with pytest.raises(IllegalStateError, match="out of memory"):
            producer.send("t", b"y")
        producer.close()


def test_a_transaction_ends_with_the_error_of_the_thread() -> None:
    with klamm.Broker() as broker:
        producer = klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000, transactional_id="t")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x")
        producer._thread.reactor.submit(die)
        with pytest.raises(IllegalStateError):
            producer.commit_transaction()
        producer.close()
