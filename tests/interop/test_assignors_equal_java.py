"""klamm's assignors and Kafka's own, asked the same: the same members must get the same partitions."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from random import Random

import pytest

from interop.kafka_tools import java_command
from interop.processes import ROOT
from klamm.assignors import ClusterView, GroupView, TopicPartition
from klamm.assignors.claims import judge_claims
from klamm.assignors.racks import Racks
from klamm.assignors.registry import load_assignors
from klamm.protocol.consumer_protocol import (
    StickyMemory,
    Subscription,
    encode_generation,
    encode_sticky_memory,
    encode_subscription,
)
from unit.assignors.random_groups import random_situation

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
CASES_EACH = 200
SEED = 20_241_015

Result = dict[str, set[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Case:
    """One question to an assignor."""

    assignor: str
    cluster: ClusterView
    group: GroupView


def asked_of_kafka(cases: list[Case]) -> list[Result]:
    """What Kafka's assignors compute, one result per case."""
    source = ROOT / "tests" / "interop" / "java" / "Assignors.java"
    answered = subprocess.run(
        java_command(str(source)),
        input="".join(json.dumps(as_question(case)) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return [as_result(json.loads(line)) for line in answered.stdout.splitlines()]


def as_question(case: Case) -> dict[str, object]:
    return {
        "assignor": case.assignor,
        "topics": {
            topic: [sorted(view.replica_racks) for view in views]
            for topic, views in case.cluster.topics.items()
        },
        "members": {
            name: {
                "subscription": encode_subscription(
                    Subscription(
                        tuple(member.topics), member.user_data, member.owned, member.generation, member.rack
                    )
                ).hex(),
                "instance": member.group_instance_id,
            }
            for name, member in case.group.members.items()
        },
    }


def as_result(answer: dict[str, list[tuple[str, int]]]) -> Result:
    assert "error" not in answer, answer
    return {name: {TopicPartition(*given) for given in of_member} for name, of_member in answer.items()}


def asked_of_klamm(case: Case) -> Result:
    (assignor,) = load_assignors(case.assignor)
    assignments = assignor.assign(case.cluster, case.group)
    return {name: set(given.partitions) for name, given in assignments.items()}


def with_user_data(case: Case) -> Case:
    """The members' memory as a consumer with this assignor would send it."""
    members = {}
    for name, member in case.group.members.items():
        if case.assignor == "sticky":
            memory = encode_sticky_memory(StickyMemory(member.owned, member.generation))
            members[name] = replace(member, user_data=memory, owned=())
        elif case.assignor == "cooperative-sticky":
            members[name] = replace(member, user_data=encode_generation(member.generation))
        else:
            members[name] = member
    return replace(case, group=GroupView(members))


def is_settled_by_the_rules(case: Case) -> bool:
    """Whether there is one right answer; else Kafka follows the order of its hash maps, and klamm sorts."""
    if "sticky" not in case.assignor:
        return True
    members = case.group.members
    subscribers = case.group.subscribers_by_topic(case.cluster)
    if not subscribers:
        return True
    topic_sets = {member.topics for member in members.values()}
    if len(topic_sets) > 1 and frozenset() in topic_sets:
        return False  # Kafka may take a member without topics for an equal one
    claimed = [each for member in members.values() for each in member.owned]
    if any(each.topic in subscribers and not case.cluster.has(each) for each in claimed):
        return False  # Kafka counts partitions that are gone, and may give up
    memories = {name: StickyMemory(member.owned, member.generation) for name, member in members.items()}
    claims = judge_claims(case.cluster, subscribers, memories)
    racks = Racks(case.cluster, subscribers, {name: member.rack for name, member in members.items()})
    if any(_disputed_below_the_top(each, case) for each in claims.claims):
        return False  # Kafka judges claims pairwise, in the order they arrive
    if len(topic_sets) == 1:
        total = sum(case.cluster.partition_count(topic) for topic in subscribers)
        least, extras = divmod(total, len(members))
        over = sum(
            sum(not racks.is_far(name, each) for each in of_member) > least
            for name, of_member in claims.owned.items()
        )
        return not extras or over <= extras  # else it is open which of them keep one more
    if racks.matter:
        return False  # only balance and stickiness are promised
    return all(
        owner in subscribers[each.topic]  # Kafka does not ask, and may give a member what it has left
        for each, owner in claims.earlier_owners().items()
    )


def _disputed_below_the_top(partition: TopicPartition, case: Case) -> bool:
    generations = sorted(
        -1 if member.generation is None else member.generation
        for member in case.group.members.values()
        if partition in member.owned
    )
    youngest = max(-1 if each.generation is None else each.generation for each in case.group.members.values())
    top = generations[-1]
    below = [each for each in generations if each < top or top < youngest]
    return len(below) != len(set(below))


def settled_cases(chance: Random, assignor: str, count: int) -> list[Case]:
    cases: list[Case] = []
    while len(cases) < count:
        case = Case(assignor, *random_situation(chance))
        if is_settled_by_the_rules(case):
            cases.append(with_user_data(case))
    return cases


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[Case, Result]]]:
    """Cases and Kafka's results, by assignor; one Java process answers all."""
    cases = [case for name in ASSIGNORS for case in settled_cases(Random(f"{SEED}{name}"), name, CASES_EACH)]
    by_assignor: dict[str, list[tuple[Case, Result]]] = {name: [] for name in ASSIGNORS}
    for case, result in zip(cases, asked_of_kafka(cases), strict=True):
        by_assignor[case.assignor].append((case, result))
    return by_assignor


@pytest.mark.parametrize("name", ASSIGNORS)
def test_klamm_and_kafka_agree_partition_by_partition(
    name: str, answers: dict[str, list[tuple[Case, Result]]]
) -> None:
    for case, expected in answers[name]:
        assert asked_of_klamm(case) == expected, case
