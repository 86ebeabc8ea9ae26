"""A range of one partition, fetched ahead of whoever takes it, against a broker in this process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

import klamm
from klamm.client.admin.model import NewTopic
from klamm.client.arrivals import await_data
from klamm.client.config import CONSUMER, ClientConfig
from klamm.client.ranges import (
    NothingCameError,
    OffsetsGoneError,
    RangeReader,
    RangeSettings,
    TopicGoneError,
)
from klamm.client.runtime import ClientThread
from klamm.clock import SystemClock
from klamm.errors import IllegalStateError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers

COUNT = 200
PARTITION = TopicPartition("ranges", 0)


def a_thread(bootstrap: str) -> ClientThread:
    config = ClientConfig.parse(CONSUMER, {"bootstrap.servers": bootstrap}, {})
    thread = ClientThread(
        config.network("ranges"),
        config.metadata(allow_auto_topic_creation=False),
        clock=SystemClock(),
        random=Random(1),
        name="ranges",
    )
    thread.start()
    return thread


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as started:
        with klamm.Admin(bootstrap_servers=started.bootstrap) as admin:
            admin.create_topics([NewTopic(PARTITION.topic, 1)]).unwrap()
        with klamm.Producer(bootstrap_servers=started.bootstrap, batch_size=300) as producer:
            for number in range(COUNT):
                producer.send(PARTITION.topic, b"%030d" % number, partition=0)
        yield started


@pytest.fixture
def thread(broker: klamm.Broker) -> Iterator[ClientThread]:
    made = a_thread(broker.bootstrap)
    yield made
    made.stop()


def offsets(reader: RangeReader) -> list[tuple[int, int]]:
    """The batches that came: first and last offset."""
    found = []
    for fetch in reader:
        assert fetch.start_offset < fetch.next_offset
        found += [(header.base_offset, header.last_offset) for _, header in iter_headers(fetch.data)]
    return found


@pytest.mark.parametrize("ahead_bytes", [1, 1000, 1 << 20])
@pytest.mark.parametrize("max_partition_bytes", [1, 700, 1 << 20])
def test_a_range_is_covered_whatever_the_sizes(
    thread: ClientThread, ahead_bytes: int, max_partition_bytes: int
) -> None:
    settings = RangeSettings(ahead_bytes=ahead_bytes, max_partition_bytes=max_partition_bytes)
    with RangeReader(thread, PARTITION, 7, COUNT - 5, settings) as reader:
        batches = offsets(reader)
    assert batches[0][0] <= 7
    assert batches[-1][1] >= COUNT - 6
    assert all(before[1] + 1 == after[0] for before, after in pairwise(batches))


def test_who_leaves_early_stops_the_fetching_and_the_thread_serves_others(thread: ClientThread) -> None:
    settings = RangeSettings(max_partition_bytes=1, ahead_bytes=1)
    with RangeReader(thread, PARTITION, 0, COUNT, settings) as reader:
        next(iter(reader))
    reader.close()
    with RangeReader(thread, PARTITION, 0, COUNT, RangeSettings()) as second:
        assert offsets(second)[-1][1] == COUNT - 1


def test_an_empty_range_asks_nobody(thread: ClientThread) -> None:
    with RangeReader(thread, PARTITION, 5, 5, RangeSettings()) as reader:
        assert list(reader) == []


def test_an_offset_outside_the_log_is_told_with_what_there_is(thread: ClientThread) -> None:
    reader = RangeReader(thread, PARTITION, COUNT + 50, COUNT + 60, RangeSettings())
    with pytest.raises(OffsetsGoneError) as gone, reader:
        list(reader)
    assert (gone.value.offset, gone.value.start_offset, gone.value.next_offset) == (COUNT + 50, 0, COUNT)


def test_a_log_that_ends_too_early_is_waited_for_only_so_long(thread: ClientThread) -> None:
    reader = RangeReader(thread, PARTITION, COUNT - 1, COUNT + 5, RangeSettings(poll_timeout_ms=200))
    fetches = iter(reader)
    # What there is comes first.
    assert next(fetches).next_offset == COUNT
    with pytest.raises(NothingCameError, match=f"ends at offset {COUNT}"), reader:
        next(fetches)


def test_a_topic_that_is_another_one_by_now_is_not_read(thread: ClientThread) -> None:
    reader = RangeReader(thread, PARTITION, 0, 5, RangeSettings(), topic_id=b"another topic id")
    with pytest.raises(TopicGoneError, match="deleted and created again"), reader:
        list(reader)


def test_a_topic_that_is_not_there_is_looked_for_only_so_long(thread: ClientThread) -> None:
    settings = RangeSettings(missing_topic_ms=1, retry_backoff_ms=1)
    reader = RangeReader(thread, TopicPartition("nowhere", 0), 0, 5, settings)
    with pytest.raises(TopicGoneError, match="nowhere-0 no longer exists"), reader:
        list(reader)


def test_a_broker_that_is_away_is_named_when_patience_ends() -> None:
    thread = a_thread("127.0.0.1:1")
    try:
        reader = RangeReader(thread, PARTITION, 0, 5, RangeSettings(poll_timeout_ms=100))
        with pytest.raises(KlammTimeoutError, match=r"127\.0\.0\.1:1"), reader:
            list(reader)
    finally:
        thread.stop()


def test_waiting_for_news_ends_at_once_when_there_are_some(thread: ClientThread) -> None:
    # An hour at most: that it returns is the test.
    await_data(thread, {PARTITION: 3}, max_wait_ms=3_600_000, is_read_committed=False)
    await_data(thread, {PARTITION: COUNT}, max_wait_ms=20, is_read_committed=True)
    await_data(thread, {}, max_wait_ms=3_600_000, is_read_committed=False)
    await_data(thread, {TopicPartition("nowhere", 0): 0}, max_wait_ms=20, is_read_committed=False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_whose_client_dies_raises_instead_of_waiting(broker: klamm.Broker) -> None:
    dying = a_thread(broker.bootstrap)
    # Beyond the end of the log: without its client the reader would wait for ever.
    reader = RangeReader(dying, PARTITION, COUNT, COUNT + 1, RangeSettings(max_wait_ms=60_000))

    def die() -> None:
        raise MemoryError("out of memory")

    dying.reactor.submit(die)
    with pytest.raises(IllegalStateError, match="out of memory"):
        list(reader)
    dying.stop()
