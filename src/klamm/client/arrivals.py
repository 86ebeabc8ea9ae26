"""Waits for new records without reading them: a long poll over many partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.ranges import NAMES_VERSION
from klamm.client.runtime import ClientThread
from klamm.clock import event_on
from klamm.net.network import Node
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from klamm.protocol.types import ZERO_ID, TopicPartition


def await_data(
    thread: ClientThread,
    positions: Mapping[TopicPartition, int],
    *,
    max_wait_ms: int,
    is_read_committed: bool,
) -> None:
    """Return when a partition has something at or after its position, or when the time is over.

    Best effort: an error here is ignored, because the read that follows reports it.
    """
    if not positions or max_wait_ms <= 0:
        return
    done = event_on(thread.clock)
    thread.run(lambda: _await_data(thread, positions, max_wait_ms, is_read_committed)).add_done_callback(
        lambda _future: done.set()
    )
    done.wait(max_wait_ms / 1000)


async def _await_data(
    thread: ClientThread,
    positions: Mapping[TopicPartition, int],
    max_wait_ms: int,
    is_read_committed: bool,
) -> None:
    core = thread.core
    calls = Calls(core, RetryPolicy(max_wait_ms, 100, 1_000))
    led, _ = await calls.leaders_of(sorted(positions), calls.deadline("finding leaders"))
    first: Promise[None] = Promise()
    open_count = len(led)

    def answered(promise: Promise[FetchResponse]) -> None:
        nonlocal open_count
        open_count -= 1
        has_data = promise.error is None and any(
            item.error_code or (item.records is not None and len(item.records))
            for topic in promise.result().responses
            for item in topic.partitions
        )
        if has_data or not open_count:
            first.resolve(None)

    for broker_id, partitions in led.items():
        topics, has_ids = _waiting_topics(thread, partitions, positions)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1,
            isolation_level=int(is_read_committed),
            topics=topics,
        )
        core.tasks.request(
            Node("broker", broker_id),
            ApiKey.FETCH,
            request,
            timeout_ms=max_wait_ms + core.network.config.request_timeout_ms,
            max_version=32767 if has_ids else NAMES_VERSION,
        ).when_done(answered)
    if led:
        await first


def _waiting_topics(
    thread: ClientThread, partitions: Sequence[TopicPartition], positions: Mapping[TopicPartition, int]
) -> tuple[list[FetchTopic], bool]:
    topics: dict[str, list[FetchPartition]] = {}
    for item in partitions:
        topics.setdefault(item.topic, []).append(
            FetchPartition(partition=item.partition, fetch_offset=positions[item], partition_max_bytes=1)
        )
    known = thread.core.metadata.cluster.topics
    ids = {name: known[name].topic_id for name in topics}
    wanted = [FetchTopic(topic_id=ids[name], topic=name, partitions=items) for name, items in topics.items()]
    return wanted, ZERO_ID not in ids.values()
