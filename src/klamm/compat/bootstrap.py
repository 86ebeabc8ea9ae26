"""Waiting for the first answer of a cluster: the other libraries do so when a client is made or started."""

from __future__ import annotations

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.consumer.offsets.lookup import all_topics
from klamm.client.consumer.polling.hosts import ConsumerHost, ThreadHost
from klamm.client.producer.producer import Producer
from klamm.client.runtime import ClientThread


def wait_for_cluster(client: Producer | ConsumerHost, timeout_ms: float) -> None:
    """Ask any broker for nothing; raises klamm's error when none has answered in time."""
    assert isinstance(client, Producer | ThreadHost)
    first_answer(client._thread, timeout_ms)


def first_answer(thread: ClientThread, timeout_ms: float) -> None:
    """As `wait_for_cluster`, for any client's thread."""
    calls = Calls(thread.core, RetryPolicy(int(timeout_ms), 100, 1000))
    thread.run(lambda: all_topics(calls, [], calls.deadline("waiting for the cluster"))).result()
