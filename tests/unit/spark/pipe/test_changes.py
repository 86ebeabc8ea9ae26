"""What becomes of a checkpoint when its job changes, and how the checkpoint is fitted to the job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.protocol.types import TopicPartition
from klamm.spark.pipe.changes import ChangeVerdict, changes
from klamm.spark.pipe.checkpoints import Checkpoint, CheckpointError, read_checkpoint
from klamm.spark.pipe.failures import NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.fitting import check_fits, fit
from klamm.spark.pipe.job import Job, job_of
from klamm.spark.pipe.plan import PlanFacts
from klamm.spark.pipe.record import read_record, record_of, write_record

TREE: dict[str, Any] = {
    "source": {"topics": "orders", "format": "json", "schema": "product string, cents long"},
    "transform": {"sql": "SELECT product FROM input"},
    "sink": {"topic": "revenue"},
}
SUM = PlanFacts(1, ("Aggregate [product], [product, sum(cents)] [string, bigint]",))
COUNT = PlanFacts(1, ("Aggregate [product], [product, count(1)] [string, bigint]",))
PLAIN = PlanFacts(1, ())


def a_job(**changed: dict[str, Any] | str) -> Job:
    tree = {key: {**value} if isinstance(value, dict) else value for key, value in TREE.items()}
    for name, value in changed.items():
        tree[name] = {**tree.get(name, {}), **value} if isinstance(value, dict) else value
    return job_of(tree, name="j")


def a_checkpoint(*, has_state: bool = False, is_done: bool = True) -> Checkpoint:
    at = {TopicPartition("orders", 0): 7}
    return Checkpoint(
        query_id="q", batch_id=3, is_done=is_done, next_offsets=at, end_offsets=at, has_state=has_state
    )


def said(
    now: Job, *, plans: tuple[PlanFacts | None, PlanFacts | None] = (PLAIN, PLAIN), **state: bool
) -> list[str]:
    was = record_of(a_job(), cluster_id="c1", plan=plans[0])
    found = changes(was, record_of(now, cluster_id="c1", plan=plans[1]), a_checkpoint(**state))
    return [f"{change.setting}: {change.verdict.value}" for change in found]


def test_a_job_that_is_as_it_was_has_no_changes() -> None:
    assert said(a_job()) == []


@pytest.mark.parametrize(
    ("changed", "setting", "verdict"),
    [
        ({"source": {"dead_letters": "dead"}}, "source.dead_letters", ChangeVerdict.GOES_ON_WITH),
        ({"source": {"topics": ["orders", "returns"]}}, "source.topics", ChangeVerdict.GOES_ON_WITH),
        ({"source": {"topics": ["returns"]}}, "source.topics", ChangeVerdict.NEEDS_CHECKPOINT),
        ({"source": {"schema": "product string"}}, "source.schema", ChangeVerdict.GOES_ON_WITH),
        ({"source": {"start": "latest"}}, "source.start", ChangeVerdict.GOES_ON_WITH),
        ({"source": {"max_per_batch": 5}}, "source.max_per_batch", ChangeVerdict.GOES_ON),
        ({"transform": {"sql": "SELECT cents FROM input"}}, "transform.sql", ChangeVerdict.GOES_ON_WITH),
        ({"sink": {"topic": "sums"}}, "sink.topic", ChangeVerdict.GOES_ON_WITH),
        ({"sink": {"key": "product"}}, "sink.key", ChangeVerdict.GOES_ON_WITH),
        ({"name": "other"}, "name", ChangeVerdict.GOES_ON_WITH),
        ({"delivery": "at-least-once"}, "delivery", ChangeVerdict.GOES_ON_WITH),
        ({"trigger": "once"}, "trigger", ChangeVerdict.GOES_ON),
    ],
)
def test_a_change_of_a_job_without_state_has_a_verdict(
    changed: dict[str, Any], setting: str, verdict: ChangeVerdict
) -> None:
    assert said(a_job(**changed)) == [f"{setting}: {verdict.value}"]


@pytest.mark.parametrize(
    ("plans", "verdict"),
    [
        ((SUM, SUM), ChangeVerdict.GOES_ON_WITH),
        ((SUM, COUNT), ChangeVerdict.NEEDS_CHECKPOINT),
        ((SUM, PLAIN), ChangeVerdict.NEEDS_CHECKPOINT),
        ((SUM, PlanFacts(2, SUM.state)), ChangeVerdict.NEEDS_CHECKPOINT),
        ((SUM, None), ChangeVerdict.NOT_KNOWN),
    ],
)
def test_state_is_kept_where_the_plan_keeps_the_same(
    plans: tuple[PlanFacts | None, PlanFacts | None], verdict: ChangeVerdict
) -> None:
    now = a_job(transform={"sql": "SELECT other FROM input"})
    assert said(now, plans=plans, has_state=True) == [f"transform.sql: {verdict.value}"]


def test_state_that_begins_needs_a_new_checkpoint() -> None:
    now = a_job(transform={"sql": "SELECT other FROM input"})
    assert f"transform: {ChangeVerdict.NEEDS_CHECKPOINT.value}" in said(now, plans=(PLAIN, SUM))


def test_a_batch_that_has_not_ended_belongs_to_its_transactional_id() -> None:
    assert said(a_job(name="other"), is_done=False) == [f"name: {ChangeVerdict.NEEDS_CHECKPOINT.value}"]


def test_another_cluster_has_other_offsets() -> None:
    was, now = (record_of(a_job(), cluster_id=name) for name in ("c1", "c2"))
    (change,) = changes(was, now, a_checkpoint())
    assert str(change).startswith("bootstrap: needs a new checkpoint: its offsets are those of cluster c1")


def test_state_of_a_newer_spark_is_not_read_by_an_older_one() -> None:
    now = record_of(a_job())
    was = replace(now, spark="99.1.0")
    assert [item.needs_checkpoint for item in changes(was, now, a_checkpoint(has_state=True))] == [True]
    assert [item.needs_checkpoint for item in changes(was, now, a_checkpoint())] == [False]


# The files of a checkpoint.


class Kept:
    """A checkpoint as Spark leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoint"
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "metadata").write_text('{"id":"q1"}')

    def batch(self, number: int, *sources: dict[str, Any], is_done: bool = True) -> None:
        lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, sources)]
        (self.folder / "offsets" / str(number)).write_text("\n".join(lines))
        (self.folder / "offsets" / f".{number}.crc").write_text("of before")
        if is_done:
            (self.folder / "commits" / str(number)).write_text("v1\n{}")

    def sources(self, number: int) -> list[Any]:
        return [
            json.loads(line) for line in (self.folder / "offsets" / str(number)).read_text().split("\n")[2:]
        ]

    def fitted(self, job: Job, count: int, firsts: dict[TopicPartition, int] | None = None) -> list[str]:
        found = check_fits(job, record_of(job))
        return fit(job, found, source_count=count, firsts=firsts or {})


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def on(kept: Kept, **changed: dict[str, Any] | str) -> Job:
    return a_job(checkpoint=str(kept.folder), **changed)


