"""A minute of random kills, of broker and members: nothing lost, no repeats in a clean hand-over."""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path
from random import Random
from typing import Final

import pytest

from interop.groups import Member, Watch
from interop.kafka_tools import free_port
from interop.own import Own
from interop.processes import KlammProcess
from klamm import Producer, TopicPartition
from klamm.client.producer.delivery import Delivery

SEED: Final = int(os.environ.get("KLAMM_LONG_RUN_SEED", "20"))
DURATION_S: Final = float(os.environ.get("KLAMM_LONG_RUN_S", "45"))
PARTITIONS: Final = 6
TOPIC: Final = "numbers"
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}


class Crowd:
    """The members of one group, with somebody who starts, stops and kills them."""

    def __init__(self, bootstrap: str, assignor: str, folder: Path) -> None:
        numbers = itertools.count()

        def start_member(name: str) -> Member:
            return Member(
                name,
                bootstrap,
                group=f"readers-{assignor}",
                topic=TOPIC,
                assignor=assignor,
                session_timeout_ms=3_000,
                stderr_path=folder / f"{assignor}-{next(numbers)}.log",
            )

        self.watch = Watch(start_member)
        self.alive: list[Member] = []
        self.join()
        self.join()

    def join(self) -> None:
        self.alive.append(self.watch.join("klamm"))

    def kill_one(self, random: Random) -> None:
        self.alive.pop(random.randrange(len(self.alive))).kill()

    def stop_one(self, random: Random) -> None:
        self.alive.pop(random.randrange(len(self.alive))).stop()

    def catch_up(self) -> None:
        for member in self.alive:
            member.catch_up()
            assert member.process.poll() is None, member.what_it_said()


class World:
    """A broker, a producer and two groups, all of which shall survive what happens."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self._folder = folder
        self._port = free_port()
        self.kills = {"broker": 0, "member": 0}
        self.broker = self._start_broker()
        self.sent: list[Delivery] = []
        self._is_over = threading.Event()
        with Own(self.broker.bootstrap) as own:
            self.partitions = own.create_topic(TOPIC, PARTITIONS)
        self.crowds = [
            Crowd(self.broker.bootstrap, assignor, folder) for assignor in ("range", "cooperative-sticky")
        ]
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def _start_broker(self) -> KlammProcess:
        return KlammProcess(
            self._folder / "data",
            stderr_path=self._folder / f"klamm-{self.kills['broker']}.log",
            port=self._port,
            settings=SETTINGS,
        )

    def _write(self) -> None:
        """Numbers to every partition, for ever; each is acknowledged in the end."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "linger.ms": 5,
            "request.timeout.ms": 2_000,
            "delivery.timeout.ms": 120_000,
        }
        with Producer(settings) as producer:
            for number in itertools.count():
                if self._is_over.wait(0.01):
                    break
                for partition in range(PARTITIONS):
                    self.sent.append(producer.send(TOPIC, b"%d" % number, partition=partition))
            producer.flush(100)

    def something_happens(self) -> None:
        crowd = self.random.choice(self.crowds)
        event = self.random.choices(("broker", "kill", "stop", "join"), (3, 3, 2, 2))[0]
        if event == "broker":
            self.broker.kill()
            self.kills["broker"] += 1
            self._live_on(self.random.uniform(0, 1.0))
            self.broker = self._start_broker()
        elif event == "join" or len(crowd.alive) == 1:
            if len(crowd.alive) < 3:
                crowd.join()
        elif event == "kill":
            crowd.kill_one(self.random)
            self.kills["member"] += 1
        else:
            crowd.stop_one(self.random)

    def run(self, duration_s: float) -> None:
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            self._live_on(self.random.uniform(0.2, 2.0))
            self.something_happens()

    def _live_on(self, duration_s: float) -> None:
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            for crowd in self.crowds:
                crowd.catch_up()

    def end_writing(self) -> set[tuple[int, int]]:
        """No more records; the place of each that was sent."""
        self._is_over.set()
        self._writer.join(120)
        assert not self._writer.is_alive()
        places = [delivery.result(0) for delivery in self.sent]
        return {(place.partition, place.offset) for place in places}

    def close(self) -> None:
        self._is_over.set()
        for crowd in self.crowds:
            crowd.watch.close()
        self.broker.kill()


def check_log(own: Own, partitions: list[TopicPartition], count: int) -> None:
    """Every number is there once, and in order."""
    consumer = own.consumer(group_id=None)
    consumer.assign(partitions)
    numbers: dict[int, list[bytes | None]] = {item.partition: [] for item in partitions}
    while any(consumer.position(item) < count for item in partitions):
        for record in consumer.poll(20):
            numbers[record.partition].append(record.value)
    expected = [b"%d" % number for number in range(count)]
    for partition in partitions:
        assert numbers[partition.partition] == expected, partition


@pytest.mark.timeout(300)
def test_whatever_is_killed_nothing_is_lost_and_clean_hand_overs_repeat_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, SEED)
    try:
        world.run(DURATION_S)
        places = world.end_writing()
        assert min(world.kills.values()) > 0, world.kills
        assert len(places) == len(world.sent), f"seed {SEED}: two records in one place"
        for crowd in world.crowds:
            crowd.watch.wait_for_records(places)
            crowd.watch.settle(crowd.alive, PARTITIONS)
        with Own(world.broker.bootstrap) as own:
            per_partition = len(world.sent) // PARTITIONS
            check_log(own, world.partitions, per_partition)

            # Peace at last: members come and go in good order, and each record is read once by each group.
            later = {(number, per_partition + n) for number in range(PARTITIONS) for n in range(30)}
            for start in (0, 10, 20):
                own.fill(world.partitions, 10, start)
                for crowd in world.crowds:
                    crowd.watch.wait_for_records(
                        {place for place in later if place[1] < per_partition + start + 10}
                    )
                    if start == 0:
                        crowd.join()
                    elif start == 10:
                        crowd.stop_one(world.random)
                    crowd.watch.settle(crowd.alive, PARTITIONS)
        for crowd in world.crowds:
            times = crowd.watch.times_read()
            assert {place: times[place] for place in later} == dict.fromkeys(later, 1), f"seed {SEED}"
    finally:
        world.close()
