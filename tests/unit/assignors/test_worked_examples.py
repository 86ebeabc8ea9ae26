"""Every worked example: small groups and what each member gets."""

from __future__ import annotations

import pytest

from unit.assignors.notation import (
    a_cluster,
    a_group,
    after,
    an_assignor,
    as_sets,
    assigned,
    the_result,
)

TOPICS_OF_5 = "t0:2 t1:2 t2:2 t3:2"
TOPICS_OF_4 = "t0:1 t1:2 t2:3"
MEMBERS_OF_4 = "C0(t0) C1(t0 t1) C2(t0 t1 t2)"
TOPICS_OF_Q4 = "topic1:2 topic2:1 topic3:2 topic4:1 topic5:2"
MEMBERS_OF_Q4 = "c1(*) c2(topic1 topic3 topic5) c3(topic1 topic3 topic5) c4(*)"
FIVE_STAYS = "C0(*; t0-0 t1-1 t3-0 @1) C2(*; t1-0 t2-1 @1)"
EIGHT_STAYS = "C1(t0 t1; t1-0 t1-1 @1) C2(t0 t1 t2; t2-0 t2-1 t2-2 @1)"

ROWS = [
    # two topics, two or three members
    ("1", "range", "t0:4 t1:4", "C0(*) C1(*)", "C0 t0-0 t0-1 t1-0 t1-1; C1 t0-2 t0-3 t1-2 t1-3"),
    ("2", "range", "t0:3 t1:3", "C0(*) C1(*)", "C0 t0-0 t0-1 t1-0 t1-1; C1 t0-2 t1-2"),
    ("3", "roundrobin", "t0:3 t1:3", "C0(*) C1(*)", "C0 t0-0 t0-2 t1-1; C1 t0-1 t1-0 t1-2"),
    ("4", "roundrobin", TOPICS_OF_4, MEMBERS_OF_4, "C0 t0-0; C1 t1-0; C2 t1-1 t2-0 t2-1 t2-2"),
    ("5", "sticky", TOPICS_OF_5, "C0(*) C1(*) C2(*)", "C0 t0-0 t1-1 t3-0; C1 t0-1 t2-0 t3-1; C2 t1-0 t2-1"),
    (
        "5r",
        "roundrobin",
        TOPICS_OF_5,
        "C0(*) C1(*) C2(*)",
        "C0 t0-0 t1-1 t3-0; C1 t0-1 t2-0 t3-1; C2 t1-0 t2-1",
    ),
    ("6", "roundrobin", TOPICS_OF_5, "C0(*) C2(*)", "C0 t0-0 t1-0 t2-0 t3-0; C2 t0-1 t1-1 t2-1 t3-1"),
    ("7", "sticky", TOPICS_OF_5, FIVE_STAYS, "C0 t0-0 t1-1 t3-0 t0-1; C2 t1-0 t2-1 t2-0 t3-1"),
    ("8", "sticky", TOPICS_OF_4, MEMBERS_OF_4, "C0 t0-0; C1 t1-0 t1-1; C2 t2-0 t2-1 t2-2"),
    ("9", "roundrobin", TOPICS_OF_4, "C1(t0 t1) C2(*)", "C1 t0-0 t1-1; C2 t1-0 t2-0 t2-1 t2-2"),
    ("10", "sticky", TOPICS_OF_4, EIGHT_STAYS, "C1 t1-0 t1-1 t0-0; C2 t2-0 t2-1 t2-2"),
    # range
    ("R1a", "range", "t:1", "A()", "A"),
    ("R1b", "range", "t:1", "A(x)", "A"),
    ("R2", "range", "t:1", "A(t) B(t)", "A t-0; B"),
    ("R3", "range", "t:7", "A(t) B(t) C(t)", "A t-0 t-1 t-2; B t-3 t-4; C t-5 t-6"),
    ("R4", "range", "t:3 u:2", "A(t) B(t u) C(t)", "A t-0; B t-1 u-0 u-1; C t-2"),
    ("R5", "range", "t:4", "A() B(t) C(t)", "A; B t-0 t-1; C t-2 t-3"),
    ("R6", "range", "t:3", "c10(t) c2(t)", "c10 t-0 t-1; c2 t-2"),
    ("R7", "range", "t:3 u:3", "m-b(*; instance=i1) m-a(*; instance=i2)", "m-b t-0 t-1 u-0 u-1; m-a t-2 u-2"),
    ("R8", "range", "t:5 u:4", "a(*) z(*; instance=i1)", "z t-0 t-1 t-2 u-0 u-1; a t-3 t-4 u-2 u-3"),
    ("R9", "range", "t:6/abc", "A(*; rack=a) B(*; rack=b) C(*; rack=c)", "A t-0 t-3; B t-1 t-4; C t-2 t-5"),
    (
        "R10",
        "range",
        "t:6/[abc]",
        "A(*; rack=a) B(*; rack=b) C(*; rack=c)",
        "A t-0 t-1; B t-2 t-3; C t-4 t-5",
    ),
    ("R11", "range", "t:6/abc", "A(*; rack=c) B(*) C(*; rack=a)", "A t-2 t-5; B t-0 t-1; C t-3 t-4"),
    ("R12a", "range", "t:4/ab", "A(*; rack=x) B(*; rack=a)", "A t-1 t-3; B t-0 t-2"),
    ("R12b", "range", "t:4/ab", "A(*; rack=x) B(*; rack=y)", "A t-0 t-1; B t-2 t-3"),
    (
        "R13",
        "range",
        "t:4/ab u:4/ab",
        "A(*; rack=b) B(*; rack=a)",
        "A t-1 t-3 u-1 u-3; B t-0 t-2 u-0 u-2",
    ),
    (
        "R14",
        "range",
        "t:4/ab u:4/ba",
        "A(*; rack=a) B(*; rack=b)",
        "A t-0 t-1 u-0 u-1; B t-2 t-3 u-2 u-3",
    ),
    # roundrobin
    (
        "Q1",
        "roundrobin",
        "t:3 u:3",
        "m-b(*; instance=i1) m-a(*; instance=i2)",
        "m-b t-0 t-2 u-1; m-a t-1 u-0 u-2",
    ),
    (
        "Q2",
        "roundrobin",
        "t:3 u:3",
        "c1(*; instance=i1) c2(*; instance=i2) c3(*; instance=i3) c4(*)",
        "c1 t-0 u-1; c2 t-1 u-2; c3 t-2; c4 u-0",
    ),
    ("Q3", "roundrobin", "t:4", "A() B(t) C(t)", "A; B t-0 t-2; C t-1 t-3"),
    (
        "Q4",
        "roundrobin",
        TOPICS_OF_Q4,
        MEMBERS_OF_Q4,
        "c1 topic1-0 topic3-0 topic5-0; c2 topic1-1 topic3-1 topic5-1; c3; c4 topic2-0 topic4-0",
    ),
    # sticky
    ("S1", "sticky", "t:3 u:2", "A(t) B(t u) C(t)", "A t-0 t-2; B u-0 u-1; C t-1"),
    ("S2", "sticky", "t:3", "A(t; t-0 t-1 t-2 @1) B(t)", "A t-0 t-1; B t-2"),
    ("S3", "sticky", "t:6", "A(*; t-0 t-3 @1) C(*; t-2 t-5 @1)", "A t-0 t-3 t-1; C t-2 t-5 t-4"),
    ("S4", "sticky", "t:2 u:3", "A(*; t-0 u-1 @1) B(*; t-1 u-2 @1)", "A t-0 u-1 u-0; B t-1 u-2"),
    ("S5", "sticky", "t:2 u:2", "A(*; t-0 u-0 @1) B(*; t-1 u-1 @1) C(*)", "A t-0 u-0; B t-1; C u-1"),
    ("S6", "sticky", "t:2 u:3", "A(*; t-0 @1) B(*; t-1 @1) C(*)", "A t-0 u-1; B t-1 u-2; C u-0"),
    ("S7", "sticky", "t:3", "A(*; t-0 t-1 @1) B(*; t-0 t-2 @1) C(*)", "A t-1; B t-2; C t-0"),
    ("S8", "sticky", "t:4", "A(*; t-0 t-1 @1) B(*; t-0 t-2 @1) C(*)", "A t-1 t-3; B t-2; C t-0"),
    (
        "S9a",
        "sticky",
        "t:3 u:3",
        "A(*; t-0 t-2 u-1 @10) B(*; t-0 t-2 u-1 @9)",
        "A t-0 t-2 u-1; B t-1 u-0 u-2",
    ),
    ("S9b", "sticky", "t:3 u:3", "A(*; t-0 t-2 u-1 @10) B(*; t-0 t-2 u-1)", "A t-0 t-2 u-1; B t-1 u-0 u-2"),
    (
        "S10",
        "sticky",
        "t:3 u:3 v:3",
        "A(*; t-0 u-0 v-0 @10) B(*; t-1 u-1 v-1 @9) C(*; u-1 v-0 v-2 @8)",
        "A t-0 u-0 v-0; B t-1 u-1 v-1; C v-2 t-2 u-2",
    ),
    ("S11", "sticky", "t:3", "A(*; t-0 @1) B(*; t-0 @1) C(*; t-0 @2)", "C t-0; A t-1; B t-2"),
    ("S12", "sticky", "t:5", "A(*; t-0 t-2 @1) B(*; t-1 @1)", "A t-0 t-2 t-4; B t-1 t-3"),
    ("S13", "sticky", "t:2", "A(*; t-0 t-2 @1) B(*; t-1 t-3 @1)", "A t-0; B t-1"),
    ("S14", "sticky", "t:4", "A() B(t) C(t)", "A; B t-0 t-2; C t-1 t-3"),
    (
        "S15",
        "sticky",
        TOPICS_OF_Q4,
        MEMBERS_OF_Q4,
        "c1 topic2-0 topic3-0; c2 topic1-0 topic3-1; c3 topic1-1 topic5-0; c4 topic4-0 topic5-1",
    ),
    ("S16", "sticky", "t:2", "A(*; t-0 t-1 @1) B(*) C(*)", "A t-0; B t-1; C"),
    (
        "S17",
        "sticky",
        "t:4/ab",
        "A(*; t-1 t-3 @1; rack=a) B(*; t-0 t-2 @1; rack=b)",
        "A t-0 t-2; B t-1 t-3",
    ),
    ("S18", "sticky", "t:2 u:2", "A(t; t-0 u-0 @1) B(t u; t-1 u-1 @1)", "A t-0 t-1; B u-1 u-0"),
    (
        "S19",
        "sticky",
        "t:4 u:1",
        "A(u; t-0 t-1 @1) B(*; t-0 t-1 t-2 t-3 u-0 @2) C(t)",
        "A u-0; B t-2 t-3; C t-0 t-1",
    ),
    # broadcast and rack-leader
    ("B1", "broadcast", "t0:2 t1:1", "A(t0 t1) B(t0) C()", "A t0-0 t0-1 t1-0; B t0-0 t0-1; C"),
    (
        "L1",
        "rack-leader",
        "t:4/xy",
        "consumer1(t; rack=x) consumer2(t; rack=y)",
        "consumer1 t-0 t-2; consumer2 t-1 t-3",
    ),
    ("L2", "rack-leader", "t:4/xxxz", "c1(t; rack=x) c2(t; rack=y)", "c1 t-0 t-1 t-2; c2 t-3"),
]


