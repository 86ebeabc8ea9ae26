"""`klamm pipe migrate`, `adopt` and `redrive`, killed at any step: done again, they are done once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from klamm.cli.pipe import app
from klamm.spark.pipe.job import Job, load_job
from klamm.spark.pipe.notes import NAME as NOTES
from klamm.spark.pipe.record import read_record
from klamm.spark.pipe.replacing import end_replacement
from klamm.spark.pipe.resuming import ReadCluster
from unit.spark.pipe.killing import ADOPT, MIGRATE, REDRIVE, killed_at
from unit.spark.pipe.test_redriving import Letters
from unit.spark.pipe.test_survey import Checked, written
from unit.spark.world import World


@pytest.fixture
def checked(world: World, tmp_path: Path) -> Checked:
    return Checked(world, tmp_path)


@pytest.fixture
def letters(world: World, tmp_path: Path) -> Letters:
    return Letters(world, tmp_path)


def run(*arguments: str | Path) -> str:
    seen = CliRunner().invoke(app, [str(item) for item in arguments])
    assert seen.exit_code == 0, seen.output
    return seen.output


def filed(checked: Checked, folder: Path) -> Path:
    """The job's file; its name is that of the job, which no other test uses."""
    return written(checked, folder).rename(folder / f"{checked.name}.toml")


def starts(job: Job) -> dict[str, int]:
    """Where a run would begin, by its topic's partitions, with the folders as they are."""
    end_replacement(job.checkpoint)
    found = json.loads(ReadCluster(job).resumed().start)
    assert isinstance(found, dict)
    (offsets,) = found.values()
    return dict(offsets)


@pytest.mark.parametrize("place", MIGRATE)
def test_a_migration_that_was_killed_is_done_again(checked: Checked, tmp_path: Path, place: str) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0)
    path = filed(checked, tmp_path)
    killed_at(place, "migrate", path)
    # Between the two a person looks at it, which changes nothing.
    run("check", path)
    run("status", path)
    said = run("migrate", path)
    assert f"the first batch starts at {checked.origin}-0 at 2, {checked.origin}-1 at 0" in said
    assert starts(load_job(path)) == {"0": 2, "1": 0}
    kept = [item.name for item in tmp_path.glob("checkpoint*")]
    assert sorted(kept) == ["checkpoint", "checkpoint.1"]
    assert (tmp_path / "checkpoint.1" / "offsets" / "0").exists()


@pytest.mark.parametrize("place", ["old one aside", "in place"])
def test_a_run_after_a_migration_that_was_killed_begins_where_that_says(
    checked: Checked, tmp_path: Path, place: str
) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0)
    path = filed(checked, tmp_path)
    killed_at(place, "migrate", path)
    assert "would read   3 offsets now" in run("check", path)
    # A run that knew nothing of it would leave notes, and read everything again.
    checked.checkpoint.mkdir(exist_ok=True)
    (checked.checkpoint / NOTES).write_text("{}")
    assert starts(load_job(path)) == {"0": 2, "1": 0}


def test_the_old_checkpoint_is_in_use_until_it_is_put_aside(checked: Checked, tmp_path: Path) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0)
    path = filed(checked, tmp_path)
    killed_at("draft written", "migrate", path)
    checked.ran_to(1, 4, 0)  # the job went on as it was
    assert not end_replacement(str(checked.checkpoint))
    assert f"the first batch starts at {checked.origin}-0 at 4" in run("migrate", path)


@pytest.mark.parametrize("place", ADOPT)
def test_an_adoption_that_was_killed_is_done_again(checked: Checked, tmp_path: Path, place: str) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(3, 4, 0)
    theirs = checked.checkpoint.rename(tmp_path / "theirs")
    path = filed(checked, tmp_path)
    killed_at(place, "adopt", theirs, path)
    run("adopt", theirs, path)
    assert starts(load_job(path)) == {"0": 4, "1": 0}
    record = read_record(str(checked.checkpoint))
    assert record is not None
    assert record.start is not None
    assert not (tmp_path / "checkpoint.1").exists()


@pytest.mark.parametrize("place", REDRIVE)
def test_letters_are_put_back_once_by_a_redrive_that_was_killed(letters: Letters, place: str) -> None:
    for number in range(3):
        letters.letter(b"%d" % number, number)
    killed_at(place, "redrive", letters.path)
    count = 0 if place == "committed" else 3
    assert letters.redrive() == f"put back {count} of {count} dead letters of {letters.dead}"
    assert sorted(letters.back()) == [(1, b"0"), (1, b"1"), (1, b"2")]
    assert letters.redrive() == f"put back 0 of 0 dead letters of {letters.dead}"
