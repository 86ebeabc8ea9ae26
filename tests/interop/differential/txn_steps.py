"""Random requests about transactions."""

from __future__ import annotations

from typing import Final

from interop.differential.txn_world import GROUPS, TOPICS, Asked, Transaction, TxnWorld
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.records.record import Record, encode_batch

_TIMEOUT_MS: Final = 600_000
_READ_COMMITTED: Final = 1


def init(world: TxnWorld) -> Asked:
    random, transaction = world.random, world.transaction()
    version = random.randint(0, 5)
    timeout_ms = random.choice((_TIMEOUT_MS,) * 12 + (0, -1, 900_001))
    producer_id, epoch, says = -1, -1, "a new instance"
    if version >= 3 and random.random() < 0.5:
        producer_id, epoch, how = world.identity(transaction, right=0.6)
        says = f"expects {how or 'what it has'}"
        if random.random() < 0.05:
            epoch, says = -1, "expects a producer id without an epoch"
    named = "" if random.random() < 0.02 else transaction.transactional_id
    request = InitProducerIdRequest(named, timeout_ms, producer_id, epoch)
    return Asked(ApiKey.INIT_PRODUCER_ID, version, request, f"{named}: {says}", transaction)


def add_partitions(world: TxnWorld) -> Asked:
    random, transaction = world.random, world.transaction()
    version = random.randint(0, 3)
    producer_id, epoch, says = world.identity(transaction)
    wanted = {world.partition() for _ in range(random.choice((1, 1, 2)))}
    if random.random() < 0.06:
        wanted.add(random.choice((("nosuch", 0), ("xa", 99))))
    topics = [
        AddPartitionsToTxnTopic(name, sorted(number for topic, number in wanted if topic == name))
        for name in sorted({topic for topic, _ in wanted})
    ]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )
    says = f"{transaction.transactional_id} {sorted(wanted)} {says}"
    return Asked(ApiKey.ADD_PARTITIONS_TO_TXN, version, request, says, transaction)


def verify_partitions(world: TxnWorld) -> Asked:
    """As brokers ask it of each other."""
    random = world.random
    chosen = random.sample(world.transactions, random.choice((1, 1, 2)))
    transactions = []
    for transaction in chosen:
        producer_id, epoch, _ = world.identity(transaction)
        topic, number = world.partition()
        transactions.append(
            AddPartitionsToTxnTransaction(
                transaction.transactional_id,
                producer_id,
                epoch,
                True,
                [AddPartitionsToTxnTopic(topic, [number])],
            )
        )
    request = AddPartitionsToTxnRequest(transactions)
    return Asked(ApiKey.ADD_PARTITIONS_TO_TXN, random.randint(4, 5), request, "verify only")


def produce(world: TxnWorld) -> Asked:
    random, transaction = world.random, world.transaction()
    topic, number = world.partition()
    version = random.choice((3, 7, 9, 10, 11, 12, 12, 12))
    producer_id, epoch, says = world.identity(transaction, right=0.92)
    sequence = transaction.sequences.get((topic, number), 0)
    how = random.random()
    if how < 0.06:
        sequence += random.choice((1, 5))
        says += " a gap"
    elif how < 0.10:
        sequence = max(0, sequence - 1)
        says += " a sequence back"
    # A batch outside any transaction is taken with an epoch that nobody handed out. The marker of the open
    # transaction is then refused for good, on both brokers: it never ends, and the history would wait.
    is_transactional = random.random() > 0.03 or epoch > transaction.epoch
    count = random.choice((1, 1, 2, 5))
    records = [
        Record(n, world.start_ms + n, b"k%d" % random.randrange(3), random.randbytes(random.randrange(20)))
        for n in range(count)
    ]
    batch = encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=is_transactional,
    )
    named = transaction.transactional_id if random.random() > 0.02 else None
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(number, batch)])
    request = ProduceRequest(named, -1, 10_000, [data])
    says = f"{transaction.transactional_id} {topic}-{number} epoch {epoch} sequence {sequence} {says}"
    if not is_transactional:
        says += " outside a transaction"
    appends = ((topic, number), sequence + count, count)
    return Asked(ApiKey.PRODUCE, version, request, says, transaction, appends=appends)


def add_offsets(world: TxnWorld) -> Asked:
    transaction = world.transaction()
    producer_id, epoch, says = world.identity(transaction)
    group = world.random.choice(GROUPS)
    request = AddOffsetsToTxnRequest(transaction.transactional_id, producer_id, epoch, group)
    version = world.random.randint(0, 4)
    says = f"{transaction.transactional_id} {group} {says}"
    return Asked(ApiKey.ADD_OFFSETS_TO_TXN, version, request, says, transaction)


def commit_offsets(world: TxnWorld) -> Asked:
    random, transaction = world.random, world.transaction()
    version = random.randint(0, 5)
    producer_id, epoch, says = world.identity(transaction)
    group = random.choice((*GROUPS, *GROUPS, *GROUPS, ""))
    topics = []
    for topic in random.sample([*TOPICS, "nosuch"], random.choice((1, 1, 2))):
        numbers = random.sample(range(TOPICS.get(topic, 1) + (random.random() < 0.05)), 1)
        partitions = [
            TxnOffsetCommitRequestPartition(
                number, random.randrange(100), random.choice((-1, 0)), random.choice(("", "m", None))
            )
            for number in numbers
        ]
        topics.append(TxnOffsetCommitRequestTopic(topic, partitions))
    request = TxnOffsetCommitRequest(transaction.transactional_id, group, producer_id, epoch, topics=topics)
    if version >= 3 and random.random() < 0.15:
        request.generation_id, request.member_id = random.choice(((0, ""), (3, "m"), (-1, "m")))
    says = f"{transaction.transactional_id} {group} {says}"
    return Asked(ApiKey.TXN_OFFSET_COMMIT, version, request, says, transaction)


