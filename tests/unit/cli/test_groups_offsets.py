"""`klamm groups` and `klamm offsets`, against a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.cli.offset_plans import parse_datetime, parse_duration
from klamm.client.admin.model import NewTopic
from klamm.testing import wait_until

START_MS = 1_700_000_000_000

_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    # A record of 2023 is not to be gone before it is looked at.
    settings = {"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
    with klamm.Broker(settings=settings) as broker:
        yield broker.bootstrap


class Scene:
    """A topic of two partitions with ten records each, a second apart, and a group to read it."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self.bootstrap = bootstrap
        self.topic, self.group = f"orders-{number}", f"billing-{number}"
        with klamm.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(self.topic, 2)]).unwrap()
        with klamm.Producer(bootstrap_servers=bootstrap) as producer:
            for partition in range(2):
                for n in range(10):
                    producer.send(self.topic, b"v", partition=partition, timestamp_ms=START_MS + n * 1_000)
            producer.flush(30)

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, [*arguments, "--bootstrap", self.bootstrap], input=stdin)

    def says(self, *arguments: str, stdin: str | None = None) -> str:
        """What a command prints when it goes well."""
        done = self.run(*arguments, stdin=stdin)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))

    def refuses(self, *arguments: str, exit_code: int) -> str:
        """What a command says that cannot be done; never a traceback."""
        done = self.run(*arguments)
        assert done.exit_code == exit_code, (done.output, done.exception)
        assert done.stderr.startswith("klamm: "), done.stderr
        return done.stderr

    def story(self, ends_with: str) -> list[Any]:
        """The group's events, once this one is among them: they are written when there is time."""

        def events() -> list[Any]:
            done = self.run("groups", "explain", self.group, "--json")
            found = json.loads(done.stdout) if done.exit_code == 0 else []
            return found if any(event["type"] == ends_with for event in found) else []

        return wait_until(events, describe=lambda: self.run("groups", "explain", self.group).output)

    def commit(self, *offsets: int) -> None:
        lines = "".join(f"{self.topic},{number},{offset}\n" for number, offset in enumerate(offsets))
        self.says("offsets", "import", self.group, "-", "--execute", stdin=lines)

    def offsets(self) -> dict[int, int]:
        shown = self.json("offsets", "show", self.group)
        return {row["partition"]: row["offset"] for row in shown if row["topic"] == self.topic}

    def member(self, **settings: Any) -> klamm.Consumer:
        """A consumer that has joined the group and read everything."""
        consumer = klamm.Consumer(
            self.topic,
            config={
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )
        read = 0
        while read < 20:
            read += len(consumer.poll(30))
        consumer.commit_sync()
        return consumer


@pytest.fixture
def scene(bootstrap: str) -> Scene:
    return Scene(bootstrap, next(_numbers))


# --- groups ------------------------------------------------------------------------------------------


def test_a_group_at_work_is_listed_described_and_its_members_named(scene: Scene) -> None:
    with scene.member(client_id="worker", group_instance_id="worker-1"):
        listed = scene.json("groups", "list", "--state", "Stable")
        assert {
            "group": scene.group,
            "state": "Stable",
            "protocol_type": "consumer",
            "type": "classic",
        } in listed
        (described,) = scene.json("groups", "describe", scene.group)
        assert (described["state"], described["assignor"], described["members"], described["lag"]) == (
            "Stable",
            "range",
            1,
            0,
        )
        assert [
            (row["topic"], row["partition"], row["committed"], row["end"], row["lag"], row["client"])
            for row in described["partitions"]
        ] == [(scene.topic, number, 10, 10, 0, "worker") for number in range(2)]
        (member,) = scene.json("groups", "members", scene.group)
        assert (member["instance"], member["client"], member["subscribed"], member["assigned"]) == (
            "worker-1",
            "worker",
            [scene.topic],
            [f"{scene.topic}-0", f"{scene.topic}-1"],
        )
        table = scene.says("groups", "describe", scene.group)
        assert f"{scene.group}: Stable  1 member(s)  assignor range" in table
        assert scene.says("groups", "members", scene.group).count("worker-1") >= 1


def test_the_lag_is_what_is_written_and_not_committed(scene: Scene) -> None:
    scene.commit(4, 10)
    (described,) = scene.json("groups", "describe", scene.group)
    assert [(row["committed"], row["end"], row["lag"]) for row in described["partitions"]] == [
        (4, 10, 6),
        (10, 10, 0),
    ]
    assert described["lag"] == 6
    assert scene.group in {item["group"] for item in scene.json("groups", "describe", "--all")}


def test_a_lag_that_is_not_known_is_not_shown_as_zero(scene: Scene) -> None:
    # Given a member that has read nothing and committed nothing, because it starts at the end
    settings = {"bootstrap.servers": scene.bootstrap, "group.id": scene.group, "enable.auto.commit": False}
    with klamm.Consumer(scene.topic, config=settings) as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        (described,) = scene.json("groups", "describe", scene.group)
        assert described["lag"] is None
        assert [row["lag"] for row in described["partitions"]] == [None, None]
        assert "lag unknown" in scene.says("groups", "describe", scene.group)
        # When one of the two partitions has a committed offset, then the other is still not counted as read
        consumer.commit_sync({klamm.TopicPartition(scene.topic, 0): 4})
        (described,) = scene.json("groups", "describe", scene.group)
        assert described["lag"] == 6
        shown = scene.says("groups", "describe", scene.group)
        assert "lag 6 + 1 partition(s) without a committed offset" in shown


def test_groups_that_are_not_there_are_named_and_the_others_shown(scene: Scene) -> None:
    scene.commit(1, 1)
    done = scene.run("groups", "describe", scene.group, "nobody")
    assert done.exit_code == 1
    assert scene.group in done.stdout
    assert "nobody" in done.stderr
    assert "nobody" in scene.refuses("groups", "members", "nobody", exit_code=1)
    assert "no group given" in scene.refuses("groups", "describe", exit_code=2)
    assert "No groups in this state" in scene.says("groups", "list", "--state", "Dead")


def test_a_group_is_deleted_when_nobody_is_in_it(scene: Scene) -> None:
    with scene.member():
        assert "the group has members: stop them first" in scene.refuses(
            "groups", "delete", scene.group, exit_code=1
        )
    assert f"{scene.group} deleted" in scene.says("groups", "delete", scene.group)
    assert scene.group not in scene.says("groups", "list")


def test_members_are_removed_by_instance_by_id_or_all(scene: Scene) -> None:
    assert "no member given" in scene.refuses("groups", "remove-member", scene.group, exit_code=2)
    with scene.member(group_instance_id="worker-1"):
        removed = scene.says(
            "groups", "remove-member", scene.group, "--instance", "worker-1", "--reason", "moves"
        )
        assert removed == "worker-1 removed\n"
        assert scene.says("groups", "members", scene.group) == f"{scene.group}: Empty, no members\n"
        assert "has no members" in scene.says("groups", "remove-member", scene.group, "--all")
    scene.story("group_emptied")
    assert "moves" in scene.says("groups", "explain", scene.group)


def test_the_story_of_a_group_names_its_members_whole(scene: Scene) -> None:
    with scene.member(client_id="a-client-with-a-long-name-and-many-hyphens-in-it"):
        (member,) = scene.json("groups", "members", scene.group)
        events = scene.story("rebalance_completed")
        told = scene.says("groups", "explain", scene.group)
    assert member["member"] in told, "an id that is broken into two lines cannot be copied"
    assert "a member joined" in told
    assert [event["type"] for event in events] == ["rebalance_started", "rebalance_completed"]
    assert "No events recorded for group nobody." in scene.says("groups", "explain", "nobody")


def test_a_story_that_does_not_come_is_not_waited_for_without_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.member():
        scene.story("rebalance_completed")
    # As if the broker were frozen between the question for the end and the reading.
    monkeypatch.setattr(klamm.Consumer, "poll", lambda _consumer, _timeout: [])
    refused = scene.refuses("groups", "explain", scene.group, "--timeout", "5", exit_code=1)
    assert "gave no events for 5 s" in refused


# --- offsets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], (0, 0)),
        (["--to-latest"], (10, 10)),
        (["--to-current"], (4, 7)),
        (["--to-offset", "5"], (5, 5)),
        (["--to-offset", "500"], (10, 10)),
        (["--shift-by", "2"], (6, 9)),
        (["--shift-by", "-5"], (0, 2)),
        (["--to-datetime", "2023-11-14T22:13:22.500"], (3, 3)),
        (["--to-datetime", "2023-11-14T23:13:22.500+01:00"], (3, 3)),
        (["--to-datetime", "2030-01-01T00:00:00Z"], (10, 10)),
        (["--by-duration", "PT1S"], (10, 10)),
        (["--by-duration", "P100000D"], (0, 0)),
    ],
)
def test_offsets_are_moved_when_it_is_said_so_and_shown_before(
    scene: Scene, target: list[str], expected: tuple[int, int]
) -> None:
    scene.commit(4, 7)
    plan = scene.json("offsets", "reset", scene.group, "--topic", scene.topic, *target)
    assert [(row["from"], row["to"]) for row in plan] == [(4, expected[0]), (7, expected[1])]
    assert scene.offsets() == {0: 4, 1: 7}, "nothing is done yet"
    scene.says("offsets", "reset", scene.group, "--all-topics", *target, "--execute")
    assert scene.offsets() == dict(enumerate(expected))