def test_dead_letters_are_read_from_where_the_job_is(kept: Kept) -> None:
    kept.batch(4, {"orders": {"0": 5}})
    kept.batch(5, {"orders": {"0": 9}}, is_done=False)
    with_letters = on(kept, source={"dead_letters": "dead"})
    assert kept.fitted(with_letters, 2) == ["dead letters are read from where the job is, for dead"]
    assert kept.sources(4) == [{"orders": {"0": 5}}] * 2
    assert kept.sources(5) == [{"orders": {"0": 9}}] * 2
    assert not (kept.folder / "offsets" / ".5.crc").exists()  # Spark would compare it
    # A crash between the two files leaves nothing that a second try does not mend; a third changes nothing.
    kept.batch(5, {"orders": {"0": 9}}, is_done=False)
    assert kept.fitted(with_letters, 2) != []
    assert kept.fitted(with_letters, 2) == []
    assert kept.fitted(on(kept), 1) == ["dead letters are not read any more"]
    assert kept.sources(5) == [{"orders": {"0": 9}}]


def test_dead_letters_are_not_dropped_while_they_are_behind(kept: Kept) -> None:
    kept.batch(5, {"orders": {"0": 9}}, {"orders": {"0": 8}})
    with pytest.raises(JobFailedError, match="has not reached offset 9 of orders-0") as failed:
        kept.fitted(on(kept), 1)
    assert failed.value.exit_code == NEEDS_CHECKPOINT
    assert len(kept.sources(5)) == 2


