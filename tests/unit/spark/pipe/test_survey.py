"""`klamm pipe check`: what a job finds on its cluster, and what keeps it from running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.pipe import app
from klamm.client.admin.model import CommittedOffset
from klamm.groups.sinks import MARK
from klamm.protocol.types import TopicPartition
from klamm.registry.server import RegistryServer
from klamm.spark.pipe.failures import NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.job import Job, job_of, load_job
from klamm.spark.pipe.record import read_record, record_of, write_record
from klamm.spark.pipe.resuming import ReadCluster
from klamm.spark.pipe.survey import missing_at_start, survey
from klamm.spark.write.decisions import sink_group
from unit.spark.world import World

PATIENCE_S = 30.0


class Checked:
    """A job from one topic to another, and a place for its checkpoint."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.origin, self.target = world.topic(2), world.topic(3)
        self.checkpoint = folder / "checkpoint"
        self.name = f"{self.origin}-job"

    def job(self, source: dict[str, Any] | None = None, **tables: Any) -> Job:
        tree = {
            "name": self.name,
            "bootstrap": self.world.bootstrap,
            "checkpoint": str(self.checkpoint),
            "source": {"topics": self.origin, **(source or {})},
            "sink": {"topic": self.target},
            **tables,
        }
        return job_of(tree, name=self.name)

    def ran_to(self, batch_id: int, *ends: int, is_done: bool = True) -> None:
        """What Spark writes into a checkpoint."""
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "commits").mkdir(exist_ok=True)
        (self.checkpoint / "metadata").write_text('{"id":"q1"}')
        offsets = {self.origin: {str(number): end for number, end in enumerate(ends)}}
        initial = {"$initial": {self.origin: {"0": 0, "1": 0}}} if batch_id == 0 else {}
        text = f"v1\n{{}}\n{json.dumps({**initial, **offsets})}"
        (self.checkpoint / "offsets" / str(batch_id)).write_text(text)
        if is_done:
            (self.checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")

    def at(self, *offsets: int) -> dict[TopicPartition, int]:
        return {TopicPartition(self.origin, number): offset for number, offset in enumerate(offsets)}


@pytest.fixture
def checked(world: World, tmp_path: Path) -> Checked:
    return Checked(world, tmp_path)


def test_a_job_that_has_not_run(checked: Checked) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    found = survey(checked.job(), timeout_s=PATIENCE_S)
    assert found.broker_count == 1
    assert found.partition_counts == {checked.origin: 2, checked.target: 3}
    assert found.checkpoint is None
    assert found.start == checked.at(0, 0)
    assert found.unread_count == 5
    assert found.committed == {}
    assert found.creates == (
        f"checkpoint {checked.checkpoint}",
        f"transactional id {checked.name}",
        f"group {checked.name}",
        f"group {checked.name}.sink",
    )
    assert (found.warnings, found.problems) == ((), ())


def test_a_job_that_continues(checked: Checked) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0)
    checked.ran_to(1, 3, 0)
    checked.world.admin.alter_group_offsets(checked.name, checked.at(3, 0)).unwrap()
    found = survey(checked.job(delivery="at-least-once"), timeout_s=PATIENCE_S)
    assert found.checkpoint is not None
    assert (found.checkpoint.batch_id, found.checkpoint.is_done) == (1, True)
    assert found.start == checked.at(3, 0)
    assert found.unread_count == 2
    assert found.committed == checked.at(3, 0)
    assert found.creates == ()
    assert (found.warnings, found.problems) == ((), ())


@pytest.mark.parametrize(("batch_id", "start"), [(0, (0, 0)), (1, (2, 0))])
def test_a_batch_that_was_begun_is_run_again(checked: Checked, batch_id: int, start: tuple[int, int]) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0, is_done=batch_id > 0)
    if batch_id:
        checked.ran_to(1, 4, 0, is_done=False)
    found = survey(checked.job(), timeout_s=PATIENCE_S)
    assert found.checkpoint is not None
    assert not found.checkpoint.is_done
    assert found.start == checked.at(*start)


