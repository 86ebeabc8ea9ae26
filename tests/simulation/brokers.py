"""Three brokers on virtual time: leaders move, brokers stop, die and lose their leases, responses get lost.

Producers, committers and transactors repeat what was not acknowledged, as clients do. `check` then compares
everything that was acknowledged with what the last leaders serve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from internals.shared_jar import JarNode, SharedJar
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.placement import partition_for
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.cluster import LeaderChange
from klamm.testing.requests import a_batch, a_fetch, a_produce
from simulation.asking import Ask, Asking
from simulation.broker_transactions import (
    GROUP_SHARDS,
    TRANSACTION_SHARDS,
    TRANSFERS_TOPIC,
    Transactor,
    check_transactions,
)

PARTITIONS: Final = 4
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(GROUP_SHARDS),
    "transaction.state.log.num.partitions": str(TRANSACTION_SHARDS),
    "leader.imbalance.check.interval.seconds": "2",
}


class IdempotentProducer(Asking):
    """Writes numbered batches; knows the offset of each that was acknowledged."""

    def __init__(self, cluster: Brokers, producer_id: int, partition: int) -> None:
        super().__init__(cluster, "t", partition)
        self.producer_id = producer_id
        self.sequence = 0
        self.offsets: list[int] = []

    def request(self, node: JarNode) -> Ask:
        value = f"{self.producer_id}-{self.sequence}".encode()
        batch = a_batch(node, value=value, producer_id=self.producer_id, base_sequence=self.sequence)
        return ApiKey.PRODUCE, 9, a_produce(node, batch, partition=self.partition)

    def answered(self, answer: Any) -> None:
        line = answer.responses[0].partition_responses[0]
        if line.error_code == 0:
            self.offsets.append(line.base_offset)
            self.sequence += 1
        else:
            assert line.error_code in (3, 6, 56), f"producer {self.producer_id}: error {line.error_code}"

    def progress(self) -> int:
        return self.sequence


class Committer(Asking):
    """Commits rising offsets of one group."""

    def __init__(self, cluster: Brokers, group: str) -> None:
        super().__init__(cluster, OFFSETS_TOPIC, partition_for(group, GROUP_SHARDS))
        self.group = group
        self.acknowledged = -1
        self.tried = 0

    def request(self, node: JarNode) -> Ask:
        self.tried += 1
        partitions = [OffsetCommitRequestPartition(0, self.tried)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        return ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(self.group, topics=topics)

    def answered(self, answer: Any) -> None:
        error_code = answer.topics[0].partitions[0].error_code
        if error_code == 0:
            self.acknowledged = self.tried
        else:
            assert error_code in (14, 15, 16), f"group {self.group}: error {error_code}"

    def progress(self) -> int:
        return self.acknowledged


class Brokers:
    """The cluster, its clients, and what goes wrong."""

    steps_ms: Sequence[int] = (1, 2, 5, 20)
    kinds: Sequence[str] = ("move", "move", "kill", "stop", "restart", "fence", "slow disk")

    def __init__(self, seed: int, jar: SharedJar | None = None) -> None:
        self.random = Random(seed)
        self.jar = jar or SharedJar(3, SETTINGS, members=True, seed=seed)
        self.jar.create_topic("t", [1, 2, 3, 1])
        self.jar.create_topic(TRANSFERS_TOPIC, [1, 2, 3])
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
            self.jar[1].ask(ApiKey.FIND_COORDINATOR, 4, request)
        self.jar.pass_ms(200)
        self.clients: list[Asking] = [
            *(IdempotentProducer(self, 100 + each, each % PARTITIONS) for each in range(6)),
            *(Committer(self, f"group-{each}") for each in range(4)),
            *(Transactor(self, f"transactor-{each}", self.random) for each in range(3)),
        ]
        self.happened: dict[str, int] = {}

    def leader(self, topic: str, partition: int) -> JarNode | None:
        """The broker that a client takes for the leader: what some broker says, new or old."""
        said = self.random.choice(list(self.jar.nodes.values())).services.image.partition(topic, partition)
        return None if said is None else self.jar.nodes.get(said.leader_id)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for client in self.clients:
                client.step()
            if self.random.random() < 0.06:
                self.disturb()
            if self.random.random() < 0.05:
                self.random.choice(self.clients).lose()
            self.jar.pass_ms(self.random.choice(self.steps_ms))

    def deliver(self, node: JarNode, send: Callable[[], object]) -> None:
        """Let a request arrive at a broker."""
        send()

    def disturb(self) -> None:
        """One thing goes wrong, or an operator does something."""
        random = self.random
        node = random.choice(list(self.jar.nodes.values()))
        kind = random.choice(self.kinds)
        self.happened[kind] = self.happened.get(kind, 0) + 1
        self.happens(kind, node)

    def happens(self, kind: str, node: JarNode) -> None:
        jar, random = self.jar, self.random
        match kind:
            case "move":
                topic = random.choice(("t", OFFSETS_TOPIC, TRANSFERS_TOPIC, TRANSACTIONS_TOPIC))
                state = random.choice(jar.cluster.topics()[topic].partitions)
                change = LeaderChange(
                    topic, state.partition, state.leader_id, state.leader_epoch, node.node_id
                )
                if state.leader_id != node.node_id:
                    jar.cluster.start_moves([change])
            case "kill" if len(jar.nodes) > 1:
                jar.vanish(node.node_id)
            case "stop" if len(jar.nodes) > 1:
                jar.stop(node.node_id)
            case "restart":
                for node_id in {1, 2, 3} - jar.nodes.keys():
                    jar.start(node_id)
            case "fence" if len(jar.nodes) > 1 and jar.leases is not None:
                # As if it had been suspended: others take over while it still believes that it leads
                jar.leases.end(node.node_id)
            case "slow disk":
                node.disk.delay_ms = random.choice((0, 3, 15))

    def heal(self) -> None:
        """Everything runs again, and every client has its last request acknowledged."""
        for node_id in {1, 2, 3} - self.jar.nodes.keys():
            self.jar.start(node_id)
        for node in self.jar.nodes.values():
            node.disk.delay_ms = 0
        self.jar.pass_ms(20_000)
        before = [(client, client.progress()) for client in self.clients]
        for _ in range(300):
            for client, progress in before:
                if client.progress() == progress or client.client is not None:
                    client.step()
            self.jar.pass_ms(20)
        for client, progress in before:
            assert client.progress() > progress, (
                f"{type(client).__name__} of {client.topic}-{client.partition} makes no progress"
            )

    def check(self) -> None:
        """What was acknowledged is there, once, where it was acknowledged."""
        for partition in range(PARTITIONS):
            self._check_partition(partition)
        for client in self.clients:
            if isinstance(client, Committer):
                self._check_group(client)
        check_transactions(self)
        self._check_images()

    def _check_partition(self, partition: int) -> None:
        state = self.jar.state("t", partition)
        data = self.jar[state.leader_id].ask(
            ApiKey.FETCH,
            12,
            a_fetch(self.jar[state.leader_id], partition=partition, partition_max_bytes=1 << 30),
        )
        found: dict[bytes, int] = {}
        last_epoch, next_offset = -1, 0
        records = bytes(data.responses[0].partitions[0].records)
        for position, header in iter_headers(records):
            assert header.base_offset == next_offset, "offsets are contiguous"
            assert header.leader_epoch >= last_epoch, "epochs do not fall"
            last_epoch, next_offset = header.leader_epoch, header.next_offset
            for record in decode_records(records[position : position + header.batch_length + 12]):
                assert record.value is not None
                assert record.value not in found, f"{record.value!r} is stored twice"
                found[record.value] = header.base_offset
        for client in self.clients:
            if isinstance(client, IdempotentProducer) and client.partition == partition:
                for sequence, offset in enumerate(client.offsets):
                    value = f"{client.producer_id}-{sequence}".encode()
                    assert found.get(value) == offset, f"{value!r} was acknowledged at {offset}"

    def _check_group(self, client: Committer) -> None:
        leader = self.jar[self.jar.state(client.topic, client.partition).leader_id]
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest([OffsetFetchRequestGroup(client.group, topics=topics)])
        (group,) = leader.ask(ApiKey.OFFSET_FETCH, 8, request).groups
        assert group.error_code == 0
        offset = group.topics[0].partitions[0].committed_offset
        assert client.acknowledged <= offset <= client.tried, f"{client.group}: {offset}"

    def _check_images(self) -> None:
        """Every broker has the same image, and it is what the store has."""
        topics = self.jar.cluster.topics()
        for node in self.jar.nodes.values():
            assert node.services.image.version == self.jar.cluster.version()
            assert dict(node.services.image.topics) == dict(topics)
            led = {(each.topic, each.partition): each.leader_epoch for each in node.services.partitions}
            assert led == {
                (topic.name, state.partition): state.leader_epoch
                for topic in topics.values()
                for state in topic.partitions
                if state.leader_id == node.node_id
            }

    def close(self) -> None:
        self.jar.close()
