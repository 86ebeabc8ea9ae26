"""A history for the audit, made by real requests: commits, rebalances, expiry, transactions, tombstones."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka

from interop.questions import Conversation
from klamm.client.admin.model import CommittedOffset
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.types import TopicPartition
from spark.clusters import Cluster

WIDE = 300
GROUPS = 40
REBALANCE_IN_PROGRESS = 27
# So that expiry comes soon; commits of an old client say themselves how long they are kept.
SETTINGS = {"offsets.retention.check.interval.ms": "200", "group.initial.rebalance.delay.ms": "0"}


def commit(broker: Conversation, group: str, topic: str, offset: int, *, retention_ms: int = -1) -> None:
    """One request that commits the same offset for every partition of the topic."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, committed_metadata="") for number in range(WIDE)
    ]
    request = OffsetCommitRequest(
        group,
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    deadline = time.monotonic() + 60
    while True:
        answer = broker.ask(ApiKey.OFFSET_COMMIT, 8 if retention_ms < 0 else 4, request)
        codes = {item.error_code for answered in answer.topics for item in answered.partitions}
        if codes == {0}:
            return
        # The coordinator of a new cluster is not there at once.
        assert codes <= {14, 15, 16}, codes
        assert time.monotonic() < deadline
        time.sleep(0.05)


class AuditLoad:
    """Everything that the audit must count, on one cluster."""

    def __init__(self, cluster: Cluster, prefix: str, records: int) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self.topic = cluster.create(f"{prefix}-wide", WIDE)
        self.groups = [f"{prefix}-{number}" for number in range(GROUPS)]
        self._records = records

    def make(self) -> None:
        self.cluster.fill(self.topic, [b"x"] * 1000, partition=5)
        # The first one to look for a coordinator makes its topic.
        decision = {TopicPartition(self.topic, 0): CommittedOffset(12, -1, "v1;some-query")}
        self.cluster.admin.alter_group_offsets(f"{self.prefix}.sink", decision).unwrap()
        with Conversation(self.cluster.bootstrap) as broker:
            for number in range(max(1, self._records // (WIDE * GROUPS))):
                for group in self.groups:
                    commit(broker, group, self.topic, number)
            commit(broker, f"{self.prefix}-expired", self.topic, 1, retention_ms=1)
        for group in self.groups[:8]:
            self._rebalances(group)
        admin = self.cluster.admin
        for number, group in enumerate(self.groups[8:14]):
            some = [TopicPartition(self.topic, each) for each in range(10 + number)]
            admin.delete_group_offsets(group, some).unwrap()
        admin.delete_groups(self.groups[14:17]).unwrap()
        self._transactions()
        if self.cluster.kind == "kafka":
            self._consumer_protocol()
        else:
            self._until_events()
        self._until_expired()

    def _rebalances(self, group: str) -> None:
        """One member, two, one again, none: by requests, as the clients send them."""
        with (
            Conversation(self.cluster.bootstrap) as first,
            Conversation(self.cluster.bootstrap) as second,
            ThreadPoolExecutor(1) as pool,
        ):
            anna = self._join(first, group, "")
            self._sync(first, group, anna, [anna.member_id])
            for _ in range(3):
                waiting = pool.submit(self._join, second, group, "")
                while not self._is_rebalancing(first, group, anna):
                    pass
                anna = self._join(first, group, anna.member_id)
                bert = waiting.result()
                both = [anna.member_id, bert.member_id]
                leader, other = (first, anna), (second, bert)
                if bert.leader == bert.member_id:
                    leader, other = other, leader
                self._sync(leader[0], group, leader[1], both)
                self._sync(other[0], group, other[1], [])
                self._leave(second, group, bert.member_id)
                anna = self._join(first, group, anna.member_id)
                self._sync(first, group, anna, [anna.member_id])
            self._leave(first, group, anna.member_id)

    def _join(self, broker: Conversation, group: str, member_id: str) -> Any:
        metadata = encode_subscription(Subscription(topics=(self.topic,)))
        request = JoinGroupRequest(
            group,
            30_000,
            30_000,
            member_id,
            None,
            "consumer",
            [JoinGroupRequestProtocol("range", metadata)],
        )
        answer = broker.ask(ApiKey.JOIN_GROUP, 3, request)
        assert answer.error_code == 0, answer
        return answer

    def _sync(self, broker: Conversation, group: str, joined: Any, members: Sequence[str]) -> None:
        assignments = [
            SyncGroupRequestAssignment(
                member,
                encode_assignment(
                    Assignment(
                        tuple(TopicPartition(self.topic, each) for each in range(number, WIDE, len(members))),
                        None,
                    )
                ),
            )
            for number, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group, joined.generation_id, joined.member_id, None, None, None, assignments
        )
        answer = broker.ask(ApiKey.SYNC_GROUP, 2, request)
        assert answer.error_code == 0, answer

    def _is_rebalancing(self, broker: Conversation, group: str, joined: Any) -> bool:
        request = HeartbeatRequest(group, joined.generation_id, joined.member_id)
        code: int = broker.ask(ApiKey.HEARTBEAT, 2, request).error_code
        return code == REBALANCE_IN_PROGRESS

    def _leave(self, broker: Conversation, group: str, member_id: str) -> None:
        request = LeaveGroupRequest(group, members=[MemberIdentity(member_id)])
        answer = broker.ask(ApiKey.LEAVE_GROUP, 3, request)
        assert answer.error_code == 0, answer

    def _transactions(self) -> None:
        """One producer commits and aborts in turn; another one leaves its transaction open."""
        for number, steps in enumerate((("commit", "abort", "commit", "abort", "abort"), ("commit", ""))):
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": self.cluster.bootstrap,
                    "transactional.id": f"{self.prefix}-txn-{number}",
                    "transaction.timeout.ms": 600_000,
                }
            )
            group = confluent_kafka.Consumer(
                {"bootstrap.servers": self.cluster.bootstrap, "group.id": self.txn_group(number)}
            )
            producer.init_transactions(60)
            for turn, step in enumerate(steps):
                producer.begin_transaction()
                producer.send_offsets_to_transaction(
                    [confluent_kafka.TopicPartition(self.topic, each, turn) for each in range(100)],
                    group.consumer_group_metadata(),
                    60,
                )
                if step:
                    getattr(producer, f"{step}_transaction")(60)
            group.close()

    def txn_group(self, number: int) -> str:
        return f"{self.prefix}-txn-group-{number}"

    @property
    def consumer_group(self) -> str:
        return f"{self.prefix}-848"

    def _consumer_protocol(self) -> None:
        """Two members of a group with the consumer protocol; one leaves and one stays."""
        settings = {
            "bootstrap.servers": self.cluster.bootstrap,
            "group.id": self.consumer_group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self.first, second = (confluent_kafka.Consumer({**settings, "client.id": name}) for name in "ab")
        self.first.subscribe([self.topic])
        self._poll_until(lambda: len(self.first.assignment()) == WIDE, self.first)
        second.subscribe([self.topic])
        self._poll_until(lambda: len(second.assignment()) == WIDE // 2, self.first, second)
        self.first.commit(offsets=[confluent_kafka.TopicPartition(self.topic, 5, 17)], asynchronous=False)
        second.close()
        self._poll_until(lambda: len(self.first.assignment()) == WIDE, self.first)

    def _poll_until(self, is_done: Any, *consumers: Any) -> None:
        deadline = time.monotonic() + 60
        while not is_done():
            assert time.monotonic() < deadline
            for consumer in consumers:
                consumer.poll(0.05)

    def _until_expired(self) -> None:
        deadline = time.monotonic() + 60
        while self.cluster.committed(f"{self.prefix}-expired"):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def _until_events(self) -> None:
        """The broker writes events a little later than what they are about."""
        reader = confluent_kafka.Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": f"{self.prefix}-events"}
        )
        reader.assign([confluent_kafka.TopicPartition("__klamm_events", 0, 0)])
        missing = set(self.groups[:8])
        deadline = time.monotonic() + 60
        while missing:
            assert time.monotonic() < deadline, f"no event says that {missing} are empty"
            record = reader.poll(1)
            if record is not None and record.value() is not None:
                event = json.loads(record.value())
                if event["type"] == "group_emptied":
                    missing.discard(event["group_id"])
        reader.close()
