"""A producer whose thread has died: whatever waits for it fails, and nothing waits for ever."""

from __future__ import annotations

import threading
import time

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


@pytest.mark.parametrize("end", ["thread", "close"])
def test_a_caller_that_waits_for_metadata_is_told_that_it_will_not_come(end: str) -> None:
    producer = klamm.Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=600_000)
    caught: list[BaseException] = []

    def send() -> None:
        try:
            producer.send("t", b"x")
        except IllegalStateError as error:
            caught.append(error)

    caller = threading.Thread(target=send)
    caller.start()
    while "t" not in (producer._thread.core.metadata._topics or ()):  # until it waits
        time.sleep(0.001)
    if end == "thread":
        producer._thread.reactor.submit(die)
    else:
        producer.close()
    caller.join(PATIENCE_S)
    assert not caller.is_alive()
    assert len(caught) == 1
    producer.close()
