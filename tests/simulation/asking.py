"""Clients of several brokers: one request at a time, repeated until it is acknowledged."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from klamm.protocol.api import ApiKey

if TYPE_CHECKING:
    from internals.jar import JarClient
    from internals.shared_jar import JarNode
    from simulation.brokers import Brokers

Ask = tuple[ApiKey, int, Any]  # an API, its version, and a request


class Asking:
    """One request at a time: sent to the broker that leads a partition, repeated until it is acknowledged."""

    def __init__(self, cluster: Brokers, topic: str, partition: int) -> None:
        self.cluster = cluster
        self.topic, self.partition = topic, partition
        self.client: JarClient | None = None
        self.at = -1
        self.sent_at_ms = 0

    def step(self) -> None:
        now_ms = self.cluster.jar.clock.now_ms()
        if self.client is not None:
            for answer in self.client.new_answers():
                self.answered(answer)
                self.client.close()
                self.client = None
                return
            if self.client.is_closed or now_ms - self.sent_at_ms > 2_000:
                self.client = None  # lost: whether it was carried out is not known
            return
        node = self.cluster.leader(self.topic, self.partition)
        if node is not None:
            self.client, self.sent_at_ms = node.connect(), now_ms
            self.cluster.deliver(node, partial(self.client.send, *self.request(node)))

    def lose(self) -> None:
        """The connection breaks."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def request(self, node: JarNode) -> Ask:
        raise NotImplementedError

    def answered(self, answer: Any) -> None:
        raise NotImplementedError

    def progress(self) -> int:
        """A number that rises with each acknowledgement."""
        raise NotImplementedError
