"""A transaction with kill -9 after each step: what readers see, and what the next producer finds.

Run it: `python examples/transaction_steps.py`. It brings its own broker, in memory; the producer is a
process that kills itself after a step. The next producer with the same transactional.id aborts what was
left open, or completes what was decided: readers of committed records see all of a transaction or
nothing.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import os
import signal
import subprocess
import sys

import klamm

STEPS = ("init", "begin", "send", "offsets", "commit")


def produce(bootstrap: str, last_step: str) -> None:
    """Take the steps of a transaction, and die after one of them."""
    producer = klamm.Producer(bootstrap_servers=bootstrap, transactional_id="billing-1")
    consumer = klamm.Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="billing", enable_auto_commit=False
    )
    for step in STEPS:
        match step:
            case "init":
                producer.init_transactions()
            case "begin":
                producer.begin_transaction()
            case "send":
                producer.send("invoices", b"invoice").result()
            case "offsets":
                place = klamm.TopicPartition("orders", 0)
                producer.send_offsets_to_transaction({place: 1}, consumer.group_metadata())
            case "commit":
                producer.commit_transaction()
        if step == last_step:
            os.kill(os.getpid(), signal.SIGKILL)


def state(admin: klamm.Admin) -> str:
    return admin.describe_transactions(["billing-1"]).unwrap()["billing-1"].state


def invoices(bootstrap: str) -> int:
    """How far readers of committed records get: the last stable offset, less the markers."""
    place = klamm.TopicPartition("invoices", 0)
    with klamm.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        count = 0
        while consumer.position(place) < end:
            count += len(consumer.poll(0.5))
        return count


def main() -> None:
    with klamm.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic("orders", 1), klamm.NewTopic("invoices", 1)]).unwrap()
        for step in STEPS:
            before = invoices(broker.bootstrap)
            subprocess.run([sys.executable, __file__, broker.bootstrap, step], check=False)
            left = state(admin)
            with klamm.Producer(bootstrap_servers=broker.bootstrap, transactional_id="billing-1") as heir:
                heir.init_transactions()
            seen = invoices(broker.bootstrap) - before
            print(f"killed after {step}: {left}; its heir leaves {state(admin)}; readers see {seen}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        produce(sys.argv[1], sys.argv[2])
    else:
        main()
