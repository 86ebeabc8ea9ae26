"""Real groups, brought into trouble by a client, and what the diagnosis says of each.

The same tests run with several clients, on klamm and on Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any, Final

import klamm
from klamm.client.admin.model import CommittedOffset, NewTopic
from klamm.client.diagnosis.collecting import snapshots
from klamm.groups.diagnosis.finding import Certainty, Diagnosis, GroupVerdict
from klamm.groups.diagnosis.rules import diagnose
from klamm.testing import wait_until

MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
# A consumer of a topic with librdkafka's settings: poll() gives a list, assignment() a set.
MakeConsumer = Callable[[str, dict[str, Any]], Any]


class Scene:
    """A topic of two partitions with ten records each, and a group to read it."""

    def __init__(self, bootstrap: str, number: int, make: MakeConsumer, *, is_klamm: bool) -> None:
        self.bootstrap = bootstrap
        self.is_klamm = is_klamm
        self._make = make
        self.topic, self.group = f"orders-{number}", f"billing-{number}"
        self.admin = klamm.Admin(bootstrap_servers=bootstrap)
        self.reader = klamm.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        self.admin.create_topics([NewTopic(self.topic, 2)]).unwrap()
        self.write(10)

    def close(self) -> None:
        self.reader.close()
        self.admin.close()

    def write(self, records: int, **settings: Any) -> None:
        with klamm.Producer(bootstrap_servers=self.bootstrap, **settings) as producer:
            for partition in range(2):
                for _ in range(records):
                    producer.send(self.topic, b"v", partition=partition)
            producer.flush(30)

    def place(self, number: int) -> klamm.TopicPartition:
        return klamm.TopicPartition(self.topic, number)

    def commit(self, *offsets: int) -> None:
        wanted = {self.place(number): CommittedOffset(offset) for number, offset in enumerate(offsets)}
        self.admin.alter_group_offsets(self.group, wanted).unwrap()

    def member(self, name: str = "app", *, reads: int = 20, commits: bool = True, **settings: Any) -> Any:
        """A consumer that has joined, read so many records, and committed them."""
        consumer = self.joining(name, **{"auto.offset.reset": "earliest", **settings})
        seen = 0
        while not consumer.assignment() or seen < reads:
            seen += len(consumer.poll(10))
        if commits:
            consumer.commit_sync()
        return consumer

    def joining(self, name: str, **settings: Any) -> Any:
        """A consumer that joins while it is polled."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        return self._make(
            self.topic,
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "client.id": name,
                "enable.auto.commit": False,
                **named,
            },
        )

    def turn(self, *consumers: Any, until: Callable[[], object]) -> None:
        """Poll in turn until something is true."""
        for _ in range(600):
            if until():
                return
            for consumer in consumers:
                consumer.poll(0.05)
        raise AssertionError(str(self.diagnosis()))

    def diagnosis(self, later_ms: int = 0, window_ms: int = 10 * MINUTE_MS) -> Diagnosis:
        """The diagnosis as it would be so much later, if nothing happened until then."""
        described = self.admin.describe_groups([self.group])
        (found,) = snapshots(
            self.admin,
            self.reader,
            list(described.unwrap().values()),
            now_ms=round(time() * 1000) + later_ms,
            window_ms=window_ms,
            timeout=10,
        )
        return diagnose(found)

    def told(self, text: str) -> Diagnosis:
        """The diagnosis once this is said in it: events are written when there is time."""
        found = wait_until(
            lambda: next((each for each in (self.diagnosis(),) if text in str(each)), None),
            describe=lambda: str(self.diagnosis()),
        )
        assert found is not None
        return found

    def until(self, verdict: GroupVerdict, later_ms: int = 0) -> Diagnosis:
        """The diagnosis once it has this verdict: events are written when there is time."""

        def found() -> Diagnosis | None:
            diagnosis = self.diagnosis(later_ms)
            return diagnosis if diagnosis.verdict.verdict is verdict else None

        told = wait_until(found, describe=lambda: str(self.diagnosis(later_ms)))
        assert told is not None
        return told


def certain(diagnosis: Diagnosis, text: str) -> Certainty:
    """How certain the statement with this text is."""
    found = [each for each in diagnosis.verdict.evidence if text in each.text]
    assert found, diagnosis
    return found[0].certainty


