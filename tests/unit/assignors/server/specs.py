"""Groups for the coordinator's assignors: written down in short, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from klamm.assignors.server import (
    AssignorFailure,
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    PartitionView,
    TopicSpec,
    compute_target,
)
from klamm.testing.group_assignors import topic_id, with_target

NamedShare: TypeAlias = dict[str, list[int]]  # topic name -> partitions


def topic_name(identity: bytes) -> str:
    """The inverse of `topic_id`."""
    return identity.lstrip(b"\0").decode()


def a_member(
    topics: Sequence[str],
    target: Mapping[str, Sequence[int]] | None = None,
    *,
    instance: str | None = None,
    rack: str | None = None,
) -> MemberSpec:
    """A member by the names of its topics."""
    return MemberSpec(
        topics=frozenset(map(topic_id, topics)),
        target={topic_id(name): tuple(partitions) for name, partitions in (target or {}).items()},
        instance_id=instance,
        rack_id=rack,
    )


def a_spec(
    topics: Mapping[str, int],
    members: Mapping[str, MemberSpec],
    racks: Mapping[str, Sequence[str]] | None = None,
) -> GroupSpec:
    """A group; `racks` has the rack of each partition's only replica."""
    return GroupSpec(
        group_id="g",
        members=dict(sorted(members.items())),
        topics={
            topic_id(name): TopicSpec(
                name=name,
                partition_count=count,
                partitions=tuple(
                    PartitionView(frozenset((rack,)), rack) for rack in (racks or {}).get(name, ())
                ),
            )
            for name, count in topics.items()
        },
    )


def target_of(assignor: GroupAssignor, group: GroupSpec) -> dict[str, NamedShare]:
    """What an assignor gives, by topic name; members with nothing included."""
    target = compute_target(assignor, group)
    assert not isinstance(target, AssignorFailure), target.reason
    return {
        member_id: {topic_name(each): list(share[each]) for each in sorted(share, key=topic_name)}
        for member_id, share in target.items()
    }


def after(assignor: GroupAssignor, group: GroupSpec) -> GroupSpec:
    """The same group, with the target that the assignor computes for it as its last one."""
    target = compute_target(assignor, group)
    assert not isinstance(target, AssignorFailure), target.reason
    return with_target(group, target)


@dataclass(frozen=True, slots=True)
class Question:
    """A group as JSON: what Kafka's assignors are asked."""

    assignor: str
    group: GroupSpec

    def as_json(self) -> dict[str, object]:
        return {
            "assignor": self.assignor,
            "topics": {topic.name: topic.partition_count for topic in self._topics()},
            "members": {
                member_id: {
                    "topics": sorted(map(topic_name, member.topics)),
                    "target": {
                        topic_name(each): sorted(member.target[each])
                        for each in sorted(member.target, key=topic_name)
                    },
                    "instance": member.instance_id,
                }
                for member_id, member in sorted(self.group.members.items())
            },
        }

    def _topics(self) -> list[TopicSpec]:
        return sorted(self.group.topics.values(), key=lambda topic: topic.name)


def of_json(question: Mapping[str, Mapping[str, dict[str, object]]]) -> GroupSpec:
    """The group of a question."""
    members = {
        member_id: a_member(member["topics"], member["target"], instance=member["instance"])  # type: ignore[arg-type]
        for member_id, member in question["members"].items()
    }
    return a_spec(question["topics"], members)  # type: ignore[arg-type]
