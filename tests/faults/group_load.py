"""Groups at work that remember what they were promised, and check the promises after each crash."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from select import select
from typing import Any, Final

from interop.processes import KlammProcess
from klamm.coordinator.group.loading import GroupLoader
from klamm.coordinator.group.state import GroupState
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.testing import wait_until
from klamm.testing.wire import WireClient

TOPIC: Final = "t"
PARTITIONS: Final = 8
SHARDS: Final = 2
STATIC: Final = ("i1", "i2")
DYNAMIC: Final = ""  # the name of the one member without an instance id
NAMES: Final = (*STATIC, DYNAMIC)
GROUPS: Final = ("readers", "others")
SIMPLE: Final = "simple"  # nobody joins it, offsets are committed all the same
MINUTES_MS: Final = 300_000
PROTOCOLS: Final = [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")]
# Small segments and an eager cleaner: what is read back was rolled and compacted on the way.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(SHARDS),
    "offsets.topic.segment.bytes": "8192",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class Generation:
    """A registered generation: who is in it under which id. Assignments tell both."""

    number: int
    members: dict[str, str | None]  # by name; None: an id that nobody was told

    def assignment(self, name: str) -> bytes:
        return f"{self.number} {name}".encode()

    def is_shown_in(self, described: dict[str, str], assignments: set[bytes]) -> bool:
        return (
            described.keys() == self.members.keys()
            and assignments == {self.assignment(name) for name in self.members}
            and all(known in (None, described[name]) for name, known in self.members.items())
        )


@dataclass(slots=True)
class Group:
    """One group as its members know it."""

    group_id: str
    promised: Generation = Generation(0, {})
    possible: list[Generation] = field(default_factory=list)  # asked for, and not answered
    fenced: dict[str, str] = field(default_factory=dict)  # an old member id by instance
    committed: dict[int, int] = field(default_factory=dict)  # acknowledged, by partition
    sent: dict[int, int] = field(default_factory=dict)
    leader: str = NAMES[0]


class GroupLoad:
    """Rebalances, static members that restart, commits of members and of others; one after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.groups = [Group(group_id) for group_id in (*GROUPS, SIMPLE)]
        self.kills = self.commits = self.generations = self.replacements = 0
        self._next_offset = 0
        self._connections: dict[tuple[str, str], WireClient] = {}

    def start(self) -> KlammProcess:
        return KlammProcess(
            self.folder / "data", stderr_path=self.folder / f"klamm-{self.kills}.log", settings=SETTINGS
        )

    # Work

    def run_until_killed(self, broker: KlammProcess) -> None:
        """Go on until the process is gone; the moment is chance."""
        timer = threading.Timer(self.random.uniform(0.0, 0.3), broker.process.kill)
        with ExitStack() as stack:
            self._connect(broker, stack)
            timer.start()
            try:
                while True:
                    for group in self.groups[:-1]:
                        self._work(group)
                    self._commit(self.groups[-1], "", "", -1)
            except (ConnectionError, TimeoutError):
                pass  # the kill
            finally:
                timer.join()
        broker.kill()
        self.kills += 1

    def _connect(self, broker: KlammProcess, stack: ExitStack) -> None:
        self._connections = {
            (group.group_id, name): stack.enter_context(WireClient(broker.bootstrap))
            for group in self.groups
            for name in NAMES
        }
        if not self.kills:
            client = self._connections[SIMPLE, DYNAMIC]
            topics = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)])
            assert client.ask(ApiKey.CREATE_TOPICS, 5, topics).topics[0].error_code == ErrorCode.none
            for group in self.groups:
                _wait_for_coordinator(client, group.group_id)

    def _work(self, group: Group) -> None:
        generation = group.promised
        if len(generation.members) < len(NAMES) or self.random.random() < 0.3:
            self._rebalance(group)
        elif self.random.random() < 0.3:
            self._restart(group, self.random.choice(STATIC))
        elif self.random.random() < 0.2:
            self._leave(group)
        else:
            name = self.random.choice(NAMES)
            member_id = generation.members[name]
            assert member_id is not None
            self._commit(group, name, member_id, generation.number)

    def _commit(self, group: Group, name: str, member_id: str, generation: int) -> None:
        offsets = {}
        for partition in self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS)):
            self._next_offset += 1
            offsets[partition] = self._next_offset
        topic = OffsetCommitRequestTopic(
            name=TOPIC, partitions=[OffsetCommitRequestPartition(*item) for item in offsets.items()]
        )
        request = OffsetCommitRequest(group.group_id, generation, member_id, name or None, topics=[topic])
        client = self._connections[group.group_id, name]
        group.sent |= offsets
        answer = client.ask(ApiKey.OFFSET_COMMIT, 8, request)
        errors = {each.error_code for each in answer.topics[0].partitions}
        assert errors == {ErrorCode.none}, (group, name, member_id, generation, errors)
        group.committed |= offsets
        self.commits += 1

    def _restart(self, group: Group, name: str) -> None:
        """A static member comes back without its id: nobody else notices."""
        before = group.promised
        group.possible = [Generation(before.number, {**before.members, name: None})]
        joined: JoinGroupResponse = self._connections[group.group_id, name].ask(
            ApiKey.JOIN_GROUP, 9, _join(group.group_id, "", name)
        )
        assert (joined.error_code, joined.generation_id) == (ErrorCode.none, before.number), joined
        old_id = before.members[name]
        assert old_id is not None
        group.promised = Generation(before.number, {**before.members, name: joined.member_id})
        group.possible = []
        group.fenced[name] = old_id
        self.replacements += 1

    def _leave(self, group: Group) -> None:
        """The member without an instance goes; a new one takes its place in the next generation."""
        member_id = group.promised.members[DYNAMIC]
        assert member_id is not None
        request = LeaveGroupRequest(group.group_id, [MemberIdentity(member_id)])
        answer = self._connections[group.group_id, DYNAMIC].ask(ApiKey.LEAVE_GROUP, 5, request)
        assert answer.members[0].error_code == ErrorCode.none, answer
        self._rebalance(group, {name: group.promised.members[name] or "" for name in STATIC})

    def _rebalance(self, group: Group, ids: dict[str, str] | None = None) -> None:
        """Everybody joins, the leader assigns, everybody is told."""
        if ids is None:
            ids = {name: member_id or "" for name, member_id in group.promised.members.items()}
        joined = self._join_all(group, dict.fromkeys(NAMES, "") | ids)
        number = joined[DYNAMIC].generation_id
        generation = Generation(number, {name: answer.member_id for name, answer in joined.items()})
        assignments = [
            SyncGroupRequestAssignment(member_id or "", generation.assignment(name))
            for name, member_id in generation.members.items()
        ]
        group.leader = next(
            name for name, answer in joined.items() if answer.member_id == joined[DYNAMIC].leader
        )
        group.possible = [generation]
        for name, member_id in generation.members.items():
            given = assignments if name == group.leader else []
            request = SyncGroupRequest(
                group.group_id, number, member_id or "", name or None, "consumer", "range", given
            )
            self._connections[group.group_id, name].send(ApiKey.SYNC_GROUP, 5, request)
        for name in generation.members:
            _, answer = self._connections[group.group_id, name].receive(ApiKey.SYNC_GROUP, 5)
            assert answer.error_code == ErrorCode.none, (group, name, answer)
            assert answer.assignment == generation.assignment(name)
            group.promised, group.possible = generation, []
        self.generations += 1

    def _join_all(self, group: Group, ids: dict[str, str]) -> dict[str, JoinGroupResponse]:
        """All join, the leader first, until they meet in one generation that nobody disturbs."""
        clients = {name: self._connections[group.group_id, name] for name in NAMES}
        joined: dict[str, JoinGroupResponse] = {}
        waiting: list[str] = []

        def join(name: str) -> None:
            clients[name].send(ApiKey.JOIN_GROUP, 9, _join(group.group_id, ids[name], name or None))
            waiting.append(name)

        for name in sorted(NAMES, key=lambda name: name != group.leader):
            join(name)
        while waiting or len({answer.generation_id for answer in joined.values()}) > 1:
            answered, _, _ = select([clients[name].socket for name in waiting], [], [], 0.002)
            for name in [name for name in waiting if clients[name].socket in answered]:
                waiting.remove(name)
                _, answer = clients[name].receive(ApiKey.JOIN_GROUP, 9)
                ids[name] = answer.member_id
                if answer.error_code == ErrorCode.member_id_required:
                    join(name)
                else:
                    assert answer.error_code == ErrorCode.none, (group, name, answer)
                    joined[name] = answer
            for name in [name for name in joined if name not in waiting]:
                beat = HeartbeatRequest(group.group_id, joined[name].generation_id, ids[name], name or None)
                if clients[name].ask(ApiKey.HEARTBEAT, 4, beat).error_code != ErrorCode.none:
                    join(name)
        return joined

    # Promises

    def check(self, broker: KlammProcess) -> None:
        """Every group is as it was promised last, or as it was asked for when the broker died."""
        with WireClient(broker.bootstrap) as client:
            for group in self.groups:
                _wait_for_coordinator(client, group.group_id)
                self._check_offsets(group, _offsets(client, group.group_id))
                if group.group_id != SIMPLE:
                    self._check_members(client, group)

    @staticmethod
    def _check_offsets(group: Group, found: dict[int, int]) -> None:
        lost = {
            partition: (offset, found.get(partition))
            for partition, offset in group.committed.items()
            if found.get(partition) not in (offset, group.sent[partition])
        }
        assert not lost, f"{group.group_id} lost {lost}"
        assert all(
            group.sent[partition] == offset for partition, offset in (found.items() - group.committed.items())
        )
        group.committed = dict(found)

    @staticmethod
    def _check_members(client: WireClient, group: Group) -> None:
        described = _described(client, group.group_id)
        ids = {member.group_instance_id or DYNAMIC: member.member_id for member in described.members}
        assignments = {bytes(member.member_assignment) for member in described.members}
        matching = [
            generation
            for generation in (group.promised, *group.possible)
            if generation.is_shown_in(ids, assignments)
        ]
        assert matching, (group, ids, assignments)
        number = matching[-1].number
        for name, member_id in ids.items():
            beat = HeartbeatRequest(group.group_id, number, member_id, name or None)
            assert client.ask(ApiKey.HEARTBEAT, 4, beat).error_code == ErrorCode.none, (group, name)
        for name, old_id in group.fenced.items():
            beat = HeartbeatRequest(group.group_id, number, old_id, name)
            if ids.get(name) not in (None, old_id):
                assert client.ask(ApiKey.HEARTBEAT, 4, beat).error_code == ErrorCode.fenced_instance_id
        group.promised, group.possible = Generation(number, dict(ids)), []

    def check_files(self) -> None:
        """The log alone tells what the broker told: the files, read back by nobody but the loader."""
        state = GroupState()
        loader = GroupLoader(state)
        for shard in range(SHARDS):
            for segment in _segments(self.folder / "data" / f"__consumer_offsets-{shard}"):
                loader.load(segment)
        for group in self.groups:
            memory = state.groups[group.group_id].memory
            stored = {partition: found[1].offset for partition, found in memory.offsets[TOPIC].items()}
            assert stored == group.committed
            if group.group_id == SIMPLE:
                assert memory.registration is None
                continue
            registration = memory.registration
            assert registration is not None
            assert registration.generation == group.promised.number
            members = {
                member.group_instance_id or DYNAMIC: member.member_id for member in registration.members
            }
            assert members == group.promised.members


def _segments(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        if data:
            yield data


def _join(group_id: str, member_id: str, instance_id: str | None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id, MINUTES_MS, MINUTES_MS, member_id, instance_id, "consumer", PROTOCOLS, None
    )


def _described(client: WireClient, group_id: str) -> DescribedGroup:
    answer = client.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group_id]))
    described: DescribedGroup = answer.groups[0]
    assert described.error_code == ErrorCode.none, described
    return described


def _offsets(client: WireClient, group_id: str) -> dict[int, int]:
    answer = client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=group_id, topics=None))
    return {
        each.partition_index: each.committed_offset for topic in answer.topics for each in topic.partitions
    }


def _wait_for_coordinator(client: WireClient, group_id: str) -> None:
    """The group's shard is there, and loaded."""

    def is_loaded() -> bool:
        found = client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key=group_id))
        described: Any = client.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group_id]))
        return bool(found.error_code == described.groups[0].error_code == ErrorCode.none)

    wait_until(is_loaded, "20s", every="2ms", describe=lambda: f"{group_id} has no coordinator")
