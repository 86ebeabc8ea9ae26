"""What klamm's source and sink rest on, asked of Spark itself: run before another Spark is adopted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from klamm.testing import wait_until
from spark.probe import Event, ProbeSource, read_notes


@pytest.fixture(scope="module")
def probe(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(ProbeSource)
    return spark


def start(spark: SparkSession, folder: Path, trigger: dict[str, Any], **options: str) -> StreamingQuery:
    notes = str(folder / "notes")
    writing = (
        spark.readStream.format("probe")
        .options(notes=notes, until="5", **options)
        .load()
        .writeStream.format("probe")
        .options(notes=notes, **options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .queryName("probing")
    )
    triggered: Any = writing.trigger(**trigger)
    query: StreamingQuery = triggered.start()
    return query


def run(spark: SparkSession, folder: Path, **options: str) -> list[Event]:
    """One run up to the end of what there is; what Spark did meanwhile."""
    before = len(read_notes(folder / "notes"))
    start(spark, folder, {"availableNow": True}, **options).awaitTermination()
    return read_notes(folder / "notes")[before:]


@pytest.fixture(scope="module")
def story_folder(probe: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three micro-batches in AvailableNow, on a new checkpoint."""
    folder = tmp_path_factory.mktemp("story")
    run(probe, folder)
    return folder


@pytest.fixture(scope="module")
def story(story_folder: Path) -> list[Event]:
    return read_notes(story_folder / "notes")


