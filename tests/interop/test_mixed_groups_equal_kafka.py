"""Random members of both protocols in one group: klamm and Apache Kafka answer alike, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from interop.kafka_tools import ApacheKafka
from interop.own import Own
from interop.processes import KlammProcess
from interop.questions import Conversation
from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from klamm.testing import wait_until

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

TOPIC = "mixed"
PARTITIONS = 6  # shared evenly by up to three members: which of them has what may differ
STEPS = 150
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "group.consumer.assignment.interval.ms": "0",
}
Fields = tuple[object, ...]
Answer = tuple[Fields, object]  # what must be alike, and what depends on which partitions an assignor chooses


class Side:
    """One broker, and what each member of a group has there."""

    def __init__(self, bootstrap: str, topic_id: bytes, group: str) -> None:
        self._conversation = Conversation(bootstrap)
        self._topic_id = topic_id
        self._group = group
        self.ids: dict[str, str] = {}  # the ids that a broker makes differ
        self.held: dict[str, list[int]] = {}
        self.epochs: dict[str, int] = {}

    def close(self) -> None:
        self._conversation.close()

    def _ask(self, key: ApiKey, version: int, request: object) -> Any:
        return self._conversation.ask(key, version, request)

    def begin(self) -> None:
        """A stable group of the classic protocol with one member, k1, at generation 1."""
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])

        def is_ready() -> bool:
            found = self._ask(ApiKey.FIND_COORDINATOR, 4, asked)
            required = ErrorCode.member_id_required
            return not found.coordinators[0].error_code and self._join("", "k1").error_code == required

        wait_until(is_ready)
        self.ids["k1"] = self._join("", "k1").member_id
        joined = self._join(self.ids["k1"], "k1")
        everything = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        given = SyncGroupRequestAssignment(self.ids["k1"], _assignment(everything))
        assert joined.generation_id == 1
        synced = self._ask(
            ApiKey.SYNC_GROUP,
            5,
            SyncGroupRequest(self._group, 1, self.ids["k1"], None, "consumer", "range", [given]),
        )
        assert not synced.error_code
        self.held["k1"], self.epochs["k1"] = list(range(PARTITIONS)), 1

    # --- the classic protocol ------------------------------------------------------------------------

    def _join(self, member_id: str, name: str, kind: str = "consumer", protocol: str = "range") -> Any:
        owned = tuple(TopicPartition(TOPIC, number) for number in self.held.get(name, ()))
        metadata = encode_subscription(Subscription((TOPIC,), None, owned))
        offered = [JoinGroupRequestProtocol(protocol, metadata)]
        return self._ask(
            ApiKey.JOIN_GROUP,
            9,
            JoinGroupRequest(self._group, 40_000, 60_000, member_id, None, kind, offered),
        )

    def join(self, name: str, kind: str, protocol: str) -> Answer:
        answer = self._join(self.ids.setdefault(name, name), name, kind, protocol)
        if not answer.error_code:
            self.epochs[name] = answer.generation_id
            self.held.setdefault(name, [])
        return (answer.error_code, answer.generation_id, answer.protocol_name, answer.leader), None

    def sync(self, name: str, ahead: int) -> Answer:
        generation = self.epochs.get(name, 1) + ahead
        request = SyncGroupRequest(
            self._group, generation, self.ids.get(name, name), None, "consumer", "range"
        )
        answer = self._ask(ApiKey.SYNC_GROUP, 5, request)
        if answer.error_code:
            return (answer.error_code,), None
        self.held[name] = sorted(each.partition for each in decode_assignment(answer.assignment).partitions)
        return (0, answer.protocol_type, answer.protocol_name), len(self.held[name])

    def heartbeat(self, name: str, ahead: int) -> Answer:
        generation = self.epochs.get(name, 1) + ahead
        request = HeartbeatRequest(self._group, generation, self.ids.get(name, name))
        return (self._ask(ApiKey.HEARTBEAT, 4, request).error_code,), None

    def leave(self, *names: str) -> Answer:
        members = [MemberIdentity(self.ids.get(name, name)) for name in names]
        answer = self._ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(self._group, members=members))
        for name in names:
            self.forget(name)
        return (answer.error_code, *(each.error_code for each in answer.members)), None

    # --- the consumer protocol -----------------------------------------------------------------------

    def beat(self, name: str, epoch: int | None, *, is_full: bool) -> Answer:
        """Epoch None: the member's own."""
        own = self.epochs.get(name, 1) if epoch is None else epoch
        owned = self.held.get(name, []) if is_full and own else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.ids.get(name, name),
            member_epoch=own,
            rebalance_timeout_ms=60_000 if is_full else -1,
            subscribed_topic_names=[TOPIC] if is_full else None,
            topic_partitions=([TopicPartitions(self._topic_id, owned)] if owned else []) if is_full else None,
        )
        answer = self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        if own < 0:
            self.forget(name)
        elif not answer.error_code:
            self.epochs[name] = answer.member_epoch
            self.held.setdefault(name, [])
            if answer.assignment is not None:
                self.held[name] = [
                    number for each in answer.assignment.topic_partitions for number in each.partitions
                ]
        count = None if answer.assignment is None else len(self.held[name])
        return (answer.error_code, answer.member_epoch), count

    # --- both ----------------------------------------------------------------------------------------

    def forget(self, name: str) -> None:
        for known in (self.held, self.epochs, self.ids):
            known.pop(name, None)

    def commit(self, name: str, ahead: int) -> Answer:
        partition = OffsetCommitRequestPartition((self.held.get(name) or [0])[0], 1)
        request = OffsetCommitRequest(
            self._group,
            self.epochs.get(name, 1) + ahead,
            self.ids.get(name, name),
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        answer = self._ask(ApiKey.OFFSET_COMMIT, 9, request)
        return (answer.topics[0].partitions[0].error_code,), None

    def describe(self) -> Answer:
        request = ConsumerGroupDescribeRequest([self._group])
        (group,) = self._ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        names = {member_id: name for name, member_id in self.ids.items()}
        members = sorted(
            (
                names.get(member.member_id, member.member_id),
                member.member_epoch,
                member.member_type,
                sum(len(each.partitions) for each in member.assignment.topic_partitions),
                sum(len(each.partitions) for each in member.target_assignment.topic_partitions),
            )
            for member in group.members
        )
        kinds = tuple((name, kind) for name, _, kind, *_ in members)
        return (group.error_code, group.group_epoch, group.assignment_epoch, kinds), (
            group.group_state,
            members,
        )


def _assignment(partitions: list[TopicPartition]) -> bytes:
    return encode_assignment(Assignment(tuple(partitions)))


class Story:
    """What members do, chosen at random; as long as one of them speaks the consumer protocol."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.classics = {"k1"}
        self.consumers: set[str] = set()
        self._made = 1

    def step(self) -> tuple[str, tuple[object, ...], dict[str, object]]:
        """The name of a method of `Side`, and its arguments."""
        random, present = self._random, sorted(self.classics | self.consumers)
        if not self.consumers or (len(present) < 3 and random.random() < 0.15):
            return self._come()
        kind = random.random()
        if kind < 0.05 and self._may_leave():
            return self._go(random.choice(self._may_leave()))
        if kind < 0.15:
            return "describe", (), {}
        if kind < 0.25:
            return "commit", (random.choice([*present, "x"]), random.choice((0, 0, 0, 1))), {}
        if kind < 0.3:
            return self._mistake()
        name = random.choice(present)
        if name in self.consumers:
            return "beat", (name, None), {"is_full": random.random() < 0.7}
        if kind < 0.5:
            return "join", (name, "consumer", "range"), {}
        return (("sync" if kind < 0.75 else "heartbeat"), (name, 0), {})

    def _come(self) -> tuple[str, tuple[object, ...], dict[str, object]]:
        self._made += 1
        if self.consumers and self._random.random() < 0.5:
            self.classics.add(f"k{self._made}")
            return "join", (f"k{self._made}", "consumer", "range"), {}
        self.consumers.add(f"c{self._made}")
        return "beat", (f"c{self._made}", 0), {"is_full": True}

    def _may_leave(self) -> list[str]:
        """The last consumer stays: Kafka's group would be classic, and its members wait for each other."""
        return sorted(self.classics | (self.consumers if len(self.consumers) > 1 else set()))

    def _go(self, name: str) -> tuple[str, tuple[object, ...], dict[str, object]]:
        is_consumer = name in self.consumers
        (self.consumers if is_consumer else self.classics).discard(name)
        if is_consumer and self._random.random() < 0.5:
            return "beat", (name, -1), {"is_full": False}
        return "leave", (name, "nobody"), {}

    def _mistake(self) -> tuple[str, tuple[object, ...], dict[str, object]]:
        name = self._random.choice(sorted(self.classics | self.consumers))
        mistakes: list[tuple[str, tuple[object, ...], dict[str, object]]] = [
            ("heartbeat", (name, 1), {}),
            ("sync", (name, 1), {}),
            ("sync", ("nobody", 0), {}),
            ("heartbeat", ("nobody", 0), {}),
            ("leave", ("nobody",), {}),
            ("beat", ("nobody", 3), {"is_full": False}),
            ("join", ("odd", "connect", "range"), {}),
        ]
        if self.classics:
            mistakes.append(("join", ("odd", "consumer", "unknown"), {}))
        return self._random.choice(mistakes)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, bytes]]]:
    """The addresses, and the id of the topic there."""
    folder = tmp_path_factory.mktemp("klamm")
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    ours = KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=SETTINGS)
    kafkas = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, flags=flags)
    with ours, kafkas:
        found = []
        for bootstrap in (ours.bootstrap, kafkas.bootstrap):
            with Own(bootstrap) as own:
                own.create_topic(TOPIC, PARTITIONS)
                (topic,) = own.admin.describe_topics([TOPIC]).unwrap().values()
                found.append((bootstrap, topic.topic_id))
        yield found


@pytest.mark.parametrize("seed", range(12))
def test_both_answer_alike(brokers: list[tuple[str, bytes]], seed: int) -> None:
    sides = [Side(bootstrap, topic_id, f"mixed-{seed}") for bootstrap, topic_id in brokers]
    story, told = Story(Random(seed)), []
    try:
        for side in sides:
            side.begin()
        for _ in range(STEPS):
            method, arguments, named = story.step()
            ours, kafkas = (getattr(side, method)(*arguments, **named) for side in sides)
            told.append(f"{method} {arguments} {named}: {ours}")
            assert ours[0] == kafkas[0], "\n".join(told[-30:])
            if ours[1] != kafkas[1]:
                break  # a member waits for a partition that the other assignor has given elsewhere
        assert len(told) > 10
    finally:
        for side in sides:
            side.close()
