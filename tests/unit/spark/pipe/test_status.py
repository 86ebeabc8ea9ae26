"""How a job stands: its notes beside the checkpoint, and what the cluster tells of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.pipe import app
from klamm.cli.pipe_lines import standing
from klamm.clock import ManualClock
from klamm.protocol.types import TopicPartition
from klamm.spark.pipe.checkpoints import Checkpoint
from klamm.spark.pipe.job import Job, job_of
from klamm.spark.pipe.notes import ENDED, EVERY_MS, NAME, JobNotes, NotesKeeper, read_notes
from klamm.spark.pipe.status import JobStatus, status_of
from unit.spark.world import World

BATCH = {"batch": 0, "rows": 10, "written": 8, "dead_letters": 2}


def job(folder: Path, **tables: Any) -> Job:
    tree = {"checkpoint": str(folder / "c"), "source": {"topics": "a"}, "sink": {"topic": "b"}, **tables}
    return job_of(tree, name="j")


def test_counts_go_on_over_all_runs(tmp_path: Path) -> None:
    clock, told = ManualClock(), list[str]()
    for number in range(3):
        notes = NotesKeeper(job(tmp_path), clock, told.append)
        notes.batch({**BATCH, "batch": number})
        notes.failure("it broke")
        notes.ended(ENDED)
    found = read_notes(str(tmp_path / "c"))
    assert found is not None
    assert (found.batches, found.read, found.written, found.dead_letters) == (3, 30, 24, 6)
    assert (found.failures, found.last_failure, found.last_batch, found.state) == (3, "it broke", 2, "ended")
    assert told == []


def test_a_run_leaves_a_sign_every_few_seconds_and_is_not_slowed_by_it(tmp_path: Path) -> None:
    clock = ManualClock()
    notes = NotesKeeper(job(tmp_path), clock, print)
    seen = []
    for _ in range(4 * EVERY_MS // 200):
        notes.look()
        clock.advance(200)
        found = read_notes(str(tmp_path / "c"))
        assert found is not None
        seen.append(found.updated_ms)
    assert len(set(seen)) == 4


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    told: list[str] = []
    notes = NotesKeeper(job(tmp_path), ManualClock(), told.append)
    notes.look()
    notes.ended(ENDED)
    assert len(told) == 1
    assert "klamm pipe status will not know of this run" in told[0]


def status(notes: JobNotes | None, **changes: Any) -> JobStatus:
    given = {"checkpoint": None, "lag": {}, "oldest_unread_ms": None, "is_oldest_known": True, **changes}
    return JobStatus(notes=notes, **given)


NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("state", "age_s", "said"),
    [
        ("running", 4, "running since 2023-11-14 21:13:20 UTC (here)"),
        ("running", 600, "no sign since 2023-11-14 22:03:20 UTC (10 min ago): it was killed"),
        ("stopped", 7200, "stopped 2 h ago"),
        ("failed", 200_000, "failed 2 d ago"),
    ],
)
def test_since_when_a_job_runs_or_does_not(tmp_path: Path, state: str, age_s: int, said: str) -> None:
    notes = JobNotes(
        since_ms=NOW_MS - 10**9,
        updated_ms=NOW_MS - age_s * 1000,
        state=state,
        run_since_ms=NOW_MS - 3_600_000,
        place="here",
    )
    assert said in standing(job(tmp_path), status(notes), NOW_MS)[1]


def test_batches_that_no_note_has_are_not_passed_over(tmp_path: Path) -> None:
    notes = JobNotes(since_ms=0, updated_ms=0, state="failed", run_since_ms=0, last_batch=4)
    checkpoint = Checkpoint(query_id="q", batch_id=7, is_done=False, next_offsets={}, end_offsets={})
    found = status(notes, checkpoint=checkpoint)
    assert found.uncounted == 2
    assert any("not counted  2 batches" in line for line in standing(job(tmp_path), found, NOW_MS))
    assert status(None, checkpoint=checkpoint).uncounted == 0


def ended_at(folder: Path, topic: str, **ends: int) -> None:
    """A checkpoint of one batch."""
    checkpoint = folder / "c"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"q1"}')
    offsets = {name.removeprefix("p"): end for name, end in ends.items()}
    text = json.dumps({"$initial": {topic: {"0": 0}}, topic: offsets})
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{text}")
    (checkpoint / "commits" / "0").write_text("v1\n{}")


def lines_of(folder: Path, found: JobStatus, name: str) -> list[str]:
    return [line for line in standing(job(folder), found, NOW_MS) if line.startswith(name)]


def test_the_lag_is_told_in_records_and_in_time_while_the_job_is_down(world: World, tmp_path: Path) -> None:
    topic = world.topic(2)
    world.fill(topic, [b"1", b"2", b"3"], timestamps_ms=[NOW_MS, NOW_MS - 60_000, NOW_MS])
    world.fill(topic, [b"4"], partition=1, timestamps_ms=[NOW_MS])
    ended_at(tmp_path, topic, p0=1)  # the other partition is new, and read from its start
    tables = {"bootstrap": world.bootstrap, "source": {"topics": topic}}
    found = status_of(job(tmp_path, **tables), timeout_s=10)
    assert found.lag is not None
    assert (list(found.lag.values()), found.held_back, found.problems) == ([2, 1], 0, ())
    assert (found.oldest_unread_ms, found.is_oldest_known) == (NOW_MS - 60_000, True)
    lines = standing(job(tmp_path), found, NOW_MS)
    assert lines[1] == "state        not known: no run of this job has left a note beside the checkpoint"
    assert "lag          3 offsets in 2 partitions" in lines
    assert lines[-1].startswith("oldest       unread record: 60 s old, of 2023-11-14 22:12:20")


def test_a_lag_that_is_known_in_part_is_at_least_that(tmp_path: Path) -> None:
    lag = {TopicPartition("a", 0): 2, TopicPartition("a", 1): None}
    found = status(None, lag=lag)
    assert lines_of(tmp_path, found, "lag") == ["lag          at least 2 offsets: 1 partition of 2 known"]
    for unknown in ({}, {TopicPartition("a", 0): None}, None):
        assert lines_of(tmp_path, status(None, lag=unknown), "lag") == ["lag          not known"]


def test_a_topic_that_has_shrunk_is_a_problem_and_no_small_lag(world: World, tmp_path: Path) -> None:
    topic = world.topic(2)
    world.fill(topic, [b"1", b"2"])
    world.fill(topic, [b"1", b"2"], partition=1)
    world.admin.delete_records({TopicPartition(topic, 1): 2})
    ended_at(tmp_path, topic, p0=9, p1=1)
    tables = {"bootstrap": world.bootstrap, "source": {"topics": topic}}
    found = status_of(job(tmp_path, **tables), timeout_s=10)
    assert lines_of(tmp_path, found, "lag") == ["lag          not known"]
    assert [text.partition(",")[0] for text in found.problems] == [
        f"{topic}-0: the checkpoint continues at offset 9",
        f"{topic}-1: the checkpoint continues at offset 1",
    ]


def test_records_behind_an_open_transaction_are_told(world: World, tmp_path: Path) -> None:
    topic = world.topic()
    ended_at(tmp_path, topic, p0=0)
    settings = {"bootstrap.servers": world.bootstrap, "transactional.id": f"{topic}-open"}
    with klamm.Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x").result()
        tables = {"bootstrap": world.bootstrap, "source": {"topics": topic}}
        found = status_of(job(tmp_path, **tables), timeout_s=10)
        producer.abort_transaction()
    assert lines_of(tmp_path, found, "lag") == ["lag          0 offsets in 1 partition"]
    (held,) = lines_of(tmp_path, found, "held back")
    assert held.startswith("held back    1 offset behind transactions that are open")


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_known_is_told_when_the_cluster_or_the_checkpoint_does_not_answer(
    tmp_path: Path, cut: bool
) -> None:
    NotesKeeper(job(tmp_path), ManualClock(), print).ended(ENDED)
    ended_at(tmp_path, "a", p0=3)
    if cut:
        (tmp_path / "c" / "offsets" / "0").write_text("v1")
    path = tmp_path / "j.toml"
    path.write_text(
        f'bootstrap = "127.0.0.1:1"\ncheckpoint = "{tmp_path}/c"\n[source]\ntopics = ["a"]\n'
        '[sink]\ntopic = "b"\n'
    )
    told = CliRunner().invoke(app, ["status", str(path), "--timeout", "2"])
    assert told.exit_code == 1, told.output
    assert "state        ended" in told.output
    assert "lag          not known" in told.output
    assert "no bootstrap server can be reached: 127.0.0.1:1" in told.output
    assert ("is damaged" in told.output) == cut
    tree = json.loads(CliRunner().invoke(app, ["status", str(path), "--timeout", "2", "--json"]).stdout)
    assert (tree["lag"], len(tree["problems"])) == (None, 1 + cut)


def test_the_command_prints_it_for_people_and_for_programs(world: World, tmp_path: Path) -> None:
    topic = world.topic()
    path = tmp_path / "job.toml"
    path.write_text(
        f'bootstrap = "{world.bootstrap}"\ncheckpoint = "{tmp_path}/c"\n'
        f'[source]\ntopics = ["{topic}"]\n[sink]\ntopic = "b"\n'
    )
    NotesKeeper(job(tmp_path), ManualClock(), print).ended(ENDED)
    assert (tmp_path / "c" / NAME).exists()
    done = CliRunner().invoke(app, ["status", str(path)])
    assert (done.exit_code, "progress     none" in done.stdout) == (0, True), done.output
    tree = json.loads(CliRunner().invoke(app, ["status", str(path), "--json"]).stdout)
    assert (tree["notes"]["state"], tree["lag"], tree["batch"]) == ("ended", {f"{topic}-0": None}, None)
