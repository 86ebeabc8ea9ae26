"""klamm's consumer in one group with members of other libraries, for every assignor that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from interop.groups import Member, Watch, group_on, shares_all
from interop.own import Own
from klamm import TopicPartition
from klamm.assignors import EAGER, ClusterView, GroupView, MemberSubscription
from klamm.assignors.checks import assign_and_check
from klamm.assignors.registry import load_assignors
from klamm.client.admin.model import GroupDescription

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

# Who else knows the assignor; the last one leaves while klamm leads.
OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "range": ("kafka-python", "java", "confluent"),
    "roundrobin": ("confluent", "kafka-python", "java"),
    "sticky": ("java", "kafka-python"),  # librdkafka has it only as cooperative-sticky
    "cooperative-sticky": ("java", "confluent", "kafka-python"),
}
PARTITIONS: Final = 11
EACH: Final = 4


@pytest.fixture
def cluster(bootstrap: str) -> str:
    """The broker that the other libraries are tried with."""
    return bootstrap


@pytest.fixture
def watch(bootstrap: str, topic: str, tmp_path: Path) -> Iterator[Watch]:
    with group_on(bootstrap, topic, tmp_path) as watch:
        yield watch


def as_java_would(group: GroupDescription, topic: str) -> dict[str, list[TopicPartition]]:
    """What the group's assignor gives to its members; `test_assignors_equal_java` says that Java agrees."""
    (assignor,) = load_assignors([group.protocol], {})
    members = {member.member_id: MemberSubscription(frozenset({topic})) for member in group.members}
    cluster = ClusterView.of_counts({topic: PARTITIONS})
    checked = assign_and_check(assignor, EAGER, cluster, GroupView(members))
    return {name: sorted(given.partitions) for name, given in checked.assignments.items()}


class Shelf:
    """Records written so far, and the promise that each was read once."""

    def __init__(self, own: Own, watch: Watch, partitions: Sequence[TopicPartition]) -> None:
        self._own = own
        self._watch = watch
        self._partitions = partitions
        self._count = 0

    def write_and_check(self) -> None:
        self._own.fill(self._partitions, EACH, self._count)
        self._count += EACH
        expected = {(number, offset) for number in range(PARTITIONS) for offset in range(self._count)}
        self._watch.wait_for_records(expected)
        assert self._watch.times_read() == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("assignor", OTHERS)
def test_klamm_leads_and_follows_members_of_other_libraries(
    own: Own, topic: str, watch: Watch, assignor: str
) -> None:
    partitions = own.create_topic(topic, PARTITIONS)
    shelf = Shelf(own, watch, partitions)
    group_id = f"group-of-{topic}"

    def settle(members: Sequence[Member]) -> GroupDescription:
        """Wait until the members share everything and their coordinator sees no rebalance under way."""
        seen: list[GroupDescription] = []

        def settled() -> bool:
            if not shares_all(members, PARTITIONS):
                return False
            seen.append(own.admin.describe_groups([group_id]).unwrap()[group_id])
            # What a cooperative member is to give up is nobody's until the next rebalance.
            given = sum(len(member.assignment or ()) for member in seen[-1].members)
            return seen[-1].state == "Stable" and given == PARTITIONS

        watch.wait_until(settled, f"a stable group of {[member.name for member in members]}")
        return seen[-1]

    def check(members: Sequence[Member]) -> None:
        group = settle(members)
        assert group.protocol == assignor
        sizes = sorted(len(member.assignment or ()) for member in group.members)
        assert sizes[-1] - sizes[0] <= 1, sizes
        if assignor in {"range", "roundrobin"}:
            assert {
                member.member_id: list(member.assignment or ()) for member in group.members
            } == as_java_would(group, topic)
        shelf.write_and_check()

    def start(name: str) -> Member:
        return watch.join(name, assignor=assignor, session_timeout_ms=3_000, joins_at_once=False)

    def kept(members: Sequence[Member], before: Mapping[str, frozenset[int]]) -> bool:
        """Whether nobody lost anything, if that is what the assignor promises."""
        return "sticky" not in assignor or all(before[member.name] <= member.partitions for member in members)

    klamm, *others, leaving, again = [start(name) for name in ("klamm", *OTHERS[assignor], "klamm")]
    # klamm comes first, so it leads.
    klamm.enter()
    watch.settle([klamm], PARTITIONS)
    shelf.write_and_check()
    for member in (*others, leaving):
        member.enter()
    check([klamm, *others, leaving])

    # One leaves, and klamm knows what the others had.
    before = {member.name: member.partitions for member in (klamm, *others)}
    leaving.stop()
    check([klamm, *others])
    assert kept([klamm, *others], before)

    # klamm leaves; somebody else leads.
    before = {member.name: member.partitions for member in others}
    klamm.stop()
    check(others)
    assert kept(others, before)

    # It comes back, and follows.
    before = {member.name: member.partitions for member in others}
    again.enter()
    check([again, *others])
    after = {member.name: member.partitions for member in others}
    assert "sticky" not in assignor or all(after[name] <= before[name] for name in after)