def test_one_partition_is_moved_and_the_other_stays(scene: Scene) -> None:
    scene.commit(4, 7)
    scene.says("offsets", "reset", scene.group, "--topic", f"{scene.topic}:1", "--to-earliest", "--execute")
    assert scene.offsets() == {0: 4, 1: 0}


def test_what_was_never_committed_stays_at_the_end_and_cannot_be_shifted(scene: Scene) -> None:
    scene.commit(4)
    of_topic = ("--topic", scene.topic)
    plan = scene.json("offsets", "reset", scene.group, *of_topic, "--to-current")
    assert [(row["from"], row["to"]) for row in plan] == [(4, 4), (None, 10)]
    refused = scene.refuses("offsets", "reset", scene.group, *of_topic, "--shift-by", "1", exit_code=1)
    assert f"no committed offset for {scene.topic}-1" in refused


def test_offsets_go_out_and_come_in_for_another_group(scene: Scene, tmp_path: Path) -> None:
    scene.commit(4, 7)
    exported = scene.says("offsets", "export", scene.group)
    assert exported == f"{scene.topic},0,4\n{scene.topic},1,7\n"
    assert (
        scene.says("offsets", "export", scene.group, "--topic", f"{scene.topic}:1") == f"{scene.topic},1,7\n"
    )
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    copy = f"{scene.group}-copy"
    scene.says("offsets", "import", copy, str(file))
    assert "has no committed offsets" in scene.says("offsets", "show", copy)
    scene.says("offsets", "reset", copy, "--from-file", str(file), "--execute")
    assert scene.says("offsets", "export", copy) == exported


