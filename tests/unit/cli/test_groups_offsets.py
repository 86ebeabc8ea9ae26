"""`klamm groups` and `klamm offsets`, against a broker in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli import list_groups
from klamm.cli.app import app
from klamm.cli.exit_codes import NEEDS_ATTENTION
from klamm.cli.offset_plans import parse_datetime, parse_duration
from klamm.client.admin.model import CommittedOffset, NewTopic
from klamm.client.diagnosis.lag import lags_of, unreachable
from klamm.groups.lag import LagStatus
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
            {
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
        (mine,) = [item for item in listed if item["group"] == scene.group]
        assert mine | {"committed_per_s": None} == {
            "group": scene.group,
            "state": "Stable",
            "protocol_type": "consumer",
            "type": "classic",
            "members": 1,
            "lag": 0,
            "known_lag": 0,
            "oldest_unread_ms": None,
            "committed_per_s": None,
            "verdict": "all is well",
        }
        (line,) = [each for each in scene.says("groups", "list").splitlines() if each.startswith(scene.group)]
        assert line.split()[:5] == [scene.group, "Stable", "classic", "1", "0"]
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
    with klamm.Consumer(scene.topic, settings) as consumer:
        while not consumer.assignment():
            consumer.poll(0.1)
        (described,) = scene.json("groups", "describe", scene.group)
        assert (described["lag"], described["lag_limit"]) == (None, 20)
        assert [row["lag"] for row in described["partitions"]] == [None, None]
        assert "lag unknown: 0 to 20, not known on 2 partition(s)" in scene.says(
            "groups", "describe", scene.group
        )
        # When one of the two partitions has a committed offset, then the other is still not counted as read
        consumer.commit_sync({klamm.TopicPartition(scene.topic, 0): 4})
        (described,) = scene.json("groups", "describe", scene.group)
        assert (described["lag"], described["known_lag"], described["lag_limit"]) == (None, 6, 16)
        shown = scene.says("groups", "describe", scene.group)
        assert "lag unknown: 6 to 16, not known on 1 partition(s)" in shown
        assert "nothing committed" in shown


def test_partitions_that_nobody_owns_yet_are_shown_with_what_is_unread(scene: Scene) -> None:
    # Given a member that has read all of two partitions, and does not know yet that there are four
    with scene.member(metadata_max_age_ms=600_000):
        scene.says("topics", "alter", scene.topic, "--partitions", "4")
        with klamm.Producer(bootstrap_servers=scene.bootstrap) as producer:
            for number in (2, 2, 2, 3):
                producer.send(scene.topic, b"v", partition=number)
            producer.flush(30)
        # Then the new ones are rows, and their records are no part of a lag of 0
        (described,) = scene.json("groups", "describe", scene.group)
        rows = described["partitions"]
        assert [(row["end"], row["lag"], row["lag_status"]) for row in rows] == [
            (10, 0, "known"),
            (10, 0, "known"),
            (3, None, "nothing committed"),
            (1, None, "nothing committed"),
        ]
        assert [row["member"] is None for row in rows] == [False, False, True, True]
        assert (described["lag"], described["lag_limit"]) == (None, 4)
        assert scene.says("groups", "describe", scene.group).count("nobody") == 2
    # Nor are they left out when the member is gone
    (described,) = scene.json("groups", "describe", scene.group)
    assert (described["state"], described["lag"], described["lag_limit"]) == ("Empty", None, 4)


def test_an_offset_outside_of_the_log_is_out_of_range_in_both_directions(scene: Scene) -> None:
    scene.commit(2, 50)
    scene.says("topics", "trim", f"{scene.topic}:0", "--before", "5")
    (described,) = scene.json("groups", "describe", scene.group)
    assert [(row["start"], row["end"], row["lag"], row["lag_status"]) for row in described["partitions"]] == [
        (5, 10, None, "before start"),
        (0, 10, None, "beyond end"),
    ]
    assert (described["lag"], described["lag_limit"]) == (None, 15)
    shown = scene.says("groups", "describe", scene.group)
    assert "OUT OF RANGE (before start)" in shown
    assert "OUT OF RANGE (beyond end)" in shown


def test_a_topic_that_is_deleted_is_a_row_without_a_log(scene: Scene) -> None:
    scene.commit(4, 4)
    with klamm.Admin(bootstrap_servers=scene.bootstrap) as admin:
        keys = [klamm.TopicPartition(scene.topic, number) for number in range(2)]
        group = admin.describe_groups([scene.group])[scene.group]
        admin.delete_topics([scene.topic])
        lag = lags_of(admin, [group])[0]
    # The broker removes such offsets itself, a little later or at once
    assert {row.status for row in lag.partitions} <= {LagStatus.LOG_UNKNOWN}
    assert {row.partition for row in lag.partitions} <= set(keys)
    assert unreachable([lag]) == {}
    assert lag.total.lag is None


def test_the_progress_of_a_sink_is_not_a_lag(scene: Scene) -> None:
    # Given a query that writes the topic exactly once: its last batch is an offset of the group `<id>.sink`
    sink = f"{scene.group}.sink"
    with klamm.Admin(bootstrap_servers=scene.bootstrap) as admin:
        place = klamm.TopicPartition(scene.topic, 0)
        admin.alter_group_offsets(sink, {place: CommittedOffset(3, -1, "v1;a-query")})
    (described,) = scene.json("groups", "describe", sink)
    assert [(row["lag"], row["lag_status"]) for row in described["partitions"]] == [(None, "sink")]
    assert (described["lag"], described["known_lag"]) == (None, 0)
    assert "decisions of an exactly-once sink: no lag" in scene.says("groups", "describe", sink)


def test_owners_are_not_known_during_a_rebalance(scene: Scene) -> None:
    # Given a group that waits for a member which does not join
    member = scene.member(max_poll_interval_ms=120_000)
    with joining(scene), member:
        wait_until(lambda: scene.json("groups", "list", "--state", "PreparingRebalance"))
        (described,) = scene.json("groups", "describe", scene.group)
        assert described["state"] == "PreparingRebalance"
        assert (described["owners_known"], described["lag"], described["known_lag"]) == (False, None, 0)
        shown = scene.says("groups", "describe", scene.group)
        assert "lag unknown: not all that it reads is known, 0 on partitions with a committed offset" in shown
        assert "nobody" not in shown


@contextmanager
def joining(scene: Scene) -> Iterator[None]:
    """A second consumer that joins the group, on a thread of its own, until the end of the block."""
    is_over = threading.Event()

    def run() -> None:
        settings = {"bootstrap.servers": scene.bootstrap, "group.id": scene.group}
        with klamm.Consumer(scene.topic, settings) as consumer:
            while not is_over.is_set():
                consumer.poll(0.1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(60)


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


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_group_that_does_not_exist_is_not_explained(scene: Scene, how: tuple[str, ...]) -> None:
    with scene.member():
        scene.story("rebalance_completed")
    assert "group nobody does not exist" in scene.refuses("groups", "explain", "nobody", *how, exit_code=1)
    # A group that has committed and never had members exists
    quiet = f"{scene.group}-quiet"
    with klamm.Admin(bootstrap_servers=scene.bootstrap) as admin:
        admin.alter_group_offsets(quiet, {klamm.TopicPartition(scene.topic, 0): 3})
    assert f"No events recorded for group {quiet}." in scene.says("groups", "explain", quiet)


def test_a_story_that_does_not_come_is_not_waited_for_without_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.member():
        scene.story("rebalance_completed")
    # As if the broker were frozen between the question for the end and the reading.
    monkeypatch.setattr(klamm.Consumer, "poll", lambda _consumer, _timeout: [])
    refused = scene.refuses("groups", "explain", scene.group, "--timeout", "5", exit_code=1)
    assert "the cluster gave no events for 5 s" in refused


def test_a_list_is_repeated_until_it_is_interrupted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.commit(4, 10)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(list_groups, "sleep", pause)
    done = scene.run("groups", "list", "--state", "Empty", "--watch", "2.5")
    assert pauses == [2.5, 2.5, 2.5]
    assert done.stdout.count("VERDICT") == 3
    assert done.stdout.count(f"{scene.group} ") == 3
    assert "nobody reads" in done.stdout


def test_an_explanation_begins_with_the_root_cause_and_knows_what_is_under_way(scene: Scene) -> None:
    busy = scene.member(max_poll_interval_ms=120_000, client_id="busy")
    with joining(scene), busy:
        wait_until(
            lambda: "A rebalance has been under way" in scene.run("groups", "explain", scene.group).stdout
        )
        told = scene.says("groups", "explain", scene.group)
    assert told.splitlines()[2].startswith("  A rebalance has been under way")
    assert "waits for busy at 127.0.0.1 to join again" in told
    assert "is busy: it sends heartbeats" in told
    assert "Root cause" not in told, "it began when a member came: what matters is whom it waits for"
    assert scene.story(ends_with="group_emptied")
    explained = scene.says("groups", "explain", scene.group)
    assert "Root cause: a member left" in explained
    assert max(map(len, explained.splitlines())) <= 110


def test_a_record_that_ends_its_readers_is_the_root_cause(scene: Scene) -> None:
    # Given a program that dies of the same record each time, and is started again
    for _ in range(3):
        with klamm.Consumer(
            scene.topic,
            bootstrap_servers=scene.bootstrap,
            group_id=scene.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as dying:
            while not dying.assignment():
                dying.poll(0.1)
            dying.commit({klamm.TopicPartition(scene.topic, 0): 3, klamm.TopicPartition(scene.topic, 1): 10})
    told = wait_until(
        lambda: next(
            (
                said
                for said in [scene.run("groups", "explain", scene.group).stdout]
                if "stands at offset 3" in said
            ),
            "",
        )
    )
    assert told
    assert told.splitlines()[2].startswith(f"  {scene.topic}-0 stands at offset 3")
    assert f"--topic {scene.topic}:0 --to-offset 4" in told
    assert "Root cause: a member left" not in told


def test_the_inside_of_a_living_group_is_shown(scene: Scene) -> None:
    with scene.member(client_id="worker"):
        found = scene.json("groups", "inspect", scene.group)
        (member,) = found["members"]
        assert (found["state"], found["generation"], member["client_id"]) == ("Stable", 1, "worker")
        assert member["protocols"][0]["topics"] == [scene.topic]
        assert member["assignment"] == [f"{scene.topic}-0", f"{scene.topic}-1"]
        assert {item["offset"] for item in found["offsets"]} == {10}
        shown = scene.says("groups", "inspect", scene.group)
        assert f"{scene.group}: classic group, Stable for " in shown
        assert "log __consumer_offsets-" in shown
        assert f"{member['member_id']} (leader)" in shown
    assert "group nobody" in scene.refuses("groups", "inspect", "nobody", exit_code=1)


def test_a_trace_shows_the_requests_of_a_group_as_they_come(scene: Scene) -> None:
    with klamm.Admin(bootstrap_servers=scene.bootstrap) as admin:
        read = partial(admin._operations._trace_groups, [scene.group])
        read(after=-1).result()
        with scene.member(client_id="worker", heartbeat_interval_ms=50):
            entries = read(after=0).result()[scene.group]["entries"]
            traced = scene.says("groups", "trace", scene.group, "--for", "0.5", "--as", "text")
            quiet = scene.says(
                "groups", "trace", scene.group, "--for", "0.5", "--as", "json", "--no-heartbeats"
            )
            # Each look has --timeout, not all together
            drawn = scene.says("groups", "trace", scene.group, "--for", "1.5", "--timeout", "0.7")
    asked = [each["api"] for each in entries if each["kind"] == "request" and each["api"] != "Heartbeat"]
    assert asked == ["FindCoordinator", "JoinGroup", "JoinGroup", "SyncGroup", "OffsetCommit"]
    joins = [each["error"] for each in entries if each["kind"] == "answer" and each["api"] == "JoinGroup"]
    assert joins == ["MEMBER_ID_REQUIRED", "NONE"]
    assert {each["client_id"] for each in entries if each["kind"] == "request"} == {"worker"}
    assert any(each["kind"] == "event" and each["type"] == "rebalance_completed" for each in entries)
    assert "worker → Heartbeat generation=1  [Stable]" in traced
    assert quiet == ""
    assert drawn.splitlines()[0].split() == ["coordinator", "worker"]
    scene.refuses("groups", "trace", scene.group, "--for", "0", exit_code=2)
    scene.refuses("groups", "trace", scene.group, "--follow", "--as", "mermaid", exit_code=2)


def test_a_diagnosis_is_text_json_and_an_exit_code(scene: Scene) -> None:
    with scene.member():
        assert scene.says("groups", "diagnose", scene.group).startswith(f"{scene.group}: ALL IS WELL")
        scene.run("topics", "alter", scene.topic, "--partitions", "3")
        done = scene.run("groups", "diagnose", scene.group)
        assert done.exit_code == NEEDS_ATTENTION, (done.output, done.exception)
        assert f"{scene.group}: PARTITIONS WITHOUT OWNER" in done.stdout
        assert "     exact  " in done.stdout or "  inferred  " in done.stdout
        told = json.loads(scene.run("groups", "diagnose", scene.group, "--json").stdout)
    assert [(each["group"], each["verdict"], each["is_well"]) for each in told] == [
        (scene.group, "partitions without owner", False)
    ]
    done = scene.run("groups", "diagnose", "nobody")
    assert done.exit_code == 1
    assert "klamm: group nobody does not exist: `klamm groups list` shows those that do" in done.stderr
    every = scene.run("groups", "diagnose", "--json")
    assert scene.group in {each["group"] for each in json.loads(every.stdout)}


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


@pytest.mark.parametrize(
    ("target", "note"),
    [
        (["--to-offset", "999"], "the end: 999 is beyond the end"),
        (["--shift-by", "100"], "the end: 104 is beyond the end"),
        (["--shift-by", "-100"], "the start: -96 is before the start"),
        (["--to-datetime", "2030-01-01T00:00:00Z"], "the end: no record is that late"),
        (["--to-current"], None),
        (["--to-offset", "7"], None),
    ],
)
def test_a_target_that_the_log_does_not_have_is_not_changed_in_silence(
    scene: Scene, target: list[str], note: str | None
) -> None:
    scene.commit(4)
    arguments = ("offsets", "reset", scene.group, "--topic", f"{scene.topic}:0", *target)
    assert [row["note"] for row in scene.json(*arguments)] == [note]
    shown = scene.says(*arguments)
    assert (note or "") in shown
    assert ("NOTE" in shown) == (note is not None)


def test_an_import_says_which_offsets_are_out_of_range(scene: Scene) -> None:
    lines = f"{scene.topic},0,10\n{scene.topic},1,11\n"
    shown = scene.says("offsets", "import", scene.group, "-", stdin=lines)
    assert shown.count("OUT OF RANGE") == 1
    assert shown.splitlines()[-1].endswith("OUT OF RANGE: beyond the end, 10")


@pytest.mark.parametrize(
    "arguments",
    [("show",), ("export",), ("reset", "--all-topics", "--to-latest")],
)
def test_offsets_of_a_group_that_does_not_exist_are_an_error(
    scene: Scene, arguments: tuple[str, ...]
) -> None:
    name, *more = arguments
    refused = scene.refuses("offsets", name, "nobody", *more, exit_code=1)
    assert "group nobody does not exist" in refused


def test_a_reset_that_makes_a_new_group_says_so(scene: Scene) -> None:
    done = scene.run("offsets", "reset", f"{scene.group}-new", "--topic", scene.topic, "--to-latest")
    assert done.exit_code == 0
    assert f"group {scene.group}-new does not exist: --execute creates it with these offsets" in done.stderr
    scene.commit(4)
    assert (
        "does not exist"
        not in scene.run("offsets", "reset", scene.group, "--topic", scene.topic, "--to-latest").stderr
    )


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
    assert "does not exist" in scene.refuses("offsets", "show", copy, exit_code=1)
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
