"""Workers of the transaction tests, each a process of its own: killed, fenced, or handed a transaction.

python transaction_worker.py copy BOOTSTRAP SOURCE TARGET GROUP ID   copy records, exactly once, until killed
python transaction_worker.py leave BOOTSTRAP TOPIC ID                leave a transaction open, then wait
python transaction_worker.py resume BOOTSTRAP TOPIC                  carry on what comes on standard input
"""

# ruff: noqa: T201 - it talks in lines

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Callable

import klamm


def copy(bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
    """Consume, transform, produce; after an abortable error go back to what is committed."""
    consumer = klamm.Consumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=200,
        max_poll_records=50,
    )
    producer = klamm.Producer(
        bootstrap_servers=bootstrap, transactional_id=transactional_id, retry_backoff_ms=20, linger_ms=1
    )
    producer.init_transactions()
    while True:
        records = consumer.poll(0.5)
        if not records:
            continue
        try:
            with producer.transaction():
                for record in records:
                    producer.send(target, record.value, partition=record.partition)
                producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
        except klamm.KlammError as error:
            if not error.is_abortable:
                raise
            consumer.seek_to_committed(*records.partitions())
            continue
        print(len(records), flush=True)


def leave(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = klamm.Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"never seen", partition=0).result(30)
    print("open", flush=True)
    sys.stdin.readline()


def resume(bootstrap: str, topic: str) -> None:
    transaction: klamm.OpenTransaction = pickle.loads(base64.b64decode(sys.stdin.readline()))
    partition = int(sys.stdin.readline())
    producer = klamm.Producer(bootstrap_servers=bootstrap, transactional_id=transaction.transactional_id)
    producer.resume_transaction(transaction)
    for number in range(100):
        producer.send(topic, b"%d of %d" % (number, partition), partition=partition)
    handed_back = producer.hand_over_transaction()
    producer.close()
    print(base64.b64encode(pickle.dumps(handed_back)).decode(), flush=True)


if __name__ == "__main__":
    workers: dict[str, Callable[..., None]] = {"copy": copy, "leave": leave, "resume": resume}
    workers[sys.argv[1]](*sys.argv[2:])