def test_offsets_of_a_partition_and_of_a_topic_are_deleted(scene: Scene) -> None:
    scene.commit(4, 7)
    assert scene.says("offsets", "delete", scene.group, f"{scene.topic}:1") == f"{scene.topic}-1 deleted\n"
    assert scene.offsets() == {0: 4}
    scene.commit(4, 7)
    scene.says("offsets", "delete", scene.group, scene.topic)
    assert scene.offsets() == {}


def test_offsets_of_a_group_at_work_are_left_alone(scene: Scene) -> None:
    with scene.member():
        reset = ("offsets", "reset", scene.group, "--topic", scene.topic, "--to-earliest", "--execute")
        assert "1 member(s): stop them" in scene.refuses(*reset, exit_code=1)
        refused = scene.refuses("offsets", "delete", scene.group, scene.topic, exit_code=1)
        assert "a member is subscribed to it" in refused
        assert scene.offsets() == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reset", "g", "--topic", "t"], "exactly one of --to-earliest"),
        (["reset", "g", "--topic", "t", "--to-latest", "--to-earliest"], "exactly one of --to-earliest"),
        (["reset", "g", "--to-latest"], "--topic TOPIC, or --all-topics"),
        (["reset", "g", "--topic", "t", "--all-topics", "--to-latest"], "--topic TOPIC, or --all-topics"),
        (["reset", "g", "--topic", "t", "--to-datetime", "tomorrow"], "tomorrow: expected a time"),
        (["reset", "g", "--topic", "t", "--by-duration", "2h"], "2h: expected a duration"),
        (["show", "g", "--topic", "t:x"], "t:x: expected TOPIC or TOPIC:0,1"),
        (["export", "g", "--topic", ":1"], ":1: expected TOPIC or TOPIC:0,1"),
        (["delete", "g", "t:1,"], "t:1,: expected TOPIC or TOPIC:0,1"),
        (["import", "g", "no-such-file.csv"], "cannot read no-such-file.csv"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(scene: Scene, arguments: list[str], says: str) -> None:
    assert says in scene.refuses("offsets", *arguments, exit_code=2)


def test_a_file_with_a_bad_line_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    scene.commit(4, 7)
    file = tmp_path / "offsets.csv"
    file.write_text(f"{scene.topic},0,1\n{scene.topic},one,2\n")
    refused = scene.refuses("offsets", "import", scene.group, str(file), "--execute", exit_code=2)
    assert "line 2: expected topic,partition,offset" in refused
    assert scene.offsets() == {0: 4, 1: 7}


def test_a_topic_that_is_not_there_is_named(scene: Scene) -> None:
    refused = scene.refuses("offsets", "reset", scene.group, "--topic", "nowhere", "--to-latest", exit_code=1)
    assert "nowhere" in refused


def test_a_cluster_that_does_not_answer_is_named() -> None:
    arguments = ["groups", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "0.2"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.stderr


def test_durations_and_times_are_read_as_iso_8601_has_them() -> None:
    assert parse_duration("P1DT2H30M0.5S") == ((24 + 2) * 3600 + 1800) * 1000 + 500
    assert parse_duration("p2w") == 14 * 86_400_000
    assert parse_duration("-PT1H") == -3_600_000, "an hour from now"
    assert parse_datetime("2023-11-14T22:13:20") == START_MS
    assert parse_datetime("2023-11-15T00:13:20+02:00") == START_MS
