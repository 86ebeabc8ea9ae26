"""What members tell the leader, and what they remember."""

from __future__ import annotations

import pytest

from klamm.assignors import (
    Assignment,
    ClusterView,
    GroupMetadata,
    GroupView,
    MemberSubscription,
    TopicPartition,
)
from klamm.assignors.sticky import StickyAssignor
from klamm.config import ConfigError
from klamm.protocol.consumer_protocol import (
    StickyMemory,
    Subscription,
    decode_sticky_memory,
    encode_generation,
)
from unit.assignors.notation import a_cluster, a_group, an_assignor, as_sets, partitions

TOPICS = frozenset({"t"})
GIVEN = Assignment(partitions("t-0 t-1"))


def test_a_sticky_member_carries_its_last_assignment_along() -> None:
    assignor = an_assignor("sticky")
    assert assignor.subscription_user_data(TOPICS) is None
    assignor.on_assignment(GIVEN, GroupMetadata("g", 7, "m"))
    assert decode_sticky_memory(assignor.subscription_user_data(TOPICS)) == StickyMemory(GIVEN.partitions, 7)


def test_a_cooperative_sticky_member_carries_only_the_generation() -> None:
    assignor = an_assignor("cooperative-sticky")
    assert assignor.subscription_user_data(TOPICS) == encode_generation(None)
    assignor.on_assignment(GIVEN, GroupMetadata("g", 7, "m"))
    assert assignor.subscription_user_data(TOPICS) == encode_generation(7)


@pytest.mark.parametrize("name", ["range", "roundrobin", "random", "broadcast"])
def test_an_assignor_without_memory_sends_nothing(name: str) -> None:
    assignor = an_assignor(name, {"client.id": "me", "enable.auto.commit": False})
    assignor.on_assignment(GIVEN, GroupMetadata("g", 7, "m"))
    assert assignor.subscription_user_data(TOPICS) is None


def test_sticky_ignores_owned_partitions_because_an_eager_member_owns_nothing() -> None:
    cluster = a_cluster("t:2")
    group = a_group("A(t; t-1 @1) B(t; t-0 @1)", cluster)
    assert as_sets(StickyAssignor().assign(cluster, group)) == {
        "A": {TopicPartition("t", 0)},
        "B": {TopicPartition("t", 1)},
    }


def test_sticky_user_data_that_cannot_be_read_is_no_memory() -> None:
    cluster = a_cluster("t:2")
    broken = MemberSubscription(TOPICS, user_data=b"\x00\x01")
    assert as_sets(StickyAssignor().assign(cluster, GroupView({"A": broken}))) == {
        "A": set(cluster.partitions("t"))
    }


def test_an_old_cooperative_member_tells_its_generation_in_the_user_data() -> None:
    cluster = a_cluster("t:2")
    # Given two claims on t-0, of members that know no generation in their subscription
    old = MemberSubscription(TOPICS, encode_generation(1), partitions("t-0"))
    older = MemberSubscription(TOPICS, encode_generation(0), partitions("t-0"))
    given_out = an_assignor("cooperative-sticky").assign(cluster, GroupView({"A": older, "B": old}))
    # Then the younger one keeps it
    assert as_sets(given_out) == {"A": {TopicPartition("t", 1)}, "B": {TopicPartition("t", 0)}}


def test_a_rack_leader_member_names_its_rack() -> None:
    assignor = an_assignor("rack-leader", {"client.rack": "köln"})
    assert assignor.subscription_user_data(TOPICS) == "köln".encode()
    assert an_assignor("rack-leader", {"client.rack": ""}).subscription_user_data(TOPICS) is None


@pytest.mark.parametrize(
    ("user_data", "rack"), [(b"y", None), (b"y", "x"), (None, "y"), (b"", "y"), (b"\xff", "y")]
)
def test_the_rack_in_the_user_data_counts_before_that_of_the_subscription(
    user_data: bytes | None, rack: str | None
) -> None:
    cluster = a_cluster("t:1/y")
    near = MemberSubscription(TOPICS, user_data=user_data, rack=rack)
    group = GroupView({"a": MemberSubscription(TOPICS, rack="x"), "z": near})
    assert as_sets(an_assignor("rack-leader").assign(cluster, group))["z"] == {TopicPartition("t", 0)}


def test_chance_is_repeatable_with_a_seed_and_differs_between_seeds() -> None:
    cluster = ClusterView.of_counts({"t": 50})
    group = a_group("A(t) B(t) C(t)", cluster)
    first, again, other = (
        an_assignor("random", {"random.seed": seed}).assign(cluster, group) for seed in (1, "1", 2)
    )
    assert first == again
    assert first != other


def test_a_seed_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"random\.seed must be a whole number, not 'dice'"):
        an_assignor("random", {"random.seed": "dice"})


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"client.id": "me", "enable.auto.commit": True}, r"offset\.store"),
        ({"client.id": "me"}, r"offset\.store"),
        ({"enable.auto.commit": False}, r"group\.instance\.id or client\.id"),
        ({"offset.store": object(), "client.id": ""}, r"group\.instance\.id or client\.id"),
    ],
)
def test_broadcast_needs_a_place_for_each_members_offsets_and_a_name(
    config: dict[str, object], hint: str
) -> None:
    with pytest.raises(ConfigError, match=hint):
        an_assignor("broadcast", config)


@pytest.mark.parametrize(
    "config",
    [
        {"offset.store": object(), "group.instance.id": "i1"},
        {"offset.store": object(), "client.id": "me", "enable.auto.commit": True},
        {"enable.auto.commit": False, "client.id": "me"},
    ],
)
def test_broadcast_is_content_with_a_store_or_without_commits(config: dict[str, object]) -> None:
    assert an_assignor("broadcast", config).name == "broadcast"


def test_a_member_is_made_of_what_came_over_the_wire() -> None:
    sent = Subscription(("t", "u"), b"x", partitions("t-0"), 3, "r")
    assert MemberSubscription.of_wire(sent, "i1") == MemberSubscription(
        frozenset({"t", "u"}), b"x", partitions("t-0"), 3, "r", "i1"
    )
