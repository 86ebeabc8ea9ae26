"""Consumer groups of every client library, alone and mixed, whose members come, go and crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.groups import Watch, group_on
from interop.harness import CLIENTS, START_MS, ClientProcess, Record

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

ClientFactory = Callable[[str], ClientProcess]
STATIC_CLIENTS = ("aiokafka", "confluent", "franz-go", "java", "kafka-python", "klamm")
COOPERATIVE_CLIENTS = ("confluent", "franz-go", "java", "klamm")


@pytest.fixture
def watch(bootstrap: str, topic: str, tmp_path: Path) -> Iterator[Watch]:
    with group_on(bootstrap, topic, tmp_path) as watch:
        yield watch


def write(client: ClientFactory, topic: str, partition_count: int, each: int) -> set[tuple[int, int]]:
    """Write records to every partition; where they went."""
    records = [Record(timestamp_ms=START_MS + n, key=None, value=b"v%d" % n) for n in range(each)]
    return {
        (partition, offset)
        for partition in range(partition_count)
        for offset in client("confluent").produce(topic, records, partition=partition)
    }


@pytest.mark.parametrize("name", CLIENTS)
def test_members_of_one_library_share_the_work_and_read_everything_once(
    client: ClientFactory, topic: str, watch: Watch, name: str
) -> None:
    client("confluent").create_topic(topic, 4)
    members = [watch.join(name), watch.join(name)]
    watch.settle(members, 4)
    written = write(client, topic, 4, 10)
    watch.wait_for_records(written)

    # One leaves in good order: nothing is read twice.
    members[0].stop()
    watch.settle(members[1:], 4)
    written |= write(client, topic, 4, 10)
    watch.wait_for_records(written)
    assert watch.times_read() == dict.fromkeys(written, 1)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_others_take_over_from_a_member_that_was_killed(
    client: ClientFactory, topic: str, watch: Watch, name: str
) -> None:
    client("confluent").create_topic(topic, 4)
    members = [watch.join(name, session_timeout_ms=2_000), watch.join(name, session_timeout_ms=2_000)]
    watch.settle(members, 4)
    written = write(client, topic, 4, 10)
    members[1].kill()
    written |= write(client, topic, 4, 10)
    watch.settle(members[:1], 4)
    watch.wait_for_records(written)


def test_all_libraries_share_one_group(client: ClientFactory, topic: str, watch: Watch) -> None:
    client("confluent").create_topic(topic, 12)
    members = {name: watch.join(name, session_timeout_ms=3_000) for name in CLIENTS}
    watch.settle(list(members.values()), 12)
    written = write(client, topic, 12, 5)
    watch.wait_for_records(written)
    assert watch.times_read() == dict.fromkeys(written, 1), "nothing failed so far"

    # A crash, a farewell and a newcomer, with records all the while.
    members.pop("java").kill()
    written |= write(client, topic, 12, 5)
    members.pop("confluent").stop()
    written |= write(client, topic, 12, 5)
    members["java again"] = watch.join("java", session_timeout_ms=3_000)
    watch.settle(list(members.values()), 12)
    written |= write(client, topic, 12, 5)
    watch.wait_for_records(written)


def test_cooperative_members_of_several_libraries_keep_what_need_not_move(
    client: ClientFactory, topic: str, watch: Watch
) -> None:
    client("confluent").create_topic(topic, 15)
    *early, late = COOPERATIVE_CLIENTS
    members = [watch.join(name, assignor="cooperative-sticky") for name in early]
    watch.settle(members, 15, evenly=True)
    before = {member.name: member.partitions for member in members}
    members.append(watch.join(late, assignor="cooperative-sticky"))
    watch.settle(members, 15, evenly=True)
    for member in members[:-1]:
        assert member.partitions <= before[member.name]
    # kafka-python (3.0.12) says what it owns, but not since which generation: leaders of other libraries then
    # take it to own nothing, and its partitions move whenever somebody comes. So it comes last.
    members.append(watch.join("kafka-python", assignor="cooperative-sticky"))
    watch.settle(members, 15, evenly=True)
    written = write(client, topic, 15, 5)
    watch.wait_for_records(written)
    assert watch.times_read() == dict.fromkeys(written, 1)


@pytest.mark.parametrize("name", STATIC_CLIENTS)
def test_a_static_member_returns_from_a_crash_without_a_rebalance(
    client: ClientFactory, topic: str, watch: Watch, name: str
) -> None:
    client("confluent").create_topic(topic, 4)
    settings = {"session_timeout_ms": 20_000}
    steady = watch.join(name, instance_id="steady", **settings)
    crashing = watch.join(name, instance_id="crashing", **settings)
    watch.settle([steady, crashing], 4)
    owned, assignments = crashing.partitions, steady.assignments

    crashing.kill()
    returned = watch.join(name, instance_id="crashing", **settings)
    watch.settle([steady, returned], 4)
    written = write(client, topic, 4, 10)
    watch.wait_for_records(written)
    assert returned.partitions == owned
    assert steady.assignments == assignments
