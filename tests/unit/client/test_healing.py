"""Connections are lost at random moments, then everything heals: what was begun ends soon, and well.

Time-outs are minutes here. An operation that needs more than seconds after the end of the outage has missed a
wake-up, or waits for something that a failure has made impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from klamm.client.calls import Calls, RetryPolicy
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from klamm.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from klamm.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from unit.client.consumer.fake_cluster import partitions
from unit.client.consumer.world import World as ConsumerWorld
from unit.client.fakes import Asked, FakeLink
from unit.client.producer.world import T0, T1, metadata
from unit.client.producer.world import World as ProducerWorld

MINUTES_MS = 600_000
SOON_MS = 15_000  # a few backoffs of a second
SEEDS = range(60)


def response_to(asked: Asked) -> Any:
    match asked.api_key:
        case ApiKey.METADATA:
            return metadata()
        case ApiKey.FIND_COORDINATOR:
            return FindCoordinatorResponse(
                node_id=1, host="127.0.0.1", port=9092, coordinators=[Coordinator("g", 1, "127.0.0.1", 9092)]
            )
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdResponse(producer_id=7)
        case ApiKey.PRODUCE:
            return ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        topic_id=topic.topic_id,
                        name=topic.name,
                        partition_responses=[
                            PartitionProduceResponse(index=item.index) for item in topic.partition_data
                        ],
                    )
                    for topic in asked.request.topic_data
                ]
            )
        case ApiKey.CREATE_TOPICS:
            return CreateTopicsResponse()
        case ApiKey.DESCRIBE_GROUPS:
            return DescribeGroupsResponse()
        case _:
            return ListGroupsResponse()


class Outage(ProducerWorld):
    """A producer and calls of one client, and a network that a seed makes fail."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        super().__init__(
            linger_ms=self.chance.choice((0, 5)),
            delivery_timeout_ms=MINUTES_MS,
            request_timeout_ms=self.chance.choice((3_000, 30_000)),
            retries=2**31 - 1,
        )
        self.calls = Calls(self.core, RetryPolicy(MINUTES_MS, 100, 1000))
        self.begun: dict[str, Promise[Any]] = {}
        self.deliveries: list[Any] = []

    def run(self) -> None:
        """Nothing happens by itself."""

    @property
    def opening(self) -> list[FakeLink]:
        return [
            link
            for link in self.transport.links
            if not link.is_closed and not getattr(link, "was_opened", False)
        ]

    def step(self) -> None:
        """One thing goes on, or breaks."""
        links = [link for link in self.transport.links if not link.is_closed]
        waiting = [asked for asked in self.transport.asked if not asked.link.is_closed]
        match self.chance.randrange(7):
            case 0 | 1 if self.opening:
                self.open(self.chance.choice(self.opening))
            case 2 if self.opening:
                self.chance.choice(self.opening).lose()
            case 3 if links:
                self.chance.choice(links).lose()
            case 4 if waiting:
                self.respond(waiting[0])
            case 5:
                self.begin()
            case _:
                self.clock.advance(self.chance.choice((0, 1, 50, 700)))
        self.tick()

    def open(self, link: FakeLink) -> None:
        link.was_opened = True  # type: ignore[attr-defined]  # as the transport marks it
        link.events.connected()

    def respond(self, asked: Asked) -> None:
        self.transport.asked.remove(asked)
        asked.answer(response_to(asked))

    def tick(self) -> int | None:
        self.core.on_time(self.clock.now_ms())
        return self.core.tick(self.clock.now_ms())

    def begin(self) -> None:
        """One more operation."""
        calls, name = self.calls, f"operation {len(self.begun)}"
        deadline = calls.deadline(name)
        operations: list[Callable[[], Coroutine[Promise[Any], None, Any]]] = [
            lambda: calls.to_any(ApiKey.LIST_GROUPS, ListGroupsRequest(), deadline),
            lambda: calls.to_controller(
                ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[]), deadline, lambda _answer: ()
            ),
            lambda: calls.to_coordinator(
                "g", ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=["g"]), deadline, lambda _answer: ()
            ),
            lambda: calls.refresh(deadline),
            lambda: calls.leaders_of([T0, T1], deadline),
        ]
        chosen = self.chance.randrange(len(operations) + 2)
        if chosen < len(operations):
            self.begun[f"{name} ({chosen})"] = self.core.tasks.spawn(operations[chosen]())
        elif "t" in self.core.metadata.cluster.topics:
            self.deliveries.append(self.send("x", self.chance.choice((T0, T1)), run=False))

    def heal(self) -> None:
        """From now on connections succeed and requests are answered; time passes from one due to the next."""
        ends_at_ms = self.clock.now_ms() + SOON_MS
        while self.unfinished() and self.clock.now_ms() < ends_at_ms:
            due_ms = self.tick()
            moving = self.opening, [asked for asked in self.transport.asked if not asked.link.is_closed]
            for link in moving[0]:
                self.open(link)
            for asked in moving[1]:
                self.respond(asked)
            if not any(moving):
                next_ms = ends_at_ms if due_ms is None else max(due_ms, self.clock.now_ms() + 1)
                self.clock.advance(min(next_ms, ends_at_ms) - self.clock.now_ms())

    def unfinished(self) -> list[str]:
        begun = [name for name, promise in self.begun.items() if not promise.is_done]
        return begun + [repr(delivery) for delivery in self.deliveries if not delivery.done()]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_operation_and_every_record_ends_soon_after_an_outage(seed: int) -> None:
    world = Outage(seed)
    for _ in range(150):
        world.step()
    world.begin()
    world.heal()
    assert world.unfinished() == []
    errors = {name: promise.error for name, promise in world.begun.items() if promise.error is not None}
    assert errors == {}
    assert [delivery.exception(0) for delivery in world.deliveries] == [None] * len(world.deliveries)