def test_topics_that_do_not_exist_are_named(checked: Checked) -> None:
    json_source = {"format": "json", "schema": "a long", "dead_letters": "no-such-letters"}
    job = checked.job(json_source, sink={"topic": "no-such-topic"})
    found = survey(job, timeout_s=PATIENCE_S)
    assert [text.partition(":")[0] for text in found.problems] == [
        "topic no-such-topic does not exist",
        "topic no-such-letters does not exist",
    ]
    assert missing_at_start(job, timeout_s=PATIENCE_S) == list(found.problems)
    assert not {"no-such-topic", "no-such-letters"} & set(checked.world.admin.list_topics())


def test_offsets_that_are_gone_are_named(checked: Checked) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 1, 7)
    checked.world.admin.delete_records({TopicPartition(checked.origin, 0): 3})
    found = survey(checked.job(), timeout_s=PATIENCE_S)
    first, second = found.problems
    assert first.startswith(
        f"{checked.origin}-0: the checkpoint continues at offset 1, and the log has offsets 3"
    )
    assert second.startswith(f"{checked.origin}-1: the checkpoint continues at offset 7")
    lossy = survey(checked.job({"options": {"failOnDataLoss": False}}), timeout_s=PATIENCE_S)
    assert (lossy.warnings, lossy.problems) == (found.problems, ())


def test_a_lost_checkpoint_is_noticed_by_the_offsets_of_the_group(checked: Checked) -> None:
    checked.world.admin.alter_group_offsets(checked.name, checked.at(3, 0)).unwrap()
    (warning,) = survey(checked.job(), timeout_s=PATIENCE_S).warnings
    assert "there is no checkpoint" in warning
    assert 'source.start = "group" continues there' in warning
    assert survey(checked.job({"start": "group"}), timeout_s=PATIENCE_S).warnings == ()


