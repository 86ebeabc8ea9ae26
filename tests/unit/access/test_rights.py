"""What ACLs allow: the rules of Kafka's StandardAuthorizer, each seen on 4.3.1."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.access.acls import (
    IMPLIED_BY,
    Acl,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPattern,
    PatternType,
    PermissionType,
    ResourceType,
)
from klamm.access.rights import Rights

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ALL, READ, WRITE, DESCRIBE = (
    AclOperation.ALL,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
)
BOB, HOST = "User:bob", "10.0.0.1"


def acl(
    name: str,
    operation: AclOperation = READ,
    permission: PermissionType = ALLOW,
    *,
    pattern_type: PatternType = LITERAL,
    principal: str = BOB,
    host: str = "*",
) -> Acl:
    return Acl(AclPattern(TOPIC, pattern_type, name), AclEntry(principal, host, operation, permission))


def rights_of(*acls: Acl) -> Rights:
    rights = Rights()
    for pattern in {each.pattern for each in acls}:
        rights.replace(pattern, [each.entry for each in acls if each.pattern == pattern])
    return rights


def allows(*acls: Acl, operation: AclOperation = READ, name: str = "foo") -> bool:
    return rights_of(*acls).decide(BOB, HOST, operation, TOPIC, name).is_allowed


@pytest.mark.parametrize(
    ("given_acl", "is_allowed"),
    [
        (acl("foo"), True),
        (acl("foo", ALL), True),
        (acl("*"), True),
        (acl("fo", pattern_type=PREFIXED), True),
        (acl("foo", pattern_type=PREFIXED), True),
        (acl("foo", principal="User:*"), True),
        (acl("foo", host=HOST), True),
        (acl("fo"), False),
        (acl("Foo"), False),
        (acl("foo.", pattern_type=PREFIXED), False),
        (acl("*", pattern_type=PREFIXED), False),
        (acl("foo", principal="User:bobby"), False),
        (acl("foo", principal="user:bob"), False),
        (acl("foo", host="10.0.0.2"), False),
        (acl("foo", host="10.0.0.0/8"), False),
        (acl("foo", host=""), False),
        (acl("foo", WRITE), False),
        (acl("foo", DESCRIBE), False),
        (acl("foo", permission=DENY), False),
    ],
    ids=str,
)
def test_one_acl_allows_what_it_matches(given_acl: Acl, is_allowed: bool) -> None:
    assert allows(given_acl) is is_allowed


@pytest.mark.parametrize(
    "denying",
    [
        acl("foo", permission=DENY),
        acl("foo", ALL, DENY),
        acl("f", permission=DENY, pattern_type=PREFIXED),
        acl("*", permission=DENY),
        acl("*", ALL, DENY, principal="User:*"),
        acl("foo", permission=DENY, host=HOST),
    ],
    ids=str,
)
def test_a_deny_wins_over_the_most_specific_allow(denying: Acl) -> None:
    assert allows(acl("foo"), acl("foo", ALL), denying) is False


def test_a_deny_denies_only_what_it_names() -> None:
    read_without_sight = (acl("foo"), acl("foo", DESCRIBE, DENY))
    assert allows(*read_without_sight)
    assert not allows(*read_without_sight, operation=DESCRIBE)
    assert allows(acl("foo"), acl("foo", permission=DENY, principal="User:eve"))


@pytest.mark.parametrize("given_operation", [each for each in AclOperation if each is not ALL])
@pytest.mark.parametrize("asked", [each for each in AclOperation if each is not ALL])
def test_an_operation_implies_only_what_kafka_says(
    given_operation: AclOperation, asked: AclOperation
) -> None:
    expected = given_operation in IMPLIED_BY[asked]
    assert allows(acl("foo", given_operation), operation=asked) is expected
    if given_operation is not asked and expected:
        assert asked in (DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


def test_a_resource_is_closed_by_an_acl_for_anybody() -> None:
    for other in (
        acl("foo", principal="User:eve"),
        acl("foo", permission=DENY, principal="User:eve"),
        acl("f", pattern_type=PREFIXED, principal="User:eve"),
        acl("*", principal="User:eve"),
    ):
        assert rights_of(other).decide(BOB, HOST, READ, TOPIC, "foo").has_acls
    for elsewhere in (acl("fo"), acl("g", pattern_type=PREFIXED)):
        assert not rights_of(elsewhere).decide(BOB, HOST, READ, TOPIC, "foo").has_acls
    assert not rights_of(acl("foo")).decide(BOB, HOST, READ, GROUP, "foo").has_acls


def test_a_decision_names_the_acl_that_made_it() -> None:
    allow, deny = acl("foo"), acl("f", permission=DENY, pattern_type=PREFIXED)
    assert rights_of(allow).decide(BOB, HOST, READ, TOPIC, "foo").rule == allow
    assert rights_of(allow, deny).decide(BOB, HOST, READ, TOPIC, "foo").rule == deny
    assert rights_of(allow).decide(BOB, HOST, WRITE, TOPIC, "foo").rule is None
    assert str(deny) == "DENY User:bob from host *: READ on TOPIC PREFIXED f"


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([acl("a", WRITE)], True),
        ([acl("a", ALL)], True),
        ([acl("a", READ)], False),
        ([acl("a", WRITE), acl("a", WRITE, DENY)], False),
        ([acl("ab", WRITE), acl("a", WRITE, DENY, pattern_type=PREFIXED)], False),
        ([acl("ab", WRITE, pattern_type=PREFIXED), acl("a", ALL, DENY, pattern_type=PREFIXED)], False),
        ([acl("ab", WRITE, pattern_type=PREFIXED), acl("abc", WRITE, DENY)], True),
        ([acl("*", WRITE), acl("a", WRITE, DENY)], True),
        ([acl("a", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("a", WRITE, host="10.0.0.9")], False),
        ([acl("a", WRITE, principal="User:*")], True),
    ],
    ids=str,
)
def test_any_resource_of_a_type_counts_unless_all_of_it_is_denied(acls: list[Acl], is_allowed: bool) -> None:
    assert rights_of(*acls).allows_any(BOB, HOST, WRITE, TOPIC) is is_allowed


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), {"foo", "fo", "*", "bar"}),
        (AclFilter(TOPIC, LITERAL, "foo"), {"foo"}),
        (AclFilter(TOPIC, PREFIXED, "fo"), {"fo"}),
        (AclFilter(TOPIC, PREFIXED, "foo"), set()),
        (AclFilter(TOPIC, None, "fo"), {"fo"}),
        (AclFilter(TOPIC, None, "foo", matches_resource=True), {"foo", "fo", "*"}),
        (AclFilter(GROUP), set()),
        (AclFilter(operation=WRITE), {"bar"}),
        (AclFilter(principal="User:eve"), {"bar"}),
        (AclFilter(permission=DENY), {"*"}),
        (AclFilter(host=HOST), {"bar"}),
    ],
)
def test_a_filter_selects_by_pattern_and_by_entry(wanted: AclFilter, names: set[str]) -> None:
    rights = rights_of(
        acl("foo"),
        acl("fo", pattern_type=PREFIXED),
        acl("*", permission=DENY),
        acl("bar", WRITE, principal="User:eve", host=HOST),
    )
    assert {pattern.name for pattern in rights.find(wanted)} == names


patterns = st.builds(
    AclPattern, st.just(TOPIC), st.sampled_from(PatternType), st.text("ab*", min_size=1, max_size=3)
)
entries = st.builds(
    AclEntry,
    st.sampled_from([BOB, "User:*", "User:eve"]),
    st.sampled_from(["*", HOST, "10.0.0.2"]),
    st.sampled_from([ALL, READ, WRITE, DESCRIBE]),
    st.sampled_from(PermissionType),
)


@given(
    st.lists(st.tuples(patterns, st.lists(entries, max_size=3)), max_size=12),
    st.text("ab*", min_size=1, max_size=4),
    st.sampled_from([READ, WRITE, DESCRIBE]),
)
def test_an_index_that_was_changed_often_decides_as_the_rules_say(
    changes: list[tuple[AclPattern, list[AclEntry]]], name: str, operation: AclOperation
) -> None:
    rights = Rights()
    present: dict[AclPattern, list[AclEntry]] = {}
    for pattern, some in changes:
        rights.replace(pattern, some)
        present[pattern] = some
    of_bob = [
        entry
        for pattern, some in present.items()
        if pattern.covers(name)
        for entry in some
        if entry.principal in (BOB, "User:*") and entry.host in ("*", HOST)
    ]
    is_denied = any(e.permission is DENY and e.operation in (operation, ALL) for e in of_bob)
    is_allowed = any(e.permission is ALLOW and e.operation in IMPLIED_BY[operation] for e in of_bob)
    decision = rights.decide(BOB, HOST, operation, TOPIC, name)
    assert decision.is_allowed == (is_allowed and not is_denied)
    assert decision.has_acls == any(some and pattern.covers(name) for pattern, some in present.items())


filters = st.builds(
    AclFilter,
    st.sampled_from([None, TOPIC, GROUP]),
    st.sampled_from([None, LITERAL, PREFIXED]),
    st.none() | st.text("ab*", min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, BOB]),
)


@given(st.lists(st.tuples(patterns, st.lists(entries, max_size=3)), max_size=12), filters)
def test_what_a_filter_selects_is_found_by_name_as_by_looking_at_all(
    changes: list[tuple[AclPattern, list[AclEntry]]], wanted: AclFilter
) -> None:
    rights = Rights()
    present: dict[AclPattern, list[AclEntry]] = {}
    for pattern, some in changes:
        rights.replace(pattern, some)
        present[pattern] = some
    expected = {
        pattern: sorted(selected)
        for pattern, some in present.items()
        if wanted.selects(pattern) and (selected := [each for each in some if wanted.selects_entry(each)])
    }
    assert {pattern: sorted(found) for pattern, found in rights.find(wanted).items()} == expected


@given(st.lists(st.tuples(patterns, st.lists(entries, max_size=3)), max_size=12))
def test_any_resource_is_asked_of_an_index_that_was_changed_often(
    changes: list[tuple[AclPattern, list[AclEntry]]],
) -> None:
    rights, fresh = Rights(), Rights()
    for pattern, some in changes:
        rights.replace(pattern, some)
    for pattern, some in dict(changes).items():
        fresh.replace(pattern, some)
    for operation in (READ, WRITE):
        assert rights.allows_any(BOB, HOST, operation, TOPIC) == fresh.allows_any(BOB, HOST, operation, TOPIC)


def test_what_one_user_may_do_is_not_searched_for_among_the_rights_of_all() -> None:
    rights = Rights()
    for number in range(20_000):
        pattern = AclPattern(TOPIC, LITERAL, f"t{number}")
        rights.replace(pattern, [acl("x", WRITE, principal=f"User:u{number}").entry])
    looked_at = 0

    class Counting(dict[Any, Any]):
        def __getitem__(self, key: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(key)

        def get(self, key: Any, default: Any = None) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().get(key, default)

    rights._patterns = Counting(rights._patterns)
    assert rights.allows_any("User:u7", HOST, WRITE, TOPIC)
    assert not rights.allows_any(BOB, HOST, WRITE, TOPIC)
    assert len(rights.find(AclFilter(TOPIC, LITERAL, "t7"))) == 1
    assert looked_at <= 25


def test_a_name_is_looked_up_and_not_searched_for() -> None:
    rights, random = Rights(), Random(1)
    for number in range(20_000):
        pattern_type = PREFIXED if number % 2 else LITERAL
        rights.replace(AclPattern(TOPIC, pattern_type, f"{random.random()}"), [acl("x").entry])
    looked_at = 0

    class Counting(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().get(key, default)

    rights._patterns = Counting(rights._patterns)
    rights.decide(BOB, HOST, READ, TOPIC, "0.123456789012345678")
    assert looked_at <= 25
