"""At most once, at least once, exactly once: three orders of work and commit, with kill -9 in between.

Run it: `python examples/delivery_guarantees.py`. It brings its own broker, in memory. A worker reads orders
and writes an invoice for each; it is a process that kills itself at order 12, between its two steps. A
second one goes on where the first one's commits say.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import klamm

ORDERS = 20
CRASH_AT = 12
ORDERS_OF_STEPS = ("at most once", "at least once", "exactly once")


def work(bootstrap: str, steps: str, crash_at: int | None) -> None:
    """Write an invoice for each order, and die in the middle of one."""
    transactional = {"transactional.id": "invoicing-1"} if steps == "exactly once" else {}
    producer = klamm.Producer(transactional, bootstrap_servers=bootstrap)
    if transactional:
        producer.init_transactions()  # aborts what a worker of this name has left open
    consumer = klamm.Consumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id=f"invoicing {steps}",
        group_instance_id="worker-1",  # its next process is the same member: nobody waits for the dead one
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )

    def write() -> None:
        producer.send(steps.replace(" ", "-"), b"%d" % number).result()

    def crash() -> None:
        if number == crash_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with producer, consumer:
        for record in consumer:
            number = int(record.value or 0)
            match steps:
                case "at most once":
                    consumer.commit(message=record)
                    crash()  # committed, not written: lost
                    write()
                case "at least once":
                    write()
                    crash()  # written, not committed: written again
                    consumer.commit(message=record)
                case "exactly once":
                    with producer.transaction():
                        write()
                        place = klamm.TopicPartition(record.topic, record.partition)
                        offsets = {place: record.offset + 1}
                        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                        crash()  # neither: invoice and offset are committed together, or aborted
            if number == ORDERS - 1:
                return


def written(bootstrap: str, topic: str) -> Counter[int]:
    """How many invoices each order has, as a reader of committed records sees it."""
    place = klamm.TopicPartition(topic, 0)
    found: Counter[int] = Counter()
    with klamm.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            found.update(int(record.value or 0) for record in consumer.poll(0.5))
    return found


def main() -> None:
    with klamm.Broker() as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(ORDERS):
                producer.send("orders", b"%d" % number)
        for steps in ORDERS_OF_STEPS:
            command = [sys.executable, __file__, "work", broker.bootstrap, steps]
            died = subprocess.run([*command, str(CRASH_AT)], check=False).returncode == -signal.SIGKILL
            subprocess.run(command, check=True)
            count = written(broker.bootstrap, steps.replace(" ", "-"))
            lost = sorted(set(range(ORDERS)) - count.keys())
            twice = sorted(number for number in count if count[number] > 1)
            print(f"{steps}: {count.total()} invoices of {ORDERS} orders, lost {lost}, twice {twice}")
            assert died


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        _, _, bootstrap, steps, *crash_at = sys.argv
        work(bootstrap, steps, int(crash_at[0]) if crash_at else None)
    else:
        main()
