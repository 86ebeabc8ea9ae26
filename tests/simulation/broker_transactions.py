"""Transactions over partitions of several brokers: each is there as a whole, or not at all.

Half of them commit an offset, too, which the coordinator of a group keeps. The clients speak transaction
version 2: a Produce adds its partition, a TxnOffsetCommit its group, and each transaction has an epoch of its
own. They repeat what is not acknowledged; one that is fenced gets a new epoch and begins another.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from klamm.protocol.placement import partition_for
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.testing.requests import a_batch, a_fetch, a_produce
from simulation.asking import Ask, Asking

if TYPE_CHECKING:
    from random import Random

    from internals.shared_jar import JarNode
    from simulation.brokers import Brokers

TRANSFERS_TOPIC: Final = "transfers"
TRANSFER_PARTITIONS: Final = 3
TRANSACTION_SHARDS: Final = 2
GROUP_SHARDS: Final = 3
TIMEOUT_MS: Final = 10_000  # some are aborted by their coordinator
AGAIN: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,  # the coordinator could not be asked
        ErrorCode.concurrent_transactions,
        ErrorCode.kafka_storage_error,
    }
)
FENCED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
    }
)


class Transactor(Asking):
    """Writes the number of each transaction to two partitions, commits it as an offset, and ends it."""

    def __init__(self, cluster: Brokers, name: str, random: Random) -> None:
        shard = partition_for(name, TRANSACTION_SHARDS)
        super().__init__(cluster, TRANSACTIONS_TOPIC, shard)
        self._coordinator = (TRANSACTIONS_TOPIC, shard)
        self._random = random
        self._name = name
        self.group = f"group-of-{name}"
        self._identity = (-1, -1)  # producer id and epoch
        self._step = "init"
        self._number = 0
        self._targets: list[tuple[str, int]] = []  # where to write next
        self._is_commit = True
        self._ends = 0  # of transactions that were acknowledged
        self.outcomes: dict[bytes, bool | None] = {}  # by value: committed, or aborted, or not known
        self.offsets: dict[bytes, int] = {}  # that transactions commit, by value

    def request(self, node: JarNode) -> Ask:
        producer_id, epoch = self._identity
        match self._step:
            case "init":
                return ApiKey.INIT_PRODUCER_ID, 5, InitProducerIdRequest(self._name, TIMEOUT_MS)
            case "end":
                request = EndTxnRequest(self._name, producer_id, epoch, self._is_commit)
                return ApiKey.END_TXN, 5, request
            case _ if self.topic == OFFSETS_TOPIC:
                parts = [TxnOffsetCommitRequestPartition(0, self.offsets[self._value])]
                topics = [TxnOffsetCommitRequestTopic("t", parts)]
                offsets = TxnOffsetCommitRequest(self._name, self.group, producer_id, epoch, topics=topics)
                return ApiKey.TXN_OFFSET_COMMIT, 5, offsets
            case _:
                batch = a_batch(
                    node, value=self._value, producer_id=producer_id, producer_epoch=epoch, transactional=True
                )
                produce = a_produce(
                    node, batch, topic=TRANSFERS_TOPIC, partition=self.partition, transactional_id=self._name
                )
                return ApiKey.PRODUCE, 12, produce

    @property
    def _value(self) -> bytes:
        return f"{self._name}-{self._number}".encode()

    def answered(self, answer: Any) -> None:
        is_write = self._step == "write"
        error_code = ErrorCode(_write_error(answer) if is_write else answer.error_code)
        if error_code in AGAIN:
            return
        if error_code in FENCED and self._step != "init":
            # Its timeout was over. If it is not known whether the end was received, neither is the outcome.
            self._conclude(None if self._step == "end" and self._is_commit else False)
            self._go_to("init")
            return
        assert error_code is ErrorCode.none, f"{self._name}: {self._step} is answered with {error_code.name}"
        if is_write:
            self._targets.pop(0)
        else:
            if self._step == "end":
                self._conclude(self._is_commit)
                self._ends += 1
            self._identity = answer.producer_id, answer.producer_epoch
            self._begin()
        self._go_to("write" if self._targets else "end")

    def _begin(self) -> None:
        partitions = self._random.sample(range(TRANSFER_PARTITIONS), k=2)
        self._targets = [(TRANSFERS_TOPIC, each) for each in partitions]
        if self._random.random() < 0.5:
            self.offsets[self._value] = self._number
            self._targets.append((OFFSETS_TOPIC, partition_for(self.group, GROUP_SHARDS)))
            self._random.shuffle(self._targets)
        self._is_commit = self._random.random() < 0.7

    def _conclude(self, outcome: bool | None) -> None:
        self.outcomes[self._value] = outcome
        self._number += 1

    def _go_to(self, step: str) -> None:
        self._step = step
        self.topic, self.partition = self._targets[0] if step == "write" else self._coordinator

    def progress(self) -> int:
        return self._ends


def _write_error(answer: Any) -> int:
    """Of a Produce or a TxnOffsetCommit."""
    if isinstance(answer, TxnOffsetCommitResponse):
        return answer.topics[0].partitions[0].error_code
    error_code: int = answer.responses[0].partition_responses[0].error_code
    return error_code


def check_transactions(cluster: Brokers) -> None:
    """What was committed is in two partitions, once; what was aborted in none; nothing is open.

    The offset of a group is the one of the last transaction that was committed with an offset.
    """
    found: Counter[bytes] = Counter()
    for partition in range(TRANSFER_PARTITIONS):
        values = _committed_values(cluster, partition)
        assert len(set(values)) == len(values), f"{TRANSFERS_TOPIC}-{partition} has a record twice"
        found.update(values)
    for client in cluster.clients:
        if isinstance(client, Transactor):
            offset = -1
            for value, outcome in client.outcomes.items():
                expected = {True: (2,), False: (0,), None: (0, 2)}[outcome]
                count = found.pop(value, 0)
                assert count in expected, f"{value!r} was to be {outcome}, found {found}"
                if count:
                    offset = client.offsets.get(value, offset)
            present = _committed_offset(cluster, client.group)
            assert present == offset, f"{client.group} was to be at {offset}, is at {present}"
    assert not found, f"never ended, and yet committed: {found}"


def _committed_offset(cluster: Brokers, group: str) -> int:
    node = cluster.jar[cluster.jar.state(OFFSETS_TOPIC, partition_for(group, GROUP_SHARDS)).leader_id]
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=topics)], require_stable=True)
    (found,) = node.ask(ApiKey.OFFSET_FETCH, 8, request).groups
    line = found.topics[0].partitions[0]
    assert (found.error_code, line.error_code) == (0, 0), f"{group}: {found.error_code}, {line.error_code}"
    offset: int = line.committed_offset
    return offset


def _committed_values(cluster: Brokers, partition: int) -> list[bytes]:
    """As a consumer with `read_committed` reads them."""
    node = cluster.jar[cluster.jar.state(TRANSFERS_TOPIC, partition).leader_id]
    request = a_fetch(
        node, topic=TRANSFERS_TOPIC, partition=partition, partition_max_bytes=1 << 30, isolation_level=1
    )
    data = node.ask(ApiKey.FETCH, 12, request).responses[0].partitions[0]
    assert data.last_stable_offset == data.high_watermark, f"transfers-{partition} has an open transaction"
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborting: set[int] = set()
    values: list[bytes] = []
    records = bytes(data.records)
    for position, header in iter_headers(records):
        while aborted and aborted[0][0] <= header.base_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            batch = records[position : position + header.batch_length + 12]
            values += [record.value for record in decode_records(batch) if record.value is not None]
    return values
