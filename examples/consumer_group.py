"""Two members share a topic; one leaves, the other takes over, and each can say why it rebalanced.

Run it: `python examples/consumer_group.py`. It brings its own broker, in this process and in memory. Here one
thread polls both members in turn; in earnest each is a process of its own.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import klamm

PARTITIONS = 4
seen: Counter[bytes] = Counter()


def a_member(name: str, bootstrap: str) -> klamm.Consumer:
    def assigned(partitions: list[klamm.TopicPartition]) -> None:
        print(f"  {name} gets {' '.join(map(str, partitions)) or 'nothing new'}")

    def revoked(partitions: list[klamm.TopicPartition]) -> None:
        print(f"  {name} gives up {' '.join(map(str, partitions))}")

    consumer = klamm.Consumer(
        bootstrap_servers=bootstrap,
        group_id="workers",
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,  # hears of a rebalance soon
        partition_assignment_strategy="cooperative-sticky",  # what stays is read on while others move
    )
    consumer.subscribe(["jobs"], on_assign=assigned, on_revoke=revoked)
    return consumer


def work(members: list[klamm.Consumer], is_done: Callable[[], bool]) -> None:
    """Poll, process, commit, in this order: the next owner continues after the last commit."""
    while not is_done():
        for member in members:
            records = member.poll(0.05)
            seen.update(record.value or b"" for record in records)
            if records:
                member.commit()


def main() -> None:
    with (
        klamm.Broker(num_partitions=PARTITIONS) as broker,
        klamm.Producer(bootstrap_servers=broker.bootstrap) as producer,
    ):

        def produce(count: int, start: int) -> None:
            for number in range(start, start + count):
                producer.send("jobs", b"job %d" % number, partition=number % PARTITIONS)
            producer.flush()

        produce(100, start=0)
        anna = a_member("anna", broker.bootstrap)
        print("anna joins")
        work([anna], lambda: len(seen) == 100)

        bert = a_member("bert", broker.bootstrap)
        print("bert joins")
        work([anna, bert], lambda: len(bert.assignment()) == PARTITIONS // 2)
        produce(100, start=100)
        work([anna, bert], lambda: len(seen) == 200)

        print("anna leaves")
        anna.close()
        produce(100, start=200)
        work([bert], lambda: len(seen) == 300)
        print(f"{len(seen)} jobs, each done {' or '.join(map(str, set(seen.values())))} time")
        print("bert rebalanced because:", "; ".join(item.cause for item in bert.rebalances()))
        bert.close()


if __name__ == "__main__":
    main()
