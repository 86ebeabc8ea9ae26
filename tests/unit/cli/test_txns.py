"""`klamm txns`, against a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.client.admin.model import NewTopic

_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {
        "transaction.state.log.num.partitions": "2",
        "transaction.partition.verification.enable": "false",  # so that a transaction can be made to hang
    }
    with klamm.Broker(settings=settings) as broker:
        yield broker.bootstrap


class Scene:
    """A topic of two partitions, and a producer with a transaction open on the first."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self.bootstrap = bootstrap
        self.topic, self.id = f"orders-{number}", f"billing-{number}"
        with klamm.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(self.topic, 2)]).unwrap()
        self.producer = klamm.Producer(bootstrap_servers=bootstrap, transactional_id=self.id)
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.producer.send(self.topic, b"v", partition=0).result(30)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["txns", *arguments, "--bootstrap", self.bootstrap])

    def says(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))

    def refuses(self, *arguments: str, exit_code: int) -> str:
        done = self.run(*arguments)
        assert done.exit_code == exit_code, (done.output, done.exception)
        assert done.stderr.startswith("klamm: "), done.stderr
        return done.stderr

    def hang(self) -> int:
        """Leave a transaction on partition 1 that no coordinator knows; where it begins."""
        place = klamm.TopicPartition(self.topic, 1)
        ghost = klamm.OpenTransaction("ghost", 4_000_000, 0, 1, {}, frozenset({place}))
        with klamm.Producer(bootstrap_servers=self.bootstrap, transactional_id="ghost") as producer:
            producer.resume_transaction(ghost)
            offset = producer.send(self.topic, b"v", partition=1).result(30).offset
            producer.hand_over_transaction()  # so that closing does not abort it
        return offset


@pytest.fixture
def scene(bootstrap: str) -> Iterator[Scene]:
    made = Scene(bootstrap, next(_numbers))
    yield made
    made.producer.close()


def test_listing_shows_ids_with_state_and_producer(scene: Scene) -> None:
    lines = scene.says("list").splitlines()
    assert lines[0].split()[:6] == ["TRANSACTIONAL", "ID", "STATE", "PRODUCER", "ID", "COORDINATOR"]
    assert [line.split()[:2] for line in lines if scene.id in line.split()] == [[scene.id, "Ongoing"]]


def test_listing_shows_since_when_where_and_which_groups_are_held_back(scene: Scene) -> None:
    group, place = f"readers-{scene.id}", klamm.TopicPartition(scene.topic, 0)
    with klamm.Admin(bootstrap_servers=scene.bootstrap) as admin:
        admin.alter_group_offsets(group, {place: 0}).unwrap()
    (found,) = scene.json("list", "--pattern", scene.id)
    assert found["open_ms"] >= 0
    assert (found["partitions"], found["holds_back"]) == ([str(place)], [group])
    (line,) = [line for line in scene.says("list").splitlines() if line.split()[0] == scene.id]
    assert line.endswith(group)
    scene.producer.commit_transaction()
    (found,) = scene.json("list", "--pattern", scene.id)
    assert (found["open_ms"], found["partitions"], found["holds_back"]) == (None, None, None)


def test_listing_filters_by_state_pattern_producer_and_duration(scene: Scene) -> None:
    (found,) = scene.json("list", "--pattern", scene.id)
    assert found["state"] == "Ongoing"
    (again,) = scene.json("list", "--producer-id", str(found["producer_id"]))
    assert again | {"open_ms": 0} == found | {"open_ms": 0}
    assert scene.json("list", "--pattern", scene.id, "--state", "CompleteCommit") == []
    assert scene.json("list", "--pattern", scene.id, "--longer-than", "3600") == []
    assert (
        scene.says("list", "--pattern", "nosuch")
        == "No transactional ids that this user may see and that match.\n"
    )


def test_a_state_that_does_not_exist_is_answered_with_those_that_do(scene: Scene) -> None:
    assert "PrepareCommit" in scene.refuses("list", "--state", "Open", exit_code=2)


def test_describing_shows_partitions_and_how_long_it_is_open(scene: Scene) -> None:
    text = scene.says("describe", scene.id)
    assert f"{scene.id}: Ongoing" in text
    assert "open for" in text
    (described,) = scene.json("describe", scene.id)
    assert described["partitions"] == [{"topic": scene.topic, "partition": 0}]
    assert described["open_ms"] >= 0
    scene.producer.commit_transaction()
    (described,) = scene.json("describe", scene.id)
    assert described["state"] in ("PrepareCommit", "CompleteCommit")


def test_an_unknown_id_is_named_beside_those_that_are_known(scene: Scene) -> None:
    done = scene.run("describe", scene.id, "nosuch")
    assert done.exit_code == 1
    assert f"{scene.id}: Ongoing" in done.stdout
    assert "nosuch" in done.stderr


def test_aborting_an_id_ends_its_transaction_and_fences_its_producer(scene: Scene) -> None:
    assert "is fenced" in scene.says("abort", scene.id)
    assert scene.json("describe", scene.id)[0]["state"] == "Empty"
    with pytest.raises(klamm.ProducerFencedError):
        scene.producer.commit_transaction()