def test_a_run_that_is_active_is_noticed(checked: Checked) -> None:
    with klamm.Producer(bootstrap_servers=checked.world.bootstrap, transactional_id=checked.name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(checked.target, b"x").result(PATIENCE_S)
            (warning,) = survey(checked.job(), timeout_s=PATIENCE_S).warnings
    assert f"transactional id {checked.name} has an open transaction" in warning


def test_a_group_that_consumers_use_is_a_problem(checked: Checked) -> None:
    with klamm.Consumer(bootstrap_servers=checked.world.bootstrap, group_id=checked.name) as consumer:
        consumer.subscribe([checked.origin])
        while not consumer.assignment():
            consumer.poll(0.05)
        (problem,) = survey(checked.job(), timeout_s=PATIENCE_S).problems
    assert problem.startswith(f"group {checked.name} has 1 member(s)")


def written(checked: Checked, folder: Path, **changes: str) -> Path:
    path = folder / "job.toml"
    names = {"bootstrap": checked.world.bootstrap, "target": checked.target, **changes}
    path.write_text(
        f'bootstrap = "{names["bootstrap"]}"\ncheckpoint = "{checked.checkpoint}"\n'
        f'[source]\ntopics = ["{checked.origin}"]\n[sink]\ntopic = "{names["target"]}"\n'
    )
    return path


def test_the_command_prints_what_it_finds(checked: Checked, tmp_path: Path) -> None:
    checked.world.fill(checked.origin, [b"x"] * 1_200)
    seen = CliRunner().invoke(app, ["check", str(written(checked, tmp_path))])
    assert seen.exit_code == 0, seen.output
    for text in (
        f"topic        {checked.origin}: 2 partitions",
        f"topic        {checked.target}: 3 partitions",
        "progress     none: there is no checkpoint",
        "group        job has committed nothing",
        "would read   1,200 offsets now",
        f"would create checkpoint {checked.checkpoint}, transactional id job, group job, group job.sink",
    ):
        assert text in seen.output


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_topic_that_is_missing_ends_the_command_with_1(
    checked: Checked, tmp_path: Path, command: str
) -> None:
    seen = CliRunner().invoke(app, [command, str(written(checked, tmp_path, target="no-such-topic"))])
    assert seen.exit_code == 1
    assert "topic no-such-topic does not exist: create it first" in seen.output


def test_a_cluster_that_does_not_answer_ends_the_check_in_time(checked: Checked, tmp_path: Path) -> None:
    path = written(checked, tmp_path, bootstrap="127.0.0.1:1")
    seen = CliRunner().invoke(app, ["check", "--timeout", "0.5", str(path)])
    assert seen.exit_code == 1
    assert "no bootstrap server can be reached: 127.0.0.1:1" in seen.output
    assert CliRunner().invoke(app, ["check", "--offline", str(path)]).exit_code == 0


def test_a_registry_that_does_not_answer_or_has_no_such_schema_is_found_without_spark(
    checked: Checked, tmp_path: Path
) -> None:
    path = written(checked, tmp_path)
    text = path.read_text().replace("[sink]", 'format = "avro"\n[sink]')
    path.write_text(f'schema_registry = "http://127.0.0.1:1"\n{text}')
    seen = CliRunner().invoke(app, ["check", str(path)])
    assert seen.exit_code == 1, seen.output
    assert "problem      the schema registry did not answer GET http://127.0.0.1:1/subjects" in seen.output
    assert CliRunner().invoke(app, ["run", str(path)]).exit_code == 1
    with RegistryServer({"bootstrap.servers": checked.world.bootstrap}) as registry:
        path.write_text(f'schema_registry = "{registry.url}"\n{text}')
        seen = CliRunner().invoke(app, ["run", str(path)])
    assert seen.exit_code == 2
    assert f"the schema registry has no subject {checked.origin}-value" in seen.output


def test_the_checkpoint_beside_the_job_is_compared_with_it(checked: Checked, tmp_path: Path) -> None:
    path = written(checked, tmp_path)
    checked.ran_to(1, 0, 0)
    write_record(str(checked.checkpoint), record_of(load_job(path)))
    path.write_text(f'delivery = "at-least-once"\n{path.read_text()}')
    seen = CliRunner().invoke(app, ["check", str(path)])
    assert seen.exit_code == 0, seen.output
    assert "changed      delivery: goes on, with records twice after a failure" in seen.output
    was = replace(record_of(load_job(path)), cluster_id="elsewhere")
    write_record(str(checked.checkpoint), was)
    refused = CliRunner().invoke(app, ["check", str(path)])
    assert refused.exit_code == NEEDS_CHECKPOINT
    assert (
        "changed      bootstrap: needs a new checkpoint: its offsets are those of cluster" in refused.output
    )
    assert f"next         klamm pipe migrate {path}" in refused.output


def test_a_checkpoint_that_is_cut_in_half_is_a_problem(checked: Checked, tmp_path: Path) -> None:
    checked.ran_to(1, 0, 0)
    offsets = checked.checkpoint / "offsets" / "1"
    offsets.write_text(offsets.read_text()[:-10])
    seen = CliRunner().invoke(app, ["check", str(written(checked, tmp_path))])
    assert seen.exit_code == NEEDS_CHECKPOINT
    assert "offsets/1 is damaged" in seen.output
    with pytest.raises(JobFailedError, match=r"offsets/1 is damaged.*klamm pipe migrate") as failed:
        ReadCluster(checked.job()).resumed()
    assert failed.value.exit_code == NEEDS_CHECKPOINT


def test_a_new_checkpoint_starts_where_the_old_one_stopped(checked: Checked, tmp_path: Path) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(0, 2, 0)
    checked.ran_to(1, 4, 0, is_done=False)  # and nothing says that it was committed
    path = written(checked, tmp_path).rename(tmp_path / f"{checked.name}.toml")
    made = CliRunner().invoke(app, ["migrate", str(path)])
    assert made.exit_code == 0, made.output
    assert f"the first batch starts at {checked.origin}-0 at 2, {checked.origin}-1 at 0" in made.output
    assert f"old one      {checked.checkpoint}.1" in made.output
    assert (tmp_path / "checkpoint.1" / "offsets" / "1").exists()
    seen = CliRunner().invoke(app, ["check", str(path)])
    assert seen.exit_code == 0, seen.output
    assert "would read   3 offsets now" in seen.output
    again = CliRunner().invoke(app, ["migrate", str(path)])
    assert again.exit_code == 0, again.output
    assert f"the first batch starts at {checked.origin}-0 at 2" in again.output
    assert "it has no batch yet, and nothing was changed" in again.output


def test_a_new_checkpoint_starts_at_the_offsets_of_the_group_if_the_old_one_is_gone(
    checked: Checked, tmp_path: Path
) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    path = written(checked, tmp_path).rename(tmp_path / f"{checked.name}.toml")
    nothing = CliRunner().invoke(app, ["migrate", str(path)])
    assert nothing.exit_code == 1
    assert f"to go on from, and group {checked.name} has no offsets" in nothing.output
    checked.world.admin.alter_group_offsets(checked.name, checked.at(3, 0)).unwrap()
    made = CliRunner().invoke(app, ["migrate", str(path)])
    assert made.exit_code == 0, made.output
    assert f"starts at {checked.origin}-0 at 3, {checked.origin}-1 at 0" in made.output
    assert f"taken from   the offsets that group {checked.name} has committed" in made.output


def test_sources_that_ended_at_different_offsets_go_on_without_loss(checked: Checked, tmp_path: Path) -> None:
    checked.world.fill(checked.origin, [b"x"] * 9)
    checked.ran_to(1, 4, 0)
    offsets = checked.checkpoint / "offsets" / "1"
    further = [json.dumps({checked.origin: {"0": end, "1": 0}}) for end in (7, 6)]
    offsets.write_text("\n".join([offsets.read_text(), *further]))
    path = written(checked, tmp_path).rename(tmp_path / f"{checked.name}.toml")
    tables = {"format": "json", "schema": "a long", "dead_letters": checked.target}
    write_record(str(checked.checkpoint), record_of(checked.job(tables)))
    made = CliRunner().invoke(app, ["migrate", str(path)])
    assert made.exit_code == 0, made.output
    # The transform has read its input twice, up to 4 and up to 7.
    assert f"the first batch starts at {checked.origin}-0 at 4" in made.output
    assert "repeats      3 offsets at most: what was written of them is written again" in made.output
    record = read_record(str(checked.checkpoint))
    assert record is not None
    assert record.dead_start == checked.at(6, 0)


def test_a_damaged_checkpoint_of_a_migrated_job_is_replaced_by_the_offsets_of_the_group(
    checked: Checked, tmp_path: Path
) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    path = written(checked, tmp_path).rename(tmp_path / f"{checked.name}.toml")
    record = replace(record_of(load_job(path)), start=checked.at(1, 0))
    checked.ran_to(0, 2, 0)
    write_record(str(checked.checkpoint), record)
    (checked.checkpoint / "offsets" / "0").write_text("v1\n")
    checked.world.admin.alter_group_offsets(checked.name, checked.at(2, 0)).unwrap()
    made = CliRunner().invoke(app, ["migrate", str(path)])
    assert made.exit_code == 0, made.output
    assert f"starts at {checked.origin}-0 at 2, {checked.origin}-1 at 0" in made.output
    assert (tmp_path / "checkpoint.1" / "offsets" / "0").exists()


def test_a_checkpoint_from_a_backup_is_replaced_by_the_offsets_of_the_group(
    checked: Checked, tmp_path: Path
) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    path = written(checked, tmp_path).rename(tmp_path / f"{checked.name}.toml")
    checked.ran_to(3, 2, 0)
    write_record(str(checked.checkpoint), record_of(load_job(path)))
    decision = {TopicPartition(checked.target, 0): CommittedOffset(5, -1, f"{MARK}q1")}
    checked.world.admin.alter_group_offsets(sink_group(checked.name), decision).unwrap()
    checked.world.admin.alter_group_offsets(checked.name, checked.at(4, 0)).unwrap()
    seen = CliRunner().invoke(app, ["check", str(path)])
    assert seen.exit_code == NEEDS_CHECKPOINT, seen.output
    assert "batch 5 is written, and the checkpoint ends with batch 3" in seen.output
    made = CliRunner().invoke(app, ["migrate", str(path)])
    assert made.exit_code == 0, made.output
    assert f"starts at {checked.origin}-0 at 4, {checked.origin}-1 at 0" in made.output


def test_a_checkpoint_of_the_official_connector_is_adopted(checked: Checked, tmp_path: Path) -> None:
    checked.world.fill(checked.origin, [b"x"] * 5)
    checked.ran_to(3, 4, 0)
    checked.checkpoint.rename(tmp_path / "theirs")
    path = written(checked, tmp_path)
    made = CliRunner().invoke(app, ["adopt", str(tmp_path / "theirs"), str(path)])
    assert made.exit_code == 0, made.output
    assert f"starts at {checked.origin}-0 at 4, {checked.origin}-1 at 0" in made.output
    assert (tmp_path / "theirs" / "offsets" / "3").exists()
    wrong = CliRunner().invoke(app, ["adopt", str(tmp_path), str(path)])
    assert wrong.exit_code == 1
    assert "is not a checkpoint of a query" in wrong.output
