"""`klamm cluster`, `configs`, `health`, `topics`, and what stands before every subcommand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import app
from klamm.client.admin.model import NewTopic
from klamm.testing import wait_until

_numbers = count(1)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with klamm.Broker(settings={"log.retention.ms": "-1"}) as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with three records each, dated at 1, 2 and 3 seconds."""
    name = f"topic-{next(_numbers)}"
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2)]).unwrap()
    with klamm.Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(2):
            for n in range(3):
                producer.send(name, b"v", partition=partition, timestamp_ms=1_000 * (n + 1))
        producer.flush(30)
    return name


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # The command line writes the address that it was given into the environment of its process.
    monkeypatch.setitem(os.environ, "KLAMM_BOOTSTRAP", "127.0.0.1:1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def says(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def facts(*arguments: str) -> Any:
    return json.loads(says(*arguments, "--json"))


def test_the_cluster_and_its_disks_are_described(bootstrap: str, topic: str) -> None:
    described = facts("-b", bootstrap, "cluster", "describe")
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert described["controller"] == broker["broker"]
    assert described["cluster"] in says("-b", bootstrap, "cluster", "describe")
    (directory,) = facts("-b", bootstrap, "cluster", "log-dirs")
    assert directory["partitions"][f"{topic}-0"] > 0
    assert directory["path"] in says("-b", bootstrap, "cluster", "log-dirs")
    assert isinstance(facts("-b", bootstrap, "cluster", "features"), dict)


def test_a_cluster_of_one_broker_is_balanced_and_says_what_it_leads(bootstrap: str, topic: str) -> None:
    (broker,) = facts("-b", bootstrap, "cluster", "describe")["brokers"]
    assert broker["leads"] == broker["preferred"] >= 1
    assert "led by its preferred broker" in says("-b", bootstrap, "cluster", "rebalance")
    assert facts("-b", bootstrap, "cluster", "rebalance") == {"moved": [], "errors": {}}


def test_health_is_an_exit_code(bootstrap: str) -> None:
    assert "is up" in says("health", "-b", bootstrap)
    with klamm.Broker() as broker:
        gone = broker.bootstrap
    done = run("health", "-b", gone, "--timeout", "0.3")
    assert (done.exit_code, gone in done.stderr) == (1, True)


def test_settings_are_shown_with_their_source_and_changed(bootstrap: str, topic: str) -> None:
    in_sync, inherited = facts("-b", bootstrap, "configs", "show", "--topic", topic)
    assert (in_sync["name"], in_sync["value"]) == ("min.insync.replicas", "1")
    assert (inherited["value"], inherited["source"]) == ("-1", "broker, static")
    says("-b", bootstrap, "configs", "alter", "--topic", topic, "--set", "retention.ms=5000")
    _, entry = facts("-b", bootstrap, "configs", "show", "--topic", topic)
    assert (entry["name"], entry["value"], entry["source"]) == ("retention.ms", "5000", "topic")
    says("-b", bootstrap, "configs", "alter", "--topic", topic, "--delete", "retention.ms")
    assert facts("-b", bootstrap, "configs", "show", "--topic", topic) == [in_sync, inherited]
    (node,) = facts("-b", bootstrap, "cluster", "describe")["brokers"]
    everything = facts("-b", bootstrap, "configs", "show", "--broker", str(node["broker"]), "--all")
    assert {"num.partitions", "log.retention.ms"} <= {entry["name"] for entry in everything}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["configs", "show"], "exactly one of"),
        (["configs", "show", "--topic", "a", "--broker", "1"], "exactly one of"),
        (["configs", "alter", "--topic", "a"], "nothing to change"),
        (["--log-level", "loud", "health"], "loud for --log-level"),
        (["topics", "offsets", "a", "--at", "12"], "expected beginning, end or @TIME"),
        (["topics", "trim", "a", "--before", "soon"], "invalid offset"),
    ],
)
def test_commands_that_make_no_sense_are_refused(
    bootstrap: str, arguments: list[str], complaint: str
) -> None:
    done = run("-b", bootstrap, *arguments)
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_offsets_are_found_by_word_and_by_time(bootstrap: str, topic: str) -> None:
    def offsets(at: str) -> list[int | None]:
        return [row["offset"] for row in facts("-b", bootstrap, "topics", "offsets", topic, "--at", at)]

    assert offsets("beginning") == [0, 0]
    assert offsets("end") == [3, 3]
    assert offsets("@2000") == [1, 1]
    assert offsets("@9000") == [None, None]  # no record is that late
    assert "-" in says("-b", bootstrap, "topics", "offsets", f"{topic}:0", "--at", "@9000")


