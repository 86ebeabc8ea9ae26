"""`klamm groups migrate --dry-run`, and what `explain` and `members` tell of consumer groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.app import app
from klamm.cli.migrate_group import CLASSIC_MAX, CONSUMER_MAX, POLICY, obstacles_of
from klamm.cli.reconciling import under_way
from klamm.client.admin.model import GroupDescription, MemberDescription, NewTopic
from klamm.protocol.types import TopicPartition
from klamm.testing import wait_until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS: dict[str, str | None] = {
    POLICY: "bidirectional",
    CONSUMER_MAX: "10",
    CLASSIC_MAX: "10",
    "group.version": "1",
}


def member(name: str, has: tuple[TopicPartition, ...] = (), **fields: Any) -> MemberDescription:
    return MemberDescription(name, None, f"client-{name}", "/127.0.0.1", ("t",), has, **fields)


def classic(*members: MemberDescription, kind: str = "consumer") -> GroupDescription:
    return GroupDescription("g", "Stable", kind, "range", 1, members)


def consumers(*members: MemberDescription, epoch: int = 2, target_epoch: int = 2) -> GroupDescription:
    return GroupDescription(
        "g",
        "Reconciling",
        "consumer",
        "uniform",
        1,
        members,
        group_type="consumer",
        epoch=epoch,
        target_epoch=target_epoch,
    )


# --- what is in the way --------------------------------------------------------------------------------


def test_nothing_is_in_the_way_of_a_group_of_plain_consumers() -> None:
    assert obstacles_of(classic(member("a", (T0,)), member("b", (T1,))), SETTINGS) == []
    assert obstacles_of(consumers(member("a", (T0,), protocol="consumer")), SETTINGS) == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({POLICY: "downgrade"}, f"{POLICY} is downgrade"),
        ({POLICY: None}, f"{POLICY} is not set"),
        ({CONSUMER_MAX: "1"}, f"{CONSUMER_MAX} is 1"),
        ({"group.version": None}, "the cluster has the feature group.version at 0"),
    ],
)
def test_a_setting_may_keep_a_classic_group(settings: dict[str, str | None], text: str) -> None:
    group = classic(member("a", (T0,)), member("b", (T1,)))
    assert [each.text for each in obstacles_of(group, {**SETTINGS, **settings})] == [text]


def test_members_may_keep_it() -> None:
    group = classic(member("a", (T0,), has_user_data=True), member("b", (T0,)))
    found = obstacles_of(group, SETTINGS)
    assert [each.member_id for each in found] == ["a", "b"]
    assert found[0].text.startswith("its assignor keeps data in the assignment")
    assert found[1].text == "t-0 is assigned to a too"
    (found_one,) = obstacles_of(classic(member("w"), kind="connect"), SETTINGS)
    assert "their protocol type is connect" in found_one.text


def test_a_group_without_members_is_kept_by_nothing_but_a_missing_feature() -> None:
    assert obstacles_of(classic(), {**SETTINGS, POLICY: "disabled"}) == []


def test_a_consumer_group_may_be_kept_from_going_back() -> None:
    group = consumers(member("a"), member("b"))
    assert [each.text for each in obstacles_of(group, {**SETTINGS, POLICY: "upgrade", CLASSIC_MAX: "1"})] == [
        f"{POLICY} is upgrade",
        f"{CLASSIC_MAX} is 1",
    ]


# --- who holds up a consumer group -----------------------------------------------------------------------


def test_it_names_who_still_has_what_others_wait_for_and_since_when() -> None:
    group = consumers(
        member("a", (T0, T1), protocol="classic", epoch=1, target=(T0,)),
        member("b", (), protocol="consumer", epoch=2, target=(T1,)),
    )
    events = [{"type": "group_epoch_bumped", "generation": 2, "timestamp_ms": 1_000}]
    assert under_way(group, events, 6_000) == [
        "a (client client-a, classic protocol) still has t-1, which it should give up, for 5.0 s.",
        "b (client client-b, consumer protocol) waits for t-1 of a, for 5.0 s.",
    ]
    assert under_way(group, [], 6_000)[0].endswith("which it should give up.")


def test_it_names_what_is_free_and_who_is_behind() -> None:
    group = consumers(
        member("a", (), protocol="consumer", epoch=1, target=(T0,)),
        member("b", (T1,), protocol="consumer", epoch=1, target=(T1,)),
        member("c", (), protocol="consumer", epoch=-2, target=()),
    )
    free, behind, away = under_way(group, [], 0)
    assert "has not taken t-0 yet, which nobody has" in free
    assert "is at epoch 1, not yet at 2" in behind
    assert "has left for a while" in away


def test_a_target_that_is_due_is_said_and_a_settled_group_says_nothing() -> None:
    assert "no target for epoch 3 yet" in under_way(consumers(epoch=3), [], 0)[0]
    settled = member("a", (T0,), protocol="consumer", epoch=2, target=(T0,))
    assert under_way(consumers(settled), [], 0) == []
    assert under_way(classic(settled), [], 0) == []


# --- the commands ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
    }
    with klamm.Broker(settings=settings) as broker:
        yield broker.bootstrap


def says(bootstrap: str, *arguments: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", bootstrap])
    assert done.exit_code == exit_code, (done.output, done.exception)
    return done.output


def test_a_group_is_followed_on_its_way(bootstrap: str) -> None:
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2)]).unwrap()

    def a_consumer(protocol: Literal["classic", "consumer"]) -> klamm.Consumer:
        return klamm.Consumer(
            "orders", bootstrap_servers=bootstrap, group_id="billing", group_protocol=protocol
        )

    def share(*consumers: klamm.Consumer) -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return [len(consumer.assignment()) for consumer in consumers] == [2 // len(consumers)] * len(
            consumers
        )

    with a_consumer("classic") as old:
        wait_until(lambda: share(old))
        told = says(bootstrap, "groups", "migrate", "billing", "--dry-run")
        assert "billing: classic group, Stable, 1 member(s)" in told
        assert "With the first consumer that joins with group.protocol=consumer it becomes" in told
        assert "restart with group.protocol=consumer" in told
        with a_consumer("consumer") as new:
            wait_until(lambda: share(old, new))
            told = says(bootstrap, "groups", "migrate", "billing", "--dry-run", "--json")
            found = json.loads(told)
            assert (found["type"], found["can_move"]) == ("consumer", True)
            assert sorted(each["protocol"] for each in found["members"]) == ["classic", "consumer"]
            assert found["settings"][POLICY] == "bidirectional"
            members = says(bootstrap, "groups", "members", "billing")
            assert "TO GIVE UP" in members
            assert "target of epoch 2" in says(bootstrap, "groups", "describe", "billing")
    story = says(bootstrap, "groups", "explain", "billing")
    assert "The group changed from the classic to the consumer protocol" in " ".join(story.split())


def test_without_dry_run_it_says_how_a_group_moves(bootstrap: str) -> None:
    assert "restart the consumers" in says(bootstrap, "groups", "migrate", "billing", exit_code=2)


def test_a_group_that_does_not_exist_is_an_error(bootstrap: str) -> None:
    assert "nobody" in says(bootstrap, "groups", "migrate", "nobody", "--dry-run", exit_code=1)
