"""Exactly once without transactions: offsets in the database that has the results.

Run it: `python examples/offsets_elsewhere.py`. It brings its own broker, in this process and in memory.
Result and offset are one transaction of SQLite, so that a crash loses both or none; a new member begins
where the database says. `klamm.StatefulListener` and `offset.store` do such things for you.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import sqlite3

import klamm

ORDERS = 20
TABLES = """
CREATE TABLE sums (partition INTEGER PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE offsets (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
"""


class OffsetsInDatabase(klamm.RebalanceListener):
    """Begins where the database says, not where the group's offsets are."""

    def __init__(self, consumer: klamm.Consumer[bytes | None, int], database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database

    def on_assigned(self, partitions: list[klamm.TopicPartition]) -> None:
        for place in partitions:
            query = "SELECT next FROM offsets WHERE partition = ?"
            found = self._database.execute(query, (place.partition,)).fetchone()
            self._consumer.seek(place, 0 if found is None else found[0])


def add_up(bootstrap: str, database: sqlite3.Connection, *, crash_at: int | None = None) -> None:
    """Add the orders up. A crash comes between a result and its offset: neither counts then."""
    consumer = klamm.Consumer(
        bootstrap_servers=bootstrap, group_id="sums", enable_auto_commit=False, value_deserializer=int
    )
    with consumer:
        consumer.subscribe(["orders"], OffsetsInDatabase(consumer, database))
        while records := consumer.poll(5):
            for record in records:
                with database:  # one transaction
                    database.execute(
                        "INSERT INTO sums VALUES (?, ?) "
                        "ON CONFLICT DO UPDATE SET total = total + excluded.total",
                        (record.partition, record.value),
                    )
                    if record.value == crash_at:
                        raise RuntimeError(f"crashed at {crash_at}")
                    database.execute(
                        "INSERT INTO offsets VALUES (?, ?) ON CONFLICT DO UPDATE SET next = excluded.next",
                        (record.partition, record.offset + 1),
                    )
            if database.execute("SELECT sum(next) FROM offsets").fetchone()[0] == ORDERS:
                return


def main() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(TABLES)
    with klamm.Broker(settings={"num.partitions": 2, "group.initial.rebalance.delay.ms": 0}) as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(ORDERS):
                producer.send("orders", b"%d" % number, partition=number % 2)
        try:
            add_up(broker.bootstrap, database, crash_at=12)
        except RuntimeError as error:
            print(f"the first run {error}")
        add_up(broker.bootstrap, database)
    (total,) = database.execute("SELECT sum(total) FROM sums").fetchone()
    print(f"the sum is {total}, of {sum(range(ORDERS))}")


if __name__ == "__main__":
    main()