@pytest.fixture(scope="module")
def failed(probe: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query whose second batch failed in one of its two tasks."""
    folder = tmp_path_factory.mktemp("failed")
    with pytest.raises(StreamingQueryException):
        run(probe, folder, fail="task:3")
    (folder / "notes").rename(folder / "notes.before")
    return folder


def pids(events: list[Event], *what: str) -> set[int]:
    return {event["pid"] for event in events if event["what"] in what}


def by_task(events: list[Event]) -> dict[tuple[str, str], int]:
    return {(event["batch"], event["partition"]): event["pid"] for event in events}


def of(events: list[Event], what: str) -> list[Event]:
    return [event for event in events if event["what"] == what]


def test_reading_writing_planning_and_committing_are_processes_of_their_own(story: list[Event]) -> None:
    reader = pids(story, "initial", "latest", "report", "partitions", "commit")
    assert len(reader) == 1
    for others in (pids(story, "read"), pids(story, "write"), pids(story, "sink commit")):
        assert others
        assert not reader & others
    assert not pids(story, "sink commit") & pids(story, "write")
    # The two halves of a task do not share a process either; in another task a process may do the other half.
    reads, writes = by_task(of(story, "read")), by_task(of(story, "write"))
    assert reads.keys() == writes.keys()
    assert all(reads[task] != writes[task] for task in reads)


def test_a_stream_reader_is_never_told_to_stop(story: list[Event]) -> None:
    assert not of(story, "stop")


def test_a_batch_goes_through_its_steps_in_this_order(story: list[Event]) -> None:
    second = next(
        index for index, event in enumerate(story) if event["what"] == "latest" and event["start"] == 2
    )
    end = next(
        index for index, event in enumerate(story) if event["what"] == "latest" and event["start"] == 4
    )
    steps = [event["what"] for event in story[second:end]]
    order = ["latest", "report", "commit", "partitions", "read", "write", "sink commit"]
    first_at = [steps.index(what) for what in order]
    assert first_at == sorted(first_at)
    # The sink is planned anew for the batch, after its source.
    assert steps.index("partitions") < steps.index("sink") < steps.index("write")


def test_the_source_is_told_of_a_batch_one_late_and_asked_for_more_at_once(
    story: list[Event],
) -> None:
    assert [event["end"] for event in of(story, "commit")] == [2, 4]  # the last batch ends at 5
    last = story.index(of(story, "sink commit")[-1])
    after = [(event["what"], event.get("start")) for event in story[last + 1 :]]
    assert ("latest", 5) in after


def test_a_single_trigger_asks_no_more_at_its_end(probe: SparkSession, tmp_path: Path) -> None:
    start(probe, tmp_path, {"once": True}).awaitTermination()
    notes = read_notes(tmp_path / "notes")
    last = notes.index(of(notes, "sink commit")[-1])
    assert not of(notes[last:], "latest")


def test_an_idle_query_asks_again_and_again(probe: SparkSession, tmp_path: Path) -> None:
    query = start(probe, tmp_path, {"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        wait_until(
            lambda: len([e for e in of(read_notes(tmp_path / "notes"), "latest") if e["start"] == 5]) > 20,
            "1m",
        )
    finally:
        query.stop()


def test_the_start_is_asked_for_twice_and_again_after_a_first_batch_that_failed(
    probe: SparkSession, tmp_path: Path, story: list[Event]
) -> None:
    assert len(of(story, "initial")) == 2
    with pytest.raises(StreamingQueryException):
        run(probe, tmp_path, fail="task:1")
    (tmp_path / "notes.healed").touch()
    again = run(probe, tmp_path, fail="task:1")
    assert of(again, "initial")
    # Spark has the end of that batch in its log, and its start nowhere.
    assert (again_first := of(again, "partitions")[0])["start"] == 0
    assert again_first["end"] == 2


def test_offsets_are_compared_as_texts(probe: SparkSession, tmp_path: Path) -> None:
    query = start(probe, tmp_path, {"processingTime": "0 seconds"}, shuffles="true")
    try:
        # The same offset in another order is a new one: batches without rows.
        wait_until(lambda: len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))) > 4, "1m")
        texts = {
            path.read_text().splitlines()[-1] for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")
        }
        assert {'{"n": 5, "m": 0}', '{"m": 0, "n": 5}'} <= texts
    finally:
        query.stop()


def test_a_batch_that_failed_is_run_again_with_the_same_name_and_offsets(
    probe: SparkSession, failed: Path
) -> None:
    before = read_notes(failed / "notes.before")
    (failed / "notes.healed").touch()
    after = run(probe, failed, fail="task:3")
    first, again = of(before, "partitions")[-1], of(after, "partitions")[0]
    assert (first["start"], first["end"]) == (again["start"], again["end"]) == (2, 4)
    first_try = [event for event in of(before, "write") if event["batch"] == "1"]
    second_try = [event for event in of(after, "write") if event["batch"] == "1"]
    assert {event["query"] for event in first_try} == {event["query"] for event in second_try}
    assert sorted(event["rows"] for event in second_try) == [[2], [3]]


def test_a_commit_that_fails_is_followed_by_an_abort_with_the_same_messages(
    probe: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(StreamingQueryException):
        run(probe, tmp_path, fail="commit:1")
    notes = read_notes(tmp_path / "notes")
    committed = [event for event in of(notes, "sink commit") if event["batch"] == 1]
    aborted = of(notes, "sink abort")
    assert [event["messages"] for event in aborted] == [event["messages"] for event in committed]
    assert [event["batch"] for event in aborted] == [1]


def test_a_task_that_failed_is_missing_in_the_abort_and_is_not_tried_again_here(failed: Path) -> None:
    notes = read_notes(failed / "notes.before")
    (aborted,) = of(notes, "sink abort")
    assert None in aborted["messages"]
    assert {event["attempt"] for event in of(notes, "write")} == {"0"}


def test_a_task_knows_its_batch_and_its_query(story: list[Event]) -> None:
    for what in ("read", "write"):
        told = of(story, what)
        assert sorted({event["batch"] for event in told}) == ["0", "1", "2"]
        assert len({event["query"] for event in told}) == 1
        assert None not in {event["query"] for event in told}


def test_a_sink_is_told_its_checkpoint_and_its_query(story: list[Event]) -> None:
    for event in of(story, "sink"):
        names = {name.lower() for name in event["options"]}
        assert {"checkpointlocation", "queryname"} <= names


def test_each_batch_plans_with_a_new_sink_and_commits_with_a_copy(story: list[Event]) -> None:
    planned = [event for event in of(story, "sink") if event["is_new"]]
    copies = [event for event in of(story, "sink") if not event["is_new"]]
    assert len(planned) >= 3
    assert len(copies) == 3
    assert pids(copies, "sink") == pids(story, "sink commit")


def test_a_batch_of_another_type_is_refused(probe: SparkSession) -> None:
    assert probe.read.format("probe").option("yields", "int64").load().count() == 1
    with pytest.raises(PySparkException, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        probe.read.format("probe").option("yields", "int32").load().collect()


def test_a_reader_that_could_take_filters_is_refused_unless_spark_is_told(probe: SparkSession) -> None:
    frame = probe.read.format("probe").option("pushes", "true").load().filter("id = 1")
    with pytest.raises(PySparkException, match="filterPushdown"):
        frame.collect()


def test_the_log_of_offsets_is_where_the_sink_will_look_for_it(story_folder: Path) -> None:
    lines = (story_folder / "checkpoint" / "offsets" / "2").read_text().splitlines()
    assert lines[0] == "v1"
    assert json.loads(lines[-1]) == {"n": 5, "m": 0}