def end(world: TxnWorld) -> Asked:
    random, transaction = world.random, world.transaction()
    version = random.choice((0, 1, 2, 3, 4, 5, 5, 5, 5))
    producer_id, epoch, says = world.identity(transaction, right=0.9)
    is_commit = random.random() < 0.6
    request = EndTxnRequest(transaction.transactional_id, producer_id, epoch, is_commit)
    says = f"{transaction.transactional_id} {'commit' if is_commit else 'abort'} epoch {epoch} {says}"
    return Asked(ApiKey.END_TXN, version, request, says, transaction)


def plain_commit(world: TxnWorld) -> Asked:
    random = world.random
    topic, number = world.partition()
    partition = OffsetCommitRequestPartition(number, random.randrange(100), committed_metadata="plain")
    request = OffsetCommitRequest(
        random.choice(GROUPS), -1, "", topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    return Asked(ApiKey.OFFSET_COMMIT, 8, request, "outside any transaction")


def fetch(world: TxnWorld) -> Asked:
    random = world.random

    def part(number: int) -> FetchPartition:
        start = random.choice((0, 0, 0, 2, 5))
        return FetchPartition(partition=number, fetch_offset=start, partition_max_bytes=1 << 20)

    topics = [
        FetchTopic(topic=topic, partitions=[part(number) for number in range(count)])
        for topic, count in TOPICS.items()
    ]
    level = random.choice((_READ_COMMITTED, _READ_COMMITTED, 0))
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, isolation_level=level, topics=topics, session_epoch=-1
    )
    return Asked(ApiKey.FETCH, random.randint(4, 12), request, f"isolation level {level}")


def list_offsets(world: TxnWorld) -> Asked:
    level, which = world.random.choice((0, 1)), world.random.choice((-1, -2))
    topics = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(number, -1, which) for number in range(count)])
        for topic, count in TOPICS.items()
    ]
    request = ListOffsetsRequest(-1, level, topics)
    return Asked(ApiKey.LIST_OFFSETS, world.random.randint(7, 8), request, f"{which} isolation level {level}")


def fetch_offsets(world: TxnWorld) -> Asked:
    version, group = world.random.randint(6, 9), world.random.choice(GROUPS)
    stable = version >= 7 and world.random.random() < 0.6
    if version >= 8:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(count)))
            for topic, count in TOPICS.items()
        ]
        request = OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)
    else:
        single = [OffsetFetchRequestTopic(topic, list(range(count))) for topic, count in TOPICS.items()]
        request = OffsetFetchRequest(group_id=group, topics=single, require_stable=stable)
    return Asked(ApiKey.OFFSET_FETCH, version, request, f"{group} require stable {stable}")


def describe(world: TxnWorld) -> Asked:
    ids = [each.transactional_id for each in world.transactions] + world.random.choice(([], [""], ["nobody"]))
    return Asked(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(ids))


def list_all(world: TxnWorld) -> Asked:
    random = world.random
    prefix = world.transactions[0].transactional_id.rpartition("-")[0]
    states = random.choice(((), ("Ongoing",), ("Empty", "Foo"), ("CompleteCommit", "CompleteAbort")))
    request = ListTransactionsRequest(list(states), [], -1, f"{prefix}-.*")
    return Asked(ApiKey.LIST_TRANSACTIONS, 2, request, f"states {states}")


def describe_producers(world: TxnWorld) -> Asked:
    topics = [TopicRequest(topic, list(range(count))) for topic, count in TOPICS.items()]
    return Asked(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics))


STEPS: Final = {
    init: 8,
    add_partitions: 14,
    verify_partitions: 4,
    produce: 34,
    add_offsets: 5,
    commit_offsets: 12,
    end: 16,
    plain_commit: 3,
    fetch: 6,
    list_offsets: 4,
    fetch_offsets: 6,
    describe: 4,
    list_all: 2,
    describe_producers: 3,
}
AUDIT: Final = (
    fetch,
    fetch,
    list_offsets,
    fetch_offsets,
    fetch_offsets,
    describe,
    list_all,
    describe_producers,
)


def learn(asked: Asked, answer: object, transaction: Transaction) -> None:
    """What a producer makes of Kafka's answer."""
    code = getattr(answer, "error_code", 0)
    if asked.api_key is ApiKey.INIT_PRODUCER_ID and code == 0:
        transaction.restart(answer.producer_id, answer.producer_epoch)  # type: ignore[attr-defined]
    elif asked.api_key is ApiKey.END_TXN and code == 0:
        if asked.version >= 5:
            transaction.restart(answer.producer_id, answer.producer_epoch)  # type: ignore[attr-defined]
        else:
            transaction.restart(transaction.producer_id, transaction.epoch, keeps_sequences=True)
    elif asked.api_key is ApiKey.PRODUCE and asked.appends is not None:
        line = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        if line.error_code == 0:
            partition, following, _ = asked.appends
            transaction.sequences[partition] = max(following, transaction.sequences.get(partition, 0))
