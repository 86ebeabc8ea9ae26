"""Every member reads everything: the broadcast assignor, and offsets of each member in its own file.

Run it: `python examples/broadcast.py`. It brings its own broker, in this process and in memory. Offsets
of a group are one per partition; members that all read it would overwrite each other's, so that each
keeps its own.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import tempfile
from pathlib import Path

import klamm

NEWS = 6


def read(bootstrap: str, folder: Path, name: str, count: int) -> list[str]:
    """What one member reads until it has so many records; it commits to its file."""
    consumer = klamm.Consumer(
        "news",
        bootstrap_servers=bootstrap,
        group_id="caches",
        client_id=name,  # the name of its offsets, too
        value_deserializer=bytes.decode,
        auto_offset_reset="earliest",
        partition_assignment_strategy="broadcast",
        offset_store=klamm.FileOffsetStore(folder),
    )
    found: list[str] = []
    with consumer:
        while len(found) < count:
            found += [record.value for record in consumer.poll(0.2)]
        consumer.commit()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, klamm.Broker(group_initial_rebalance_delay_ms=0) as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(NEWS):
                producer.send("news", b"%d" % number)
        first = {name: read(broker.bootstrap, Path(folder), name, NEWS) for name in ("anna", "bert")}
        print(*(f"{name} read {len(found)}" for name, found in first.items()), sep=", ")
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("news", b"late").result()
        print("anna goes on with", *read(broker.bootstrap, Path(folder), "anna", 1))
        print("files:", *sorted(path.name for path in Path(folder).iterdir()))


if __name__ == "__main__":
    main()
