"""Whatever a caller does between polls, each partition is read on from where it stands, without gaps."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from klamm.client.consumer.fetch.fetching import fetch_node
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World

ASSIGNED = partitions("t", [0, 1, 2])
PATIENCE = 60  # polls, until everything must have come


class Reading(RuleBasedStateMachine):
    """Three partitions, one of them empty at first; the values of records are their offsets."""

    @initialize(batches_per_fetch=st.integers(1, 3), limit=st.integers(1, 40))
    def start(self, batches_per_fetch: int, limit: int) -> None:
        self.world = World()
        self.world.cluster.create("t", len(ASSIGNED))
        for partition in ASSIGNED:
            self.world.cluster.log(partition).batches_per_fetch = batches_per_fetch
        self.produce(ASSIGNED[0], 8)
        self.produce(ASSIGNED[1], 2)
        self.consumer = self.world.consumer(max_poll_records=limit)
        self.consumer.assign(ASSIGNED)
        self.expected = dict.fromkeys(ASSIGNED, 0)
        self.is_held = False

    @rule(partition=st.sampled_from(ASSIGNED), batches=st.integers(1, 4))
    def produce(self, partition: TopicPartition, batches: int) -> None:
        for _ in range(batches):
            start = self.world.cluster.log(partition).next_offset
            self.world.cluster.produce(partition, *[b"%d" % offset for offset in range(start, start + 7)])

    @rule(max_records=st.none() | st.integers(1, 30), timeout=st.sampled_from([0, 0.01, 1]))
    def poll(self, max_records: int | None, timeout: float) -> None:
        for record in self.consumer.poll(timeout, max_records=max_records):
            partition = record.topic_partition
            assert record.offset == self.expected[partition], f"{partition} was to go on elsewhere"
            assert record.value == b"%d" % record.offset
            assert partition not in self.consumer.paused()
            self.expected[partition] += 1

    @rule(partition=st.sampled_from(ASSIGNED), share=st.floats(0, 1))
    def seek(self, partition: TopicPartition, share: float) -> None:
        offset = round(share * self.world.cluster.log(partition).next_offset)
        self.consumer.seek(partition, offset)
        self.expected[partition] = offset

    @rule(partition=st.sampled_from(ASSIGNED))
    def pause_or_resume(self, partition: TopicPartition) -> None:
        is_paused = partition in self.consumer.paused()
        (self.consumer.resume if is_paused else self.consumer.pause)(partition)

    @rule(duration_ms=st.integers(1, 700))
    def the_thread_goes_on(self, duration_ms: int) -> None:
        self.consumer._operations.engine.on_poll()
        self.world.pass_time(duration_ms)

    @rule()
    def answers_are_held_up_or_come(self) -> None:
        cluster = self.world.cluster
        (cluster.release if self.is_held else cluster.hold)(ApiKey.FETCH)
        self.is_held = not self.is_held

    @rule()
    def the_connection_is_lost(self) -> None:
        self.world.hosts[0].core.network.disconnect(fetch_node(1), "gone")

    def teardown(self) -> None:
        """In the end everything is read, and soon."""
        if not hasattr(self, "consumer"):
            return
        if self.is_held:
            self.answers_are_held_up_or_come()
        self.consumer.resume(*self.consumer.paused())
        ends = {partition: self.world.cluster.log(partition).next_offset for partition in ASSIGNED}
        for _ in range(PATIENCE):
            if self.expected == ends:
                return
            self.poll(10_000, 1)
        assert self.expected == ends


Reading.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestReading = Reading.TestCase
