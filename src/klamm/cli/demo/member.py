"""One member of the demo's group, in its own process, so that it can be killed.

Prints a line of JSON for each poll that brought orders: how many, and which. Leaves when its input ends.
"""

from __future__ import annotations

import json
import sys
import threading

from klamm.cli.demo.orders import TOPIC
from klamm.client.consumer.consumer import Consumer


def main(bootstrap: str, group: str, name: str, session_timeout_ms: str) -> None:
    """Read orders until standard input is closed."""
    leaving = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": name,
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    with Consumer(TOPIC, settings) as consumer:
        while not leaving.is_set():
            orders = [json.loads(record.value)["order"] for record in consumer.poll(0.2)]
            if orders:
                sys.stdout.write(json.dumps(orders) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