class TroubledGroups:
    """A subclass has a fixture `scene`."""

    def test_a_group_that_has_read_everything_is_well(self, scene: Scene) -> None:
        with scene.member():
            diagnosis = scene.diagnosis()
        assert diagnosis.verdict.verdict is GroupVerdict.WELL
        assert diagnosis.is_well
        assert diagnosis.verdict.summary == "1 member, 2 partitions: nothing is left to read."

    def test_nobody_reads_after_the_last_member_has_left(self, scene: Scene) -> None:
        scene.member().close()
        assert scene.diagnosis().is_well, "it has read everything"
        scene.write(5)
        diagnosis = scene.until(GroupVerdict.NOBODY_READS)
        assert "10 records not read" in diagnosis.verdict.summary
        if scene.is_klamm:
            told = scene.told("the last member went")
            assert certain(told, "the last member went") is Certainty.EXACT
            assert "a member left" in str(told)

    def test_a_group_without_members_that_makes_progress_is_no_stopped_one(self, scene: Scene) -> None:
        # As Spark and Flink do: they commit and never join
        for offset in (2, 4, 6):
            scene.commit(offset, offset)
        assert scene.diagnosis().verdict.verdict is not GroupVerdict.NOBODY_READS
        assert scene.diagnosis(window_ms=1, later_ms=MINUTE_MS).verdict.verdict is GroupVerdict.NOBODY_READS

    def test_a_rebalance_under_way_is_told_with_its_cause(self, scene: Scene) -> None:
        # Given a member that does not poll, and another one that joins
        with scene.member("busy", max_poll_interval_ms=120_000) as busy:
            joining = scene.joining("newcomer")
            joining.poll(0.1)
            diagnosis = scene.until(GroupVerdict.REBALANCING)
            assert diagnosis.verdict.summary.startswith("A rebalance has been under way")
            if scene.is_klamm:
                told = scene.told("waits for busy at 127.0.0.1 to join again")
                assert certain(told, "it began because a member joined") is Certainty.EXACT
                assert certain(told, "is busy: it sends heartbeats") is Certainty.EXACT
                assert certain(told, "members that are late are removed in ") is Certainty.EXACT
            else:
                assert "this cluster does not tell for whom it waits" in diagnosis.verdict.summary
            scene.turn(busy, joining, until=joining.assignment)
            joining.close()

    def test_members_that_come_and_go_are_a_storm_whose_root_cause_is_their_leaving(
        self, scene: Scene
    ) -> None:
        with scene.member("steady") as steady:
            for _ in range(3):
                flapping = scene.joining("flapping")
                scene.turn(steady, flapping, until=flapping.assignment)
                flapping.close()
                scene.turn(steady, until=lambda: len(steady.assignment()) == 2)
            diagnosis = scene.until(GroupVerdict.STORM)
        summary, steps = diagnosis.verdict.summary, " ".join(diagnosis.verdict.next_steps)
        assert "rebalances in the last 10.0 min" in summary
        if scene.is_klamm:
            assert "The root cause: a member left" in summary
            assert "(flapping, 3 times)" in summary
            assert "group.instance.id" in steps
        else:
            assert "The member that went most often: flapping (3 times)" in summary
            assert "this cluster records no causes" in steps
        assert scene.diagnosis(later_ms=60 * MINUTE_MS).verdict.verdict is not GroupVerdict.STORM

    def test_partitions_that_nobody_has_after_the_topic_has_grown(self, scene: Scene) -> None:
        with scene.member(metadata_max_age_ms=600_000):
            scene.admin.create_partitions({scene.topic: 4}).unwrap()
            with klamm.Producer(bootstrap_servers=scene.bootstrap) as producer:
                producer.send(scene.topic, b"v", partition=3)
                producer.flush(30)
            diagnosis = scene.diagnosis()
        assert diagnosis.verdict.verdict is GroupVerdict.NO_OWNER
        assert (
            f"2 partitions of subscribed topics have no owner: {scene.place(2)}" in diagnosis.verdict.summary
        )
        assert certain(diagnosis, "1 record that may not be read") is Certainty.EXACT
        assert certain(diagnosis, "the topic has grown") is Certainty.INFERRED

    def test_offsets_out_of_range_in_both_directions(self, scene: Scene) -> None:
        scene.commit(2, 50)
        scene.admin.delete_records({scene.place(0): 5}).unwrap()
        diagnosis = scene.diagnosis()
        verdicts = [each.verdict for each in diagnosis.findings]
        assert GroupVerdict.OUT_OF_RANGE in verdicts
        with scene.member("late", reads=0, commits=False):
            diagnosis = scene.diagnosis()
        assert diagnosis.verdict.verdict is GroupVerdict.OUT_OF_RANGE
        assert certain(diagnosis, "committed 2, the log starts at 5") is Certainty.EXACT
        assert certain(diagnosis, "committed 50, the log ends at 10") is Certainty.EXACT
        assert certain(diagnosis, "3 offsets were deleted unread") is Certainty.INFERRED

    def test_an_open_transaction_is_named_with_all_groups_that_it_holds_back(self, scene: Scene) -> None:
        other = f"shipping-{scene.group}"
        with scene.member(isolation_level="read_committed"):
            producer = klamm.Producer(bootstrap_servers=scene.bootstrap, transactional_id=f"tx-{scene.group}")
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(scene.topic, b"v", partition=1)
            producer.flush(30)
            offsets = {scene.place(1): CommittedOffset(10), scene.place(0): CommittedOffset(10)}
            scene.admin.alter_group_offsets(other, offsets).unwrap()
            young = scene.diagnosis()
            both = scene.admin.describe_groups([scene.group, other]).unwrap()
            found = snapshots(
                scene.admin,
                scene.reader,
                list(both.values()),
                now_ms=round(time() * 1000) + 30_000,
                window_ms=10 * MINUTE_MS,
                timeout=10,
            )
            diagnosis = diagnose(found[0])
            producer.abort_transaction()
            producer.close()
        assert young.verdict.verdict is not GroupVerdict.OPEN_TRANSACTION, "it has only begun"
        assert diagnosis.verdict.verdict is GroupVerdict.OPEN_TRANSACTION
        assert f"Records from offset 10 of {scene.place(1)} on are held back" in diagnosis.verdict.summary
        assert f"tx-{scene.group}" in diagnosis.verdict.summary
        assert certain(diagnosis, "began at offset 10, open for 30") is Certainty.EXACT
        assert certain(diagnosis, f"it holds back {other}, too") is Certainty.INFERRED

    def test_a_record_that_ends_each_reader_is_found_by_the_offset_that_stays(self, scene: Scene) -> None:
        # Given a program that dies of record 3 of a partition, and is started again each time
        scene.commit(3, 10)
        for _ in range(3):
            member = scene.joining("worker")
            scene.turn(member, until=member.assignment)
            member.close()
        diagnosis = scene.until(GroupVerdict.REDELIVERED)
        assert f"{scene.place(0)} stands at offset 3, although its readers began again 3 times" in (
            diagnosis.verdict.summary
        )
        steps = " ".join(diagnosis.verdict.next_steps)
        assert f"`klamm consume {scene.topic} --partition 0 --offset 3 --max-messages 1 --json`" in steps
        assert f"--topic {scene.topic}:0 --to-offset 4 --execute" in steps

    def test_an_owner_that_commits_nothing_is_named(self, scene: Scene) -> None:
        with scene.member("slow"):
            scene.write(5)
            assert scene.diagnosis().is_well
            diagnosis = scene.diagnosis(later_ms=5 * MINUTE_MS)
        assert diagnosis.verdict.verdict is GroupVerdict.OWNER_SILENT
        assert "slow at 127.0.0.1 committed nothing in" in diagnosis.verdict.summary
        assert "for 5.0 min" in diagnosis.verdict.summary
        assert certain(diagnosis, "committed 10 for 5.0 min; up to 5 records not read") is Certainty.EXACT

    def test_a_group_that_went_backwards_says_from_where_to_where(self, scene: Scene) -> None:
        scene.commit(9, 9)
        scene.commit(4, 9)
        with scene.member(reads=0, commits=False):
            diagnosis = scene.diagnosis()
        assert diagnosis.verdict.verdict is GroupVerdict.WENT_BACK
        assert f"{scene.place(0)} went back from offset 9 to 4" in diagnosis.verdict.summary

    def test_a_group_that_is_slower_than_its_producer_gets_a_forecast(self, scene: Scene) -> None:
        with scene.member("slow", reads=20) as member:
            for number in range(4):
                scene.write(400)
                member.commit_sync({scene.place(0): 10 + number, scene.place(1): 10 + number})
                wait_until(lambda: scene.diagnosis() is not None)
            diagnosis = scene.diagnosis(window_ms=MINUTE_MS, later_ms=30_000)
        assert diagnosis.verdict.verdict is GroupVerdict.TOO_SLOW
        assert "in an hour it is" in diagnosis.verdict.summary
        assert certain(diagnosis, "records/s produced") is Certainty.EXACT

    def test_offsets_that_expire_soon_are_told_before(self, scene: Scene) -> None:
        scene.member().close()
        retention_ms = 7 * DAY_MS
        assert scene.diagnosis(later_ms=retention_ms - 2 * DAY_MS).is_well
        diagnosis = scene.diagnosis(later_ms=retention_ms - 7_210_000, window_ms=8 * DAY_MS)
        assert diagnosis.verdict.verdict is GroupVerdict.OFFSETS_EXPIRE
        assert "2 committed offsets will be removed in 2.0 h" in diagnosis.verdict.summary

    def test_nothing_is_well_that_is_not_known(self, scene: Scene) -> None:
        # Given a member that starts at the end, and has committed nothing
        with scene.member(reads=0, commits=False, auto_offset_reset="latest"):
            diagnosis = scene.diagnosis()
        assert diagnosis.verdict.verdict is GroupVerdict.NOT_KNOWN
        assert not diagnosis.is_well
        assert "nothing is committed, so that auto.offset.reset decides" in diagnosis.verdict.summary
