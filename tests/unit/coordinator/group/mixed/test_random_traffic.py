"""Clients of both protocols come, go and change over in one group, and its coordinator restarts meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.mixed.clients import PARTITIONS, ClassicClient, Client, ConsumerClient
from unit.coordinator.group.mixed.driver import MixedWorld


class Story:
    """What happens in one group; after each step the promises are checked."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_cooperative = bool(seed % 2)
        self.world = MixedWorld()
        self.clients: list[Client] = []
        self.made = 0
        self.committed: dict[int, int] = {}
        self.protocols: set[bool] = set()  # whether it was a consumer group, each time one looked

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self._one_thing()
            self.check()

    def _one_thing(self) -> None:
        random, kind = self.random, self.random.random()
        if kind < 0.06 and len(self.clients) < 5:
            self._come()
        elif kind < 0.09 and self.clients:
            client = self.clients.pop(random.randrange(len(self.clients)))
            if random.random() < 0.7:
                client.leave()  # else it dies
        elif kind < 0.12 and self.clients:
            self._change_over(random.randrange(len(self.clients)))
        elif kind < 0.14:
            self._restart()
        elif kind < 0.2:
            self.world.pass_ms(random.choice((100, 1_000, 5_000)))
        elif self.clients:
            client = random.choice(self.clients)
            client.step()
            self._commit(client)

    def _come(self, instance: str | None = None, *, is_classic: bool | None = None) -> None:
        self.made += 1
        if is_classic is None:
            is_classic = self.random.random() < 0.6
            instance = f"i{self.made}" if self.random.random() < 0.3 else None
        new: Client
        if is_classic:
            new = ClassicClient(self.world, instance, is_cooperative=self.is_cooperative)
        else:
            new = ConsumerClient(self.world, f"c{self.made}", instance)
        self.clients.append(new)

    def _change_over(self, number: int) -> None:
        """A process restarts with the other protocol."""
        old = self.clients.pop(number)
        if old.instance is None:
            old.leave()
        elif isinstance(old, ConsumerClient) and old.epoch > 0:
            self.world.beat(old.member_id, -2, instance=old.instance)
        self._come(old.instance, is_classic=isinstance(old, ConsumerClient))

    def _restart(self) -> None:
        before = self.world.state.remembered()
        if self.random.random() < 0.5:
            self.world.logs[0] = self.world.log.compacted()
        self.world.restart()
        assert self.world.state.remembered() == before
        for client in self.clients:
            client.forget()

    def _commit(self, client: Client) -> None:
        offset = self.made = self.made + 1
        number = client.commit(offset, self.random)
        if number is not None:
            self.committed[number] = offset

    def check(self) -> None:
        if "g" not in self.world.state.groups:
            return
        consumer = self.world.group().memory.consumer
        self.protocols.add(consumer is not None)
        working = [client for client in self.clients if client.held and client.counts()]
        for number in PARTITIONS:
            holders = [client.member_id for client in working if number in client.held]
            assert len(holders) <= 1, f"t-{number} is held by {holders}"
        if consumer is not None:
            self._check_memory()

    def _check_memory(self) -> None:
        consumer = self.world.members().memory
        owned: list[tuple[bytes, int]] = []
        for current in consumer.current.values():
            for held in (current.assigned, current.pending):
                owned += [(topic_id, number) for topic_id, each in held.items() for number in each]
            assert current.epoch <= consumer.target_epoch <= consumer.epoch
        assert len(owned) == len(set(owned))
        shares = [share for target in consumer.targets.values() for share in target.items()]
        targets = [(topic_id, number) for topic_id, numbers in shares for number in numbers]
        assert len(targets) == len(set(targets))
        assert consumer.current.keys() == consumer.members.keys() == self.world.members().sessions.keys()

    def settle(self) -> None:
        """Everybody does what it is told: every partition has one reader, and no commit is lost."""
        for _ in range(160):  # dead members have 45 s, and a rebalance waits 20 s for them
            for client in self.clients:
                client.step()
                self.check()
            self.world.pass_ms(700)
            if self._is_settled():
                break
        assert self._is_settled()
        for number, offset in self.committed.items():
            assert self.world.fetch(("t", number)) == {("t", number): (offset, ErrorCode.none)}

    def _is_settled(self) -> bool:
        held = sorted(number for client in self.clients for number in client.held if client.counts())
        return self.world.group().membership.state_name == "Stable" and held == list(PARTITIONS)


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(seed: int) -> None:
    story = Story(seed)
    for _ in range(3):
        story.go_on(120)
        if not story.clients:
            story._come()
        story.settle()


def test_these_stories_have_groups_of_both_protocols() -> None:
    seen = set()
    for seed in range(5):
        story = Story(seed)
        story.go_on(200)
        seen.add(frozenset(story.protocols))
    assert {False, True} in seen
