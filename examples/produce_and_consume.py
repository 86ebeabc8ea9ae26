"""Records in, records out: the shortest way through a topic.

Run it: `python examples/produce_and_consume.py`. It brings its own broker, in this process and in memory; to
use yours, put its address where `broker.bootstrap` stands.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import klamm


def main() -> None:
    with klamm.Broker(num_partitions=3) as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap, linger_ms=5) as producer:
            for number in range(6):
                # Returns at once with a future. The same key always goes to the same partition.
                producer.send("orders", f"order {number}", key=f"customer {number % 2}")
            last = producer.send("orders", "the last one", key="customer 0", headers={"urgent": b"yes"})
            print("the last one is at offset", last.result().offset)
            producer.flush()  # raises if a record was not delivered and its future was not read

        consumer = klamm.Consumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        with consumer:
            seen = 0
            while seen < 7:
                for record in consumer.poll(1.0):
                    print((record.key or b"").decode(), "-", (record.value or b"").decode())
                    seen += 1
                consumer.commit()  # what was printed is done: a restart goes on behind it


if __name__ == "__main__":
    main()
