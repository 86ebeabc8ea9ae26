"""The orders of the demo: generated and counted, so that the result can be checked."""

from __future__ import annotations

import json
import threading
from random import Random
from typing import Final

from klamm.client.producer.producer import Producer
from klamm.clock import Clock

TOPIC: Final = "orders"
PRODUCTS: Final = ("apples", "bread", "cheese", "dates", "eggs", "figs")


class OrderSource:
    """Sends orders on its own thread until stopped; counts them."""

    def __init__(self, bootstrap: str, *, per_second: int, clock: Clock, random: Random) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap, linger_ms=20)
        self._pause_s = 0.05
        self._per_turn = max(1, round(per_second * self._pause_s))
        self._clock = clock
        self._random = random
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.sent = 0
        self.revenue_cents = 0

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause_s):
            for _ in range(self._per_turn):
                self._send_one()

    def _send_one(self) -> None:
        price_cents = self._random.randint(50, 2_000)
        order = {
            "order": self.sent,
            "product": self._random.choice(PRODUCTS),
            "cents": price_cents,
            "at_ms": self._clock.timestamp_ms(),
        }
        self._producer.send(TOPIC, json.dumps(order), key=str(order["order"]))
        self.sent += 1
        self.revenue_cents += price_cents

    def stop(self) -> None:
        """Stop sending; all orders are delivered when this returns."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(30)

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close(5)
