"""Rules over snapshots as clusters other than klamm tell them, and the order of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.groups.causes import GroupEventCause
from klamm.groups.diagnosis.finding import GroupVerdict
from klamm.groups.diagnosis.rules import diagnose
from klamm.groups.diagnosis.storm import root_cause
from klamm.groups.lag import LogRange, PartitionLag
from klamm.groups.snapshot import (
    Commit,
    GroupSnapshot,
    MemberSnapshot,
    PartitionSnapshot,
    RebalanceUnderWay,
    RegisteredGeneration,
)
from klamm.protocol.types import TopicPartition

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def partition(
    number: int = 0, committed: int | None = 10, end: int = 10, owner: str | None = "app-1", **more: Any
) -> PartitionSnapshot:
    row = PartitionLag(TopicPartition("orders", number), committed, LogRange(0, end), owner)
    return PartitionSnapshot(row=row, **more)


def member(name: str = "app-1", **more: Any) -> MemberSnapshot:
    return MemberSnapshot(member_id=name, client_id="app", client_host="/10.0.0.7", **more)


def group(*partitions: PartitionSnapshot, **more: Any) -> GroupSnapshot:
    given: dict[str, Any] = {"state": "Stable", "members": [member()], **more}
    return GroupSnapshot(
        **{
            "group_id": "billing",
            "taken_at_ms": NOW_MS,
            "window_ms": 10 * MINUTE_MS,
            "partitions": partitions or (partition(),),
            **given,
        }
    )


def generation(number: int, *members: str, ago_ms: int = 0) -> RegisteredGeneration:
    return RegisteredGeneration(
        timestamp_ms=NOW_MS - ago_ms,
        generation=number,
        clients=frozenset({"app", "worker"}),
        members=frozenset(members),
    )


def event(kind: str, cause: str, client: str, at_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "cause": str(cause),
        "client_id": client,
        "timestamp_ms": NOW_MS - 300_000 + at_ms,
        **more,
    }


def test_a_storm_is_inferred_from_registrations_where_no_causes_are_recorded() -> None:
    found = diagnose(
        group(generations=[generation(number, "app-1", f"worker-{number}") for number in range(4, 11)])
    )
    assert found.verdict.verdict is GroupVerdict.STORM
    assert "6 rebalances" in found.verdict.summary
    assert "The member that went most often: worker (6 times)" in found.verdict.summary
    assert [each.certainty.value for each in found.verdict.evidence] == ["exact", "inferred"]


def test_a_member_that_comes_back_is_no_cause_but_its_leaving_is() -> None:
    began, reason = "rebalance_started", "max.poll.interval.ms of 300000 exceeded"
    events = [
        event(began, GroupEventCause.MEMBER_JOINED, "app", 0, member_id="app-1"),
        event(began, GroupEventCause.MEMBER_LEFT, "worker", 1_000, reason=reason),
        event(began, GroupEventCause.MEMBER_JOINED, "worker", 2_000, member_id="worker-2"),
        event(began, GroupEventCause.MEMBER_JOINED, "worker", 3_000, member_id="worker-3"),
        event(began, GroupEventCause.MEMBER_JOINED, "worker", 4_000, member_id="worker-4"),
    ]
    root = root_cause(events)
    assert root is not None
    assert (root.client_id, root.times, root.reason) == ("worker", 1, reason)
    assert "max.poll.records" in root.cure


def test_the_second_round_of_a_cooperative_rebalance_is_no_cause() -> None:
    events = [
        event("rebalance_started", GroupEventCause.SESSION_EXPIRED, "worker", 0),
        event("rebalance_completed", GroupEventCause.SESSION_EXPIRED, "worker", 100),
        event("rebalance_started", GroupEventCause.METADATA_CHANGED, "app", 200),
        event("rebalance_completed", GroupEventCause.METADATA_CHANGED, "app", 300),
        event("rebalance_started", GroupEventCause.METADATA_CHANGED, "app", 400),
    ]
    root = root_cause(events)
    assert root is not None
    assert root.cause == GroupEventCause.SESSION_EXPIRED
    assert root_cause([]) is None


def test_what_happened_once_is_not_said_to_repeat() -> None:
    left = {"type": "rebalance_started", "cause": GroupEventCause.MEMBER_LEFT, "client_id": "a"}
    once, again = root_cause([left]), root_cause([left, left])
    assert once is not None
    assert again is not None
    assert (once.who, once.cure) == ("a, once", "See the log of that client.")
    assert again.who == "a, 2 times"
    assert "started again" in again.cure


def test_a_member_that_only_came_needs_no_cure() -> None:
    came = root_cause([event("rebalance_started", GroupEventCause.MEMBER_JOINED, "a", 0)])
    assert came is not None
    assert came.cure == ""


def test_a_record_that_ends_its_readers_is_the_cause_of_their_storm() -> None:
    found = diagnose(
        group(
            partition(0, 7, 20),
            generations=[generation(number, f"worker-{number}") for number in range(8)],
            has_history=True,
        )
    )
    assert [each.verdict for each in found.findings[:2]] == [GroupVerdict.REDELIVERED, GroupVerdict.STORM]
    assert any("generation 0 became 7" in each.text for each in found.verdict.evidence)


def test_a_rebalance_names_those_who_are_busy_and_those_who_are_gone() -> None:
    found = diagnose(
        group(
            state="PreparingRebalance",
            members=[
                member("app-1", has_joined=True),
                member("app-2", has_joined=False, silent_ms=800, session_timeout_ms=45_000),
                member("app-3", has_joined=False, silent_ms=15_000, session_timeout_ms=45_000),
            ],
            rebalance=RebalanceUnderWay(started_ms=42_000, left_ms=258_000, cause="a member joined"),
        )
    )
    assert found.verdict.summary == (
        "A rebalance has been under way for 42.0 s and waits for app at 10.0.0.7, app at 10.0.0.7 "
        "to join again."
    )
    told = [each.text for each in found.verdict.evidence]
    assert "app-2 at 10.0.0.7 is busy: it sends heartbeats (the last 800 ms ago) and does not poll" in told
    assert (
        "app-3 at 10.0.0.7 has been silent for 15.0 s: it died or hangs; its session ends in 30.0 s" in told
    )
    assert "members that are late are removed in 4.3 min" in told


@pytest.mark.parametrize(
    ("commits", "said"),
    [
        ((), "nothing was committed in the last 10.0 min"),
        ((Commit(NOW_MS - 120_000, 4),), "the offsets were last committed 2.0 min ago"),
        (
            (Commit(NOW_MS - 120_000, 3), Commit(NOW_MS - 90_000, 4), Commit(NOW_MS - 70_000, 4)),
            "the last progress was committed 1.5 min ago",
        ),
    ],
)
def test_a_group_that_nobody_reads_for_says_when_it_made_progress(
    commits: tuple[Commit, ...], said: str
) -> None:
    found = diagnose(
        group(
            partition(0, 4, 10, None, commits=commits),
            members=[],
            state="Empty",
            protocol_type="consumer",
            empty_since_ms=NOW_MS - 60_000,
            has_history=True,
        )
    )
    assert found.verdict.verdict is GroupVerdict.NOBODY_READS
    assert said in [each.text for each in found.verdict.evidence]


def test_a_consumer_group_waits_for_those_who_still_have_what_others_get() -> None:
    gives = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    found = diagnose(
        group(
            state="Reconciling",
            members=[member("app-1", gives_up=gives, give_up_left_ms=50_000, silent_ms=900), member("app-2")],
            events=[],
        )
    )
    assert found.verdict.verdict is GroupVerdict.REBALANCING
    assert "waits for app at 10.0.0.7 to give up orders-0, orders-1." in found.verdict.summary
    told = [each.text for each in found.verdict.evidence]
    assert "app-1 still has orders-0, orders-1; it is removed in 50.0 s" in told
    assert "app-1 at 10.0.0.7 is busy: it sends heartbeats (the last 900 ms ago) and does not poll" in told


@pytest.mark.parametrize("events", [None, []])
def test_explain_is_recommended_where_a_cluster_records_events(events: list[Any] | None) -> None:
    back = [Commit(NOW_MS - 2_000, 9), Commit(NOW_MS - 1_000, 4)]
    for snapshot in (
        group(partition(0, 4, 10, None), members=[], state="Empty", events=events),
        group(partition(0, 4, 10, commits=back), events=events),
        group(state="PreparingRebalance", events=events),
    ):
        verdict = diagnose(snapshot).verdict
        recommended = " ".join(verdict.next_steps)
        assert "`klamm groups " in recommended
        if events is None:
            assert "groups explain" not in recommended
            assert "groups inspect" not in recommended


def test_what_is_not_known_is_not_called_zero_and_is_to_be_decided_before_consumers_start() -> None:
    found = diagnose(group(partition(0, 50, 10, None), partition(1, 10, 10, None), members=[], state="Empty"))
    assert (
        found.verdict.summary
        == "No member reads, and up to 10 records on 1 partition whose lag is not known."
    )
    assert found.verdict.next_steps[0].startswith("Decide first where it goes on in orders-0")
    assert (
        "`klamm offsets reset billing --topic orders:0 --to-earliest --execute`"
        in (found.verdict.next_steps[0])
    )
    some = diagnose(group(partition(0, 50, 10, None), partition(1, 4, 10, None), members=[], state="Empty"))
    assert (
        "6 records not read, and up to 10 records on 1 partition whose lag is not known"
        in some.verdict.summary
    )


def test_a_group_that_went_back_has_no_rate_to_be_called_slow() -> None:
    commits = [Commit(NOW_MS - 30_000 + at * 1_000, offset) for at, offset in enumerate((9, 4, 4))]
    found = diagnose(group(partition(0, 4, 1_000, commits=commits, ended_at_start=0)))
    assert found.verdict.verdict is GroupVerdict.WENT_BACK
    assert GroupVerdict.TOO_SLOW not in [each.verdict for each in found.findings]


@pytest.mark.parametrize(
    ("snapshot", "verdict"),
    [
        (group(), GroupVerdict.WELL),
        (group(partition(0, None, 0)), GroupVerdict.WELL),
        (group(partition(0, None, 5)), GroupVerdict.NOT_KNOWN),
        (group(partition(0, None, 5, None)), GroupVerdict.NO_OWNER),
        (group(partition(0, None, 5, None, is_subscribed=False)), GroupVerdict.NOT_KNOWN),
        (group(partition(0, 50, 10)), GroupVerdict.OUT_OF_RANGE),
        (group(partition(0, 4, 10, None), members=[], state="Empty"), GroupVerdict.NOBODY_READS),
        (group(partition(0, 10, 10, None), members=[], state="Empty"), GroupVerdict.WELL),
        (group(partitions=(), members=[], state="Empty"), GroupVerdict.NOT_KNOWN),
        (group(hidden_topics=("secret",)), GroupVerdict.NOT_KNOWN),
        (group(partitions=(), members=[], state="Empty", protocol_type="connect"), GroupVerdict.WELL),
    ],
)
def test_each_state_has_its_verdict(snapshot: GroupSnapshot, verdict: GroupVerdict) -> None:
    assert diagnose(snapshot).verdict.verdict is verdict


def test_what_may_be_unread_is_told_beside_what_is() -> None:
    lost, behind = partition(1, 50, 40, None), partition(0, 4, 10, None)
    for partitions, said in (
        ([lost], "No member reads, and up to 40 records on 1 partition whose lag is not known."),
        ([behind, lost], "6 records not read, and up to 40 records on 1 partition whose lag is not known."),
    ):
        found = diagnose(group(*partitions, members=[], state="Empty"))
        assert said in found.verdict.summary


def test_a_group_that_is_faster_than_its_producer_says_when_it_has_caught_up() -> None:
    commits = [
        Commit(NOW_MS - 60_000, 0),
        Commit(NOW_MS - 30_000, 3_000),
        Commit(NOW_MS, 6_000),
    ]
    found = diagnose(group(partition(0, 6_000, 12_000, commits=commits, ended_at_start=12_000)))
    assert found.is_well
    assert found.verdict.verdict is GroupVerdict.CATCHING_UP
    assert "has caught up in 1.0 min" in found.verdict.summary
    slower = diagnose(group(partition(0, 6_000, 200_000, commits=commits, ended_at_start=12_000)))
    assert slower.verdict.verdict is GroupVerdict.TOO_SLOW


def test_a_diagnosis_is_json_with_the_verdict_first() -> None:
    found = diagnose(group(partition(0, 50, 10), partition(1, None, 5, None)))
    assert found.as_json() | {"evidence": [], "next_steps": [], "other_findings": []} == {
        "group": "billing",
        "is_well": False,
        "verdict": "partitions without owner",
        "summary": "1 partition of subscribed topics has no owner: orders-1.",
        "evidence": [],
        "next_steps": [],
        "other_findings": [],
    }
    assert [each["verdict"] for each in found.as_json()["other_findings"]] == ["offset out of range"]