@pytest.mark.parametrize(
    ("name", "topics", "members", "expected"), [pytest.param(*r[1:], id=r[0]) for r in ROWS]
)
def test_an_assignor_gives(name: str, topics: str, members: str, expected: str) -> None:
    cluster = a_cluster(topics)
    assignor = an_assignor(name, {"client.id": "me", "enable.auto.commit": False})
    assert as_sets(assigned(assignor, cluster, a_group(members, cluster))) == the_result(expected)


COOPERATIVE_ROWS = [
    ("K1", "t:3", "A(t; t-0 t-1 t-2 @1) B(t)", "A t-0 t-1; B", "A t-0 t-1; B t-2"),
    (
        "K2",
        "t:6",
        "A(*; t-0 t-3 @1) C(*; t-2 t-5 @1)",
        "A t-0 t-3 t-1; C t-2 t-5 t-4",
        "A t-0 t-3 t-1; C t-2 t-5 t-4",
    ),
    ("K3", "t:3", "A(*; t-0 t-1 @1) B(*; t-0 t-2 @1) C(*)", "A t-1; B t-2; C", "A t-1; B t-2; C t-0"),
    (
        "K4",
        "t:3 u:4",
        "A(*; t-0 t-2 u-1 u-3 @1) B(*; t-1 u-0 u-2 @1) C(*) D(*)",
        "A t-0 u-1; B t-1 u-0; C; D",
        "A t-0 u-1; B t-1 u-0; C t-2 u-3; D u-2",
    ),
    ("K5", "t:2 u:2", "A(t u; t-0 t-1 u-0 u-1 @1) B(u)", "A t-0 t-1; B", "A t-0 t-1; B u-0 u-1"),
    (
        "K6",
        "t:4/ab",
        "A(*; t-0 t-1 @1; rack=a) B(*; t-2 t-3 @1; rack=b)",
        "A t-0; B t-3",
        "A t-0 t-2; B t-3 t-1",
    ),
]


@pytest.mark.parametrize(
    ("topics", "members", "first", "second"), [pytest.param(*r[1:], id=r[0]) for r in COOPERATIVE_ROWS]
)
def test_cooperative_sticky_takes_away_first_and_gives_in_the_next_round(
    topics: str, members: str, first: str, second: str
) -> None:
    cluster = a_cluster(topics)
    group = a_group(members, cluster)
    assignor = an_assignor("cooperative-sticky")
    given = assigned(assignor, cluster, group)
    assert as_sets(given) == the_result(first)
    assert as_sets(assigned(assignor, cluster, after(group, given))) == the_result(second)