def test_topics_come_with_their_first_record_and_go_with_what_is_unread(kept: Kept) -> None:
    kept.batch(0, {"$initial": {"orders": {"0": 2}}, "orders": {"0": 5}}, is_done=False)
    firsts = {TopicPartition("orders", 0): 1, TopicPartition("returns", 0): 3}
    kept.fitted(on(kept, source={"topics": ["orders", "returns"]}), 1, firsts)
    assert kept.sources(0) == [
        {"$initial": {"orders": {"0": 2}, "returns": {"0": 3}}, "orders": {"0": 5}, "returns": {"0": 3}}
    ]
    kept.fitted(on(kept, source={"topics": ["returns"]}), 1, firsts)
    assert kept.sources(0) == [{"$initial": {"returns": {"0": 3}}, "returns": {"0": 3}}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is damaged"),
        ("v1\n{}", "is damaged"),
        ('v1\n{}\n{"orders": {"0": ', "is damaged, or not of a query that reads topics"),
        ('v9\n{}\n{"orders": {"0": 5}}', "has format v9, only v1 is known"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_ends_the_job_with_its_own_code(
    kept: Kept, text: str, reason: str
) -> None:
    (kept.folder / "offsets" / "5").write_text(text)
    with pytest.raises(JobFailedError, match=reason) as failed:
        kept.fitted(on(kept), 1)
    assert failed.value.exit_code == NEEDS_CHECKPOINT
    assert "klamm pipe migrate" in str(failed.value)


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("offsets/5", r"batch 5 has ended, and offsets/5 is missing"),
        ("offsets", r"batch 5 has ended, and offsets/5 is missing"),
        ("metadata", r"it has batches, and no metadata"),
    ],
)
def test_a_checkpoint_without_a_part_is_not_taken_for_another_one(kept: Kept, lost: str, reason: str) -> None:
    kept.batch(4, {"orders": {"0": 5}})
    kept.batch(5, {"orders": {"0": 9}})
    gone = kept.folder / lost
    for file in [gone] if gone.is_file() else gone.iterdir():
        file.unlink()
    with pytest.raises(JobFailedError, match=reason) as failed:
        kept.fitted(on(kept), 1)
    assert failed.value.exit_code == NEEDS_CHECKPOINT


def test_a_batch_without_the_one_before_has_no_start(kept: Kept) -> None:
    kept.batch(5, {"orders": {"0": 9}}, is_done=False)
    with pytest.raises(JobFailedError, match="batch 5 starts where offsets/4 ends, which is missing"):
        kept.fitted(on(kept), 1)


def test_a_checkpoint_of_another_job_is_refused(kept: Kept) -> None:
    kept.batch(5, {"payments": {"0": 9}})
    write_record(str(kept.folder), record_of(on(kept, source={"topics": "payments"})))
    with pytest.raises(JobFailedError, match="it is of a job that reads payments"):
        kept.fitted(on(kept), 1)


def test_two_sources_of_a_topic_have_read_up_to_where_both_are(kept: Kept) -> None:
    kept.batch(5, {"orders": {"0": 9, "1": 4}}, {"orders": {"0": 8, "1": 6}})
    found = read_checkpoint(str(kept.folder))
    assert found is not None
    assert found.next_offsets == {TopicPartition("orders", 0): 8, TopicPartition("orders", 1): 4}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    at = {TopicPartition("orders", 0): 7}
    record = replace(record_of(a_job(), cluster_id="c", plan=SUM), start=at, dead_start=at)
    write_record(str(tmp_path), record)
    assert read_record(str(tmp_path)) == record


def test_a_record_of_a_newer_klamm_is_refused(kept: Kept) -> None:
    kept.batch(5, {"orders": {"0": 9}})
    (kept.folder / "klamm-job.json").write_text('{"format": 99, "klamm": "9.0"}')
    with pytest.raises(JobFailedError, match=r"written by klamm 9\.0, which is newer"):
        kept.fitted(on(kept), 1)
    (kept.folder / "klamm-job.json").write_text('{"format": 1')
    with pytest.raises(JobFailedError, match="cannot be read"):
        kept.fitted(on(kept), 1)


def test_a_checkpoint_of_the_official_connector_that_has_not_ended_its_first_batch(kept: Kept) -> None:
    kept.batch(0, {"orders": {"0": 9}}, is_done=False)
    with pytest.raises(CheckpointError, match="its start is not known"):
        read_checkpoint(str(kept.folder))
    (kept.folder / "sources" / "0").mkdir(parents=True)
    (kept.folder / "sources" / "0" / "0").write_text('\0v1\n{"orders":{"0":4}}')
    found = read_checkpoint(str(kept.folder))
    assert found is not None
    assert found.next_offsets == {TopicPartition("orders", 0): 4}