def test_the_oldest_records_can_be_deleted(bootstrap: str, topic: str) -> None:
    assert f"{topic}-0 starts at 1" in says("-b", bootstrap, "topics", "trim", f"{topic}:0", "--before", "1")
    assert f"{topic}-1 starts at 2" in says(
        "-b", bootstrap, "topics", "trim", f"{topic}:1", "--before", "@3000"
    )
    done = says("-b", bootstrap, "topics", "trim", topic, "--before", "end")
    assert done == f"{topic}-0 starts at 3\n{topic}-1 starts at 3\n"
    refused = run("-b", bootstrap, "topics", "trim", topic, "--before", "99")
    assert refused.exit_code == 1


def test_every_topic_is_described_when_none_is_named(bootstrap: str, topic: str) -> None:
    assert topic in {fact["topic"] for fact in facts("-b", bootstrap, "topics", "describe")}


def test_a_topic_that_is_not_there_may_be_deleted_all_the_same(bootstrap: str, topic: str) -> None:
    assert run("-b", bootstrap, "topics", "delete", "nosuch").exit_code == 1
    assert says("-b", bootstrap, "topics", "delete", topic, "nosuch", "--if-exists") == f"{topic} deleted\n"


def test_a_profile_names_a_cluster_and_its_settings(
    bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(
        f'[lab]\nbootstrap = "{bootstrap}"\n"client.id" = "ops"\n[odd]\nx = [1]\n', encoding="utf-8"
    )
    monkeypatch.setenv("KLAMM_PROFILES", str(file))
    assert topic in says("--profile", "lab", "topics", "list")
    for name, complaint in (("nosuch", "unknown profile nosuch"), ("odd", "invalid value for x")):
        done = run("--profile", name, "topics", "list")
        assert (done.exit_code, complaint in done.stderr) == (2, True)
    file.write_text('[lab]\nbootstrap = "127.0.0.1:1"\nnosuch = 1\n', encoding="utf-8")
    done = run("--profile", "lab", "topics", "list")
    assert (done.exit_code, "nosuch" in done.stderr) == (2, True)


def test_the_subcommands_own_address_beats_the_one_before_it(bootstrap: str, topic: str) -> None:
    assert topic in says("-b", "127.0.0.1:1", "topics", "list", "-b", bootstrap)


def test_a_shell_completes_topics_and_groups(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_BOOTSTRAP", bootstrap)
    words = {
        "_KLAMM_COMPLETE": "complete_bash",
        "COMP_WORDS": f"klamm consume {topic[:7]}",
        "COMP_CWORD": "2",
    }
    done = CliRunner().invoke(app, [], env=words, prog_name="klamm")
    assert topic in done.stdout.split()


def test_a_broker_whose_lease_ended_is_described_as_such() -> None:
    with klamm.Broker(brokers=2) as broker:

        def leases() -> dict[int, str]:
            described = facts("-b", broker.bootstrap, "cluster", "describe")["brokers"]
            return {each["broker"]: each["state"] for each in described}

        assert leases() == {1: "active", 2: "active"}
        broker.kill_node(2)
        wait_until(leases, equals={1: "active", 2: "fenced"})
