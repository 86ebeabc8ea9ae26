"""Groups of klamm's consumers: they share, hand over, crash and return, on klamm and on Apache Kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.groups import Watch, group_on
from interop.own import Own, poll_until, read, values
from interop.own_members import Party
from klamm import TopicPartition
from klamm.client.committed import Committed
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.offsets.stores import FileOffsetStore
from klamm.errors import (
    CommitFailedError,
    ConcurrentAccessError,
    FencedInstanceIdError,
    InvalidSessionTimeoutError,
    KlammError,
    WakeupError,
)
from klamm.testing import wait_until

pytestmark = [pytest.mark.groups, pytest.mark.timeout(120)]


def written(partitions: list[TopicPartition], each: int) -> set[tuple[str, int, int]]:
    return {(*partition, offset) for partition in partitions for offset in range(each)}


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_three_members_come_and_go_and_nothing_is_read_twice(own: Own, topic: str, assignor: str) -> None:
    partitions = own.create_topic(topic, 6)
    with Party(own.bootstrap, f"g-{topic}", [topic], partition_assignment_strategy=assignor) as party:
        members = [party.join("anna")]
        party.settle(members, partitions)
        own.fill(partitions, 10)
        party.wait_for_records(written(partitions, 10))
        for number, name in enumerate(("bert", "cleo")):
            members.append(party.join(name))
            party.settle(members, partitions)
            own.fill(partitions, 10)
            party.wait_for_records(written(partitions, 20 + 10 * number))
        for number in range(2):
            members.pop(0).stop()
            party.settle(members, partitions)
            own.fill(partitions, 10)
            party.wait_for_records(written(partitions, 40 + 10 * number))
    party.check_hand_overs()
    assert party.times_read() == dict.fromkeys(written(partitions, 50), 1)


def test_an_eager_rebalance_takes_everything_and_a_cooperative_one_what_moves(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 3)
    for assignor in ("sticky", "cooperative-sticky"):
        with Party(
            own.bootstrap, f"{assignor}-{topic}", [topic], partition_assignment_strategy=assignor
        ) as party:
            anna = party.join("anna")
            party.settle([anna], partitions)
            bert = party.join("bert")
            party.settle([anna, bert], partitions)
            if assignor == "sticky":
                assert party.of(anna) == [
                    ("assigned", (0, 1, 2)),
                    ("revoked", (0, 1, 2)),
                    ("assigned", (0, 1)),
                ]
                assert party.of(bert) == [("assigned", (2,))]
            else:
                party.wait_until(lambda p=party, a=anna: len(p.of(a)) >= 4, "the second round")  # type: ignore[misc]  # bound now
                assert party.of(anna)[:3] == [("assigned", (0, 1, 2)), ("revoked", (2,)), ("assigned", ())]
                # A first round that gives it nothing may be over before it has heard of it.
                assert [event for event in party.of(bert) if event[1]] == [("assigned", (2,))]


def test_a_static_member_returns_without_a_rebalance(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 4)
    with Party(own.bootstrap, f"g-{topic}", [topic]) as party:
        steady = party.join("steady", group_instance_id="steady")
        leaving = party.join("leaving", group_instance_id="moving")
        party.settle([steady, leaving], partitions)
        owned, before = leaving.owned, party.of(steady)
        own.fill(partitions, 5)
        party.wait_for_records(written(partitions, 5))
        leaving.stop()
        back = party.join("back", group_instance_id="moving")
        party.wait_until(lambda: back.owned == owned, "its old partitions")
        own.fill(partitions, 5)
        party.wait_for_records(written(partitions, 10))
        assert party.of(steady) == before
    assert party.times_read() == dict.fromkeys(written(partitions, 10), 1)


def test_the_elder_of_two_with_one_instance_id_is_fenced(own: Own, topic: str) -> None:
    own.create_topic(topic)
    settings = {"group_id": f"g-{topic}", "group_instance_id": "only-one", "heartbeat_interval_ms": 100}
    elder = own.consumer(topic, **settings)
    poll_until(elder, lambda: bool(elder.assignment()), "an assignment")
    younger = own.consumer(topic, **settings)
    poll_until(younger, lambda: bool(younger.assignment()), "an assignment")
    with pytest.raises(FencedInstanceIdError):
        poll_until(elder, lambda: False, "being fenced")
    younger.poll(0.1)
    assert younger.health().is_healthy, younger.health()


def test_commits_are_kept_and_tell_how_they_went(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 10)
    consumer = own.consumer(topic, group_id=f"g-{topic}")
    assert len(read(consumer, 10)) == 10
    assert consumer.committed([partition]) == {partition: None}
    outcomes: list[tuple[int, KlammError | None]] = []
    for offset in (3, 4):
        consumer.commit_async(
            {partition: offset}, lambda offsets, error: outcomes.append((offsets[partition].offset, error))
        )
    consumer.commit_sync({partition: Committed(5, metadata="half-way")})
    assert outcomes == [(3, None), (4, None)], "callbacks of earlier commits come first"
    assert consumer.committed([partition])[partition] == Committed(5, -1, "half-way")
    consumer.commit()
    kept = consumer.committed([partition])[partition]
    assert kept is not None
    assert kept.offset == 10
    consumer.seek(partition, 2)
    consumer.seek_to_committed()
    assert consumer.position(partition) == 10


def test_automatic_commits_let_the_next_one_go_on(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 20)
    settings = {"group_id": f"g-{topic}", "enable_auto_commit": True}
    first = own.consumer(topic, **settings)
    assert values(read(first, 12)) == [b"%d" % n for n in range(12)]
    first.close()
    second = own.consumer(topic, auto_commit_interval_ms=50, **settings)
    assert values(read(second, 1)) == [b"12"]
    rest = values(read(second, 7))
    assert rest == [b"%d" % n for n in range(13, 20)]
    # While it lives, the clock commits too.
    wait_until(
        lambda: (second.poll(0.02), own.admin.list_group_offsets(f"g-{topic}")[partition].offset)[1],
        equals=20,
    )


def test_a_busy_member_stays_and_an_idle_one_loses_its_partitions(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 2)
    own.fill(partitions, 1)
    group = f"g-{topic}"
    with Party(own.bootstrap, group, [topic], session_timeout_ms=500, heartbeat_interval_ms=100) as party:
        busy = party.join("busy")
        busy.pause_s = 1.2  # more than two sessions, on every poll
        party.settle([busy], partitions)
        party.wait_until(lambda: busy.polls >= 2, "two long polls")
        assert party.of(busy) == [("assigned", (0, 1))]

    idle = own.consumer(topic, group_id=group, max_poll_interval_ms=500, session_timeout_ms=400)
    poll_until(idle, lambda: len(idle.assignment()) == 2, "an assignment")
    with Party(own.bootstrap, group, [topic]) as party:
        heir = party.join("heir")
        party.settle([heir], partitions)  # nobody polls `idle`: it left by itself
        lost: list[list[TopicPartition]] = []
        with pytest.raises(CommitFailedError, match=r"max\.poll\.interval\.ms"):
            idle.commit_sync({partitions[0]: 1})
        idle.subscribe([topic], on_assign=lambda _: None, on_revoke=lambda _: None, on_lost=lost.append)
        poll_until(idle, lambda: len(idle.assignment()) == 1, "half of them back")
        assert lost == [partitions]


def test_a_session_timeout_that_the_broker_does_not_allow_is_told(own: Own, topic: str) -> None:
    own.create_topic(topic)
    consumer = own.consumer(topic, group_id=f"g-{topic}", session_timeout_ms=99, heartbeat_interval_ms=20)
    with pytest.raises(InvalidSessionTimeoutError):
        consumer.poll(20)


def test_new_partitions_are_shared_out(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 2)
    with Party(own.bootstrap, f"g-{topic}", [topic], metadata_max_age_ms=200) as party:
        members = [party.join("anna"), party.join("bert")]
        party.settle(members, partitions)
        own.admin.create_partitions({topic: 4}).unwrap()
        own.admin.wait_for_topics([topic])
        grown = [TopicPartition(topic, number) for number in range(4)]
        party.settle(members, grown)
        own.fill(grown, 3)
        party.wait_for_records(written(grown, 3))
        causes = [
            entry.cause
            for member in members
            if member.consumer is not None
            for entry in member.consumer.rebalances()
        ]
        assert any("metadata changed" in cause for cause in causes), causes


def test_broadcast_members_read_everything_and_keep_their_own_place(
    own: Own, topic: str, tmp_path: Path
) -> None:
    partitions = own.create_topic(topic, 2)
    own.fill(partitions, 5)
    for name, count in (("anna", 10), ("bert", 4), ("anna", 0), ("bert", 6)):
        consumer = own.consumer(
            topic,
            group_id=f"g-{topic}",
            client_id=name,
            partition_assignment_strategy="broadcast",
            offset_store=FileOffsetStore(tmp_path),
        )
        poll_until(consumer, lambda c=consumer: len(c.assignment()) == 2, "everything")  # type: ignore[misc]  # bound now
        consumer.seek_to_committed()
        assert len(read(consumer, count)) == count, name
        assert count or not consumer.poll(0.2)
        consumer.commit_sync()
        consumer.close()


def test_a_wakeup_and_a_second_thread_do_no_harm(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    consumer = own.consumer(group_id=None)
    consumer.assign([partition])
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.poll(30)
        except WakeupError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: consumer.metrics()["polls"] > 0)
    with pytest.raises(ConcurrentAccessError):
        consumer.position(partition)
    consumer.wakeup()
    waiting.join(20)
    assert len(raised) == 1
    own.fill([partition], 1)
    assert len(read(consumer, 1)) == 1


@pytest.fixture
def watch(cluster: str, topic: str, tmp_path: Path) -> Iterator[Watch]:
    with group_on(cluster, topic, tmp_path) as watch:
        yield watch


def test_the_others_take_over_from_a_process_that_was_killed(own: Own, topic: str, watch: Watch) -> None:
    partitions = own.create_topic(topic, 4)
    settings = {"session_timeout_ms": 1_500, "assignor": "cooperative-sticky"}
    members = [watch.join("klamm", **settings) for _ in range(3)]
    watch.settle(members, 4)
    own.fill(partitions, 20)
    members.pop().kill()
    own.fill(partitions, 20)
    watch.settle(members, 4)
    watch.wait_for_records({(number, offset) for number in range(4) for offset in range(40)})


def test_a_listener_commits_inside_close_and_the_next_member_goes_on_there(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic, 1)
    own.fill([partition], 5)

    class CommitsWhatItHas(RebalanceListener):
        def on_revoked(self, partitions: list[TopicPartition]) -> None:
            consumer.commit({item: consumer.position(item) for item in partitions})

    consumer = own.consumer(group_id=f"g-{topic}")
    consumer.subscribe([topic], CommitsWhatItHas())
    assert len(read(consumer, 3)) == 3
    consumer.close()
    assert values(read(own.consumer(topic, group_id=f"g-{topic}"), 2)) == [b"3", b"4"]