def test_aborting_an_id_shows_its_next_identity_as_json(scene: Scene) -> None:
    (before,) = scene.json("describe", scene.id)
    aborted = scene.json("abort", scene.id)
    assert (aborted["transactional_id"], aborted["producer_id"]) == (scene.id, before["producer_id"])
    assert aborted["producer_epoch"] > before["producer_epoch"]


def test_aborting_a_hanging_transaction_names_its_producer_as_json(scene: Scene) -> None:
    where = ("--topic", scene.topic, "--partition", "1")
    aborted = scene.json("abort", *where, "--start-offset", str(scene.hang()))
    assert aborted == {"topic": scene.topic, "partition": 1, "producer_id": 4_000_000}
    assert scene.json("hanging", *where, "--older-than", "0") == []


def test_a_transaction_with_a_coordinator_does_not_hang_and_still_holds_back_readers(scene: Scene) -> None:
    said = scene.says("hanging", "--topic", scene.topic, "--older-than", "0")
    assert said.startswith("No hanging transactions on 2 partition(s).\n")
    assert "1 other open transaction(s) hold back readers with isolation.level=read_committed" in said
    (row,) = [line for line in said.splitlines() if line.startswith(f"{scene.topic} ")]
    assert scene.id in row
    assert row.endswith("its coordinator will end it")
    scene.producer.commit_transaction()
    assert scene.says("hanging", "--topic", scene.topic, "--older-than", "0") == (
        "No hanging transactions on 2 partition(s).\n"
    )


def test_a_transaction_that_hangs_since_a_moment_is_told_with_the_time_that_is_left_out(scene: Scene) -> None:
    scene.hang()
    said = scene.says("hanging", "--topic", scene.topic, "--partition", "1")
    assert said.startswith("No hanging transactions")
    assert "idle for less than 15 min: --older-than 0 includes it" in said


def test_a_hanging_transaction_is_found_and_ended_by_a_marker(scene: Scene) -> None:
    offset = scene.hang()
    where = ("--topic", scene.topic, "--partition", "1")
    assert scene.says("hanging", *where).startswith("No hanging")  # written to a moment ago
    (found,) = scene.json("hanging", "--topic", scene.topic, "--older-than", "0")
    assert (found["partition"], found["start_offset"], found["producer_id"]) == (1, offset, 4_000_000)
    assert found["transactional_id"] is None
    assert "4000000" in scene.says("hanging", *where, "--older-than", "0")
    wrong = scene.refuses("abort", *where, "--start-offset", "77", exit_code=1)
    assert f"open transactions begin at: {offset}" in wrong
    assert "Aborted the transaction of producer 4000000" in scene.says(
        "abort", *where, "--start-offset", str(offset)
    )
    assert scene.says("hanging", *where, "--older-than", "0").startswith("No hanging")


@pytest.mark.parametrize(
    "arguments",
    [(), ("x", "--topic", "t"), ("--topic", "t"), ("--topic", "t", "--partition", "0")],
)
def test_aborting_wants_an_id_or_a_place(scene: Scene, arguments: tuple[str, ...]) -> None:
    assert "expected ID, or --topic" in scene.refuses("abort", *arguments, exit_code=2)


def test_a_partition_needs_its_topic_and_must_exist(scene: Scene) -> None:
    assert "--partition needs --topic" in scene.refuses("hanging", "--partition", "0", exit_code=2)
    assert "no 9" in scene.refuses("hanging", "--topic", scene.topic, "--partition", "9", exit_code=1)


@pytest.mark.parametrize("command", ["list", "describe", "hanging", "abort"])
def test_help_has_an_example(command: str) -> None:
    assert f"klamm txns {command}" in CliRunner().invoke(app, ["txns", command, "--help"]).stdout


def test_a_topic_shows_where_an_open_transaction_holds_back_its_readers(scene: Scene) -> None:
    done = CliRunner().invoke(app, ["topics", "describe", scene.topic, "--json", "-b", scene.bootstrap])
    first, second = json.loads(done.stdout)[0]["partitions"]
    assert (first["start_offset"], first["last_stable_offset"], first["end_offset"]) == (0, 0, 1)
    assert (second["last_stable_offset"], second["end_offset"]) == (0, 0)
    shown = CliRunner().invoke(app, ["topics", "describe", scene.topic, "-b", scene.bootstrap]).stdout
    assert "LAST STABLE  HIGH WATERMARK" in shown


def test_the_inside_of_a_transaction_is_shown(scene: Scene) -> None:
    found = scene.json("inspect", scene.id)
    assert (found["state"], found["partitions"]) == ("Ongoing", [f"{scene.topic}-0"])
    assert 0 < found["left_ms"] <= found["timeout_ms"] == 60_000
    assert found["log"].startswith("__transaction_state-")
    assert found["client_host"] == "/127.0.0.1"
    assert found["is_durable"] is True
    shown = scene.says("inspect", scene.id)
    assert shown.startswith(f"{scene.id}: Ongoing for ")
    assert "time-out 1.0 min" in shown
    scene.producer.abort_transaction()
    assert scene.json("inspect", scene.id)["open_ms"] is None
    assert "there is no such transactional id" in scene.refuses("inspect", "nobody", exit_code=1)
