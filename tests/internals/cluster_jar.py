"""Several brokers in a jar: one virtual clock, one loop, one cluster store, leases that can end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from internals.virtual_disk import VirtualDisk
from klamm.broker.broker import BrokerNode
from klamm.broker.cluster.lease import MemoryLease, MemoryLeases
from klamm.broker.cluster.membership import BrokerMembership
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.services import Services
from klamm.broker.storage import Storage, segment_store
from klamm.clock import ManualClock
from klamm.net.network import Address, LinkEvents
from klamm.protocol.messages.create_topics import CreatableTopic
from klamm.protocol.types import Buffer
from klamm.storage.cluster import LeaderChange
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.virtual_loop import VirtualLoop


class Refused:
    """A connection to another broker, in a jar where none of them listens."""

    def __init__(self, loop: VirtualLoop, events: LinkEvents) -> None:
        self._refusing = loop.call_soon(events.lost, ConnectionRefusedError("no broker of this jar listens"))

    def send(self, parts: Sequence[Buffer]) -> None:
        raise AssertionError("it was never open")

    def close(self) -> None:
        self._refusing.cancel()


class NoNetwork:
    """Every connection is refused in the next turn of the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def connect(self, address: Address, events: LinkEvents) -> Refused:
        return Refused(self._loop, events)


class Member:
    """One broker of the cluster."""

    def __init__(self, world: ClusterJar, broker_id: int, settings: Mapping[str, str]) -> None:
        self.world = world
        self.broker_id = broker_id
        self.cluster = world.cluster.join()
        self.lease: MemoryLease = world.leases.of(broker_id)
        config = BrokerConfig.from_settings({"node.id": str(broker_id), **world.settings, **settings})
        logs = segment_store(config, "/logs", self.cluster, world.files, world.clock)
        self.broker = BrokerNode(
            config,
            clock=world.clock,
            random=Random(broker_id),
            storage=Storage(logs, self.cluster, world.files, lease=self.lease, folders=[logs]),
            sleep=lambda _: None,
            run_blocking=world.disk,
            transport=NoNetwork(world.loop),
        )

    @property
    def services(self) -> Services:
        return self.broker.services

    @property
    def membership(self) -> BrokerMembership:
        assert self.services.membership is not None
        return self.services.membership

    def led(self) -> dict[tuple[str, int], int]:
        """The partitions that this broker has open, with their leader epochs."""
        return {
            (each.topic, each.partition): each.leader_epoch
            for each in self.services.partitions
            if each.error_code == 0
        }

    def stop(self) -> None:
        self.world.loop.run(self.broker.stop())
        del self.world.members[self.broker_id]


class ClusterJar:
    """A cluster whose brokers are started, stopped and killed by a test."""

    def __init__(
        self,
        *broker_ids: int,
        clock: ManualClock | None = None,
        files: SimulatedFiles | None = None,
        **settings: object,
    ) -> None:
        self.settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.clock = clock or ManualClock()
        self.loop = VirtualLoop(self.clock)
        self.disk = VirtualDisk(self.loop)
        self.files = files or SimulatedFiles(Random(1), self.clock)
        self.files.make_directory("/logs")
        self.files.sync_directory("/")
        self.cluster = MemoryCluster(random=Random(1))
        self.leases = MemoryLeases(self.clock.now_ms, 9000)
        self.members: dict[int, Member] = {}
        for broker_id in broker_ids:
            self.start(broker_id)
        self.pass_ms(50)

    def start(self, broker_id: int, **settings: str) -> Member:
        member = Member(self, broker_id, settings)
        self.loop.run(member.broker.start(listen=False))
        self.members[broker_id] = member
        return member

    def create_topic(self, name: str, partitions: int, factor: int = 1, *, at: int = 1) -> None:
        wanted = CreatableTopic(name, partitions, factor)
        outcome = self.loop.run(self.members[at].services.topics.create([wanted]))[name]
        assert hasattr(outcome, "topic"), outcome
        self.pass_ms(50)

    def leaders(self, topic: str) -> list[tuple[int, int]]:
        """(leader, epoch) of each partition, as the store has it."""
        return [(each.leader_id, each.leader_epoch) for each in self.cluster.topics()[topic].partitions]

    def open_at(self, topic: str) -> dict[int, list[int]]:
        """The partitions of a topic that each broker has open."""
        return {
            broker_id: sorted(partition for name, partition in member.led() if name == topic)
            for broker_id, member in self.members.items()
        }

    def move(self, topic: str, partition: int, to: int) -> None:
        """Announce a move, as another broker would."""
        state = self.cluster.topics()[topic].partitions[partition]
        change = LeaderChange(topic, partition, state.leader_id, state.leader_epoch, to)
        assert self.cluster.start_moves([change]) == [change]

    def pass_ms(self, duration_ms: int) -> None:
        self.loop.pass_ms(duration_ms)

    def close(self) -> None:
        for member in list(self.members.values()):
            member.stop()
        self.loop.close()