@dataclass
class Losses:
    """Whether the connections of a consumer fail, and when."""

    chance: Random
    are_on: bool = True
    broken: list[FakeLink] = field(default_factory=list)  # nothing gets through any more

    def watch(self, world: ConsumerWorld) -> None:
        """Every tenth request costs its connection; half of these are lost, too, half only their answers."""
        for host in world.hosts:
            arrived = host.transport.arrived

            def arrives(asked: Asked, arrived: Callable[[Asked], None] = arrived, host: Any = host) -> None:
                is_lost = self.are_on and self.chance.random() < 0.1
                if asked.link in self.broken:
                    return
                if not is_lost or self.chance.random() < 0.5:
                    arrived(asked)
                if is_lost:
                    self.broken.append(asked.link)
                    host.submit(asked.link.lose)

            host.transport.arrived = arrives  # type: ignore[method-assign]  # this one alone


@pytest.mark.parametrize("seed", SEEDS)
def test_a_consumer_reads_on_soon_after_an_outage(seed: int) -> None:
    chance = Random(seed)
    world = ConsumerWorld()
    world.cluster.create("t", 3)
    places = partitions("t", [0, 1, 2])
    consumer = world.consumer("t", group_id="g", enable_auto_commit=chance.random() < 0.5)
    losses = Losses(chance)
    losses.watch(world)
    seen: list[bytes | None] = []
    sent: list[bytes] = []
    for number in range(20):
        value = str(number).encode()
        world.cluster.produce(chance.choice(places), value)
        sent.append(value)
        seen += [record.value for record in consumer.poll(chance.choice((0, 0.05, 1, 4)))]
        world.pass_time(chance.choice((1, 100, 3_000)))
    losses.are_on = False
    for place in places:
        value = b"last of %d" % place.partition
        world.cluster.produce(place, value)
        sent.append(value)
    ends_at_ms = world.clock.now_ms() + SOON_MS
    while set(seen) != set(sent) and world.clock.now_ms() < ends_at_ms:
        seen += [record.value for record in consumer.poll(1)]
    assert set(seen) == set(sent)
    consumer.commit()
    assert world.clock.now_ms() < ends_at_ms + SOON_MS
