"""Consume, transform, produce, exactly once: output and input offsets become visible together.

Run it: `python examples/transactions.py`. It brings its own broker, in this process and in memory.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

from typing import Literal

import klamm

ORDERS = 20


def invoice(bootstrap: str, *, crash_at: bytes | None = None) -> None:
    """Write an invoice for each order. A crash in the middle leaves nothing behind."""
    consumer = klamm.Consumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="invoicing",
        enable_auto_commit=False,  # offsets are committed by the transaction
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=5,
    )
    with consumer, klamm.Producer(bootstrap_servers=bootstrap, transactional_id="invoicing-1") as producer:
        producer.init_transactions()
        while records := consumer.poll(5):
            with producer.transaction():
                for record in records:
                    order = record.value or b""  # None is a deleted value
                    if order == crash_at:
                        raise RuntimeError(f"crashed at {order.decode()}")
                    producer.send("invoices", b"invoice for " + order)
                producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
            if any(record.value == b"order %d" % (ORDERS - 1) for record in records):
                return


def read_all(bootstrap: str, isolation_level: Literal["read_uncommitted", "read_committed"]) -> list[bytes]:
    with klamm.Consumer(
        bootstrap_servers=bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([klamm.TopicPartition("invoices", 0)])
        found: list[bytes] = []
        while records := consumer.poll(1):
            found += [record.value or b"" for record in records]
        return found


def main() -> None:
    with klamm.Broker(group_initial_rebalance_delay_ms=0) as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([klamm.NewTopic("orders", 1), klamm.NewTopic("invoices", 1)]).unwrap()
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(ORDERS):
                producer.send("orders", b"order %d" % number)

        try:
            invoice(broker.bootstrap, crash_at=b"order 12")
        except RuntimeError as error:
            print(f"the first run {error}")
        print(f"invoices after the crash: {len(read_all(broker.bootstrap, 'read_committed'))}")

        invoice(broker.bootstrap)
        invoices = read_all(broker.bootstrap, "read_committed")
        print(f"invoices after the second run: {len(invoices)}, of {len(set(invoices))} orders")


if __name__ == "__main__":
    main()
