"""kill -9 while a group moves from one protocol to the other: it has moved with all it had, or not at all.

KLAMM_CONVERSIONS=100 and KLAMM_CONVERSION_SEED=7 make it longer and another one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from interop.processes import KlammProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.types import TopicPartition
from klamm.testing import wait_until
from klamm.testing.wire import WireClient

ROUNDS: Final = int(os.environ.get("KLAMM_CONVERSIONS", "3"))
SEED: Final = int(os.environ.get("KLAMM_CONVERSION_SEED", "0"))
LONGEST_S: Final = 0.012  # until the kill: some conversions are done by then
GROUP: Final = "g"
TOPIC: Final = "t"
PARTITIONS: Final = 6
NEWCOMER: Final = "newcomer"
MINUTES_MS: Final = 300_000
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
PROTOCOLS: Final = [JoinGroupRequestProtocol("range", encode_subscription(Subscription((TOPIC,)), 0))]


class Moving:
    """A group of one member that speaks the classic protocol, and one that comes and goes with the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._random = Random(SEED)
        self._starts = 0
        self._classic_id = ""
        self._generation = 0
        self._epoch = 0
        self._topic_id = bytes(16)
        self._offset = 0
        self.moved: set[str] = set()  # what a conversion had come to when the broker was killed

    @contextmanager
    def broker(self) -> Iterator[KlammProcess]:
        self._starts += 1
        log = self._folder / f"klamm-{self._starts}.log"
        broker = KlammProcess(self._folder / "data", stderr_path=log, settings=SETTINGS)
        try:
            yield broker
        finally:
            broker.kill()

    @contextmanager
    def client(self, broker: KlammProcess) -> Iterator[WireClient]:
        with WireClient(broker.bootstrap) as client:
            if self._starts == 1:
                topics = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)])
                (created,) = client.ask(ApiKey.CREATE_TOPICS, 7, topics).topics
                self._topic_id = created.topic_id
            find = FindCoordinatorRequest(key=GROUP)
            wait_until(lambda: not client.ask(ApiKey.FIND_COORDINATOR, 3, find).error_code)
            wait_until(lambda: not self._fetched(client).error_code)
            yield client

    # --- what members do --------------------------------------------------------------------------------

    def _join(self, client: WireClient) -> set[int]:
        """The classic member joins, and gets or takes its assignment."""
        join = JoinGroupRequest(GROUP, MINUTES_MS, MINUTES_MS, self._classic_id, None, "consumer", PROTOCOLS)
        joined = client.ask(ApiKey.JOIN_GROUP, 3, join)
        assert joined.error_code == ErrorCode.none, joined
        self._classic_id, self._generation = joined.member_id, joined.generation_id
        given = []
        if joined.leader == joined.member_id:
            everything = Assignment(tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS)))
            given = [SyncGroupRequestAssignment(joined.member_id, encode_assignment(everything, 0))]
        sync = SyncGroupRequest(GROUP, self._generation, self._classic_id, assignments=given)
        synced = client.ask(ApiKey.SYNC_GROUP, 3, sync)
        assert synced.error_code in (ErrorCode.none, ErrorCode.rebalance_in_progress), synced
        return (
            {each.partition for each in decode_assignment(synced.assignment).partitions}
            if not (synced.error_code)
            else set()
        )

    def _beat(self, client: WireClient, epoch: int, owned: set[int] | None = None) -> Any:
        partitions = [TopicPartitions(self._topic_id, sorted(owned))] if owned else []
        is_join = epoch == 0
        return client.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            ConsumerGroupHeartbeatRequest(
                GROUP,
                NEWCOMER,
                epoch,
                rebalance_timeout_ms=MINUTES_MS if is_join or owned is not None else -1,
                subscribed_topic_names=[TOPIC] if is_join or owned is not None else None,
                topic_partitions=partitions if is_join or owned is not None else None,
            ),
        )

    def commit(self, client: WireClient) -> None:
        self._offset += 1
        offsets = [OffsetCommitRequestPartition(number, self._offset) for number in range(PARTITIONS)]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)]
        request = OffsetCommitRequest(GROUP, self._generation, self._classic_id, topics=topics)
        (answered,) = client.ask(ApiKey.OFFSET_COMMIT, 8, request).topics
        assert {each.error_code for each in answered.partitions} == {ErrorCode.none}

    # --- the rounds -------------------------------------------------------------------------------------

    def begin(self, client: WireClient) -> None:
        assert self._join(client) == set(range(PARTITIONS))
        self.commit(client)

    def killed_while(self, broker: KlammProcess, client: WireClient, epoch: int) -> bool:
        """The newcomer joins or leaves, and the broker is killed about then; whether it had an answer."""
        timer = threading.Timer(self._random.uniform(0, LONGEST_S), broker.process.kill)
        timer.start()
        try:
            answer = self._beat(client, epoch)
            assert answer.error_code == ErrorCode.none, answer
        except (ConnectionError, TimeoutError):
            return False
        finally:
            timer.join()
        return True

    def check_upgrade(self, client: WireClient, *, is_heard: bool) -> None:
        self._check_offsets(client)
        described = self._described(client)
        if described is None:
            assert not is_heard
            self._check_classic(client, "Stable")
        else:
            epochs = {each.member_id: each.member_epoch for each in described.members}
            assert epochs.keys() == {self._classic_id, NEWCOMER}
            assert epochs[self._classic_id] == self._generation == described.group_epoch - 1
        self.moved.add("upgraded" if described is not None else "not upgraded")

    def share(self, client: WireClient) -> None:
        """Both go on until each has half of the partitions."""
        had: set[int] = set()
        beat = self._beat(client, 0)
        for _ in range(8):
            assert beat.error_code == ErrorCode.none, beat
            if beat.assignment is not None:
                had = {number for each in beat.assignment.topic_partitions for number in each.partitions}
            others = self._join(client)
            if len(had) == len(others) == PARTITIONS // 2 and not had & others:
                break
            beat = self._beat(client, beat.member_epoch, had)
        else:
            raise AssertionError(f"{had} and {others}")
        self._epoch = beat.member_epoch
        self.commit(client)

    def check_downgrade(self, client: WireClient, *, is_heard: bool) -> None:
        self._check_offsets(client)
        described = self._described(client)
        if described is None:
            self._check_classic(client, "PreparingRebalance")
        else:
            assert not is_heard
            assert {each.member_id for each in described.members} == {self._classic_id, NEWCOMER}
            assert self._beat(client, -1).error_code == ErrorCode.none
        self.moved.add("downgraded" if described is None else "not downgraded")

    # --- looks ------------------------------------------------------------------------------------------

    def _described(self, client: WireClient) -> DescribedGroup | None:
        """The group, if it is one of the consumer protocol."""
        request = ConsumerGroupDescribeRequest([GROUP])
        described: DescribedGroup = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups[0]
        assert described.error_code in (ErrorCode.none, ErrorCode.group_id_not_found)
        return None if described.error_code else described

    def _check_classic(self, client: WireClient, state: str) -> None:
        (group,) = client.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([GROUP])).groups
        assert (group.group_state, [each.member_id for each in group.members]) == (state, [self._classic_id])

    def _fetched(self, client: WireClient) -> Any:
        return client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=GROUP, topics=None))

    def _check_offsets(self, client: WireClient) -> None:
        found = {
            each.partition_index: each.committed_offset
            for topic in self._fetched(client).topics
            for each in topic.partitions
        }
        assert found == dict.fromkeys(range(PARTITIONS), self._offset)


def test_a_group_has_changed_its_protocol_wholly_or_not_whenever_the_broker_is_killed(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    for _ in range(ROUNDS):
        with moving.broker() as broker, moving.client(broker) as client:
            moving.begin(client)
            is_heard = moving.killed_while(broker, client, 0)
        with moving.broker() as broker, moving.client(broker) as client:
            moving.check_upgrade(client, is_heard=is_heard)
            moving.share(client)
            is_heard = moving.killed_while(broker, client, -1)
        with moving.broker() as broker, moving.client(broker) as client:
            moving.check_downgrade(client, is_heard=is_heard)
            moving.begin(client)
    assert moving.moved
