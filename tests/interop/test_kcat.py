"""kcat, with the librdkafka of the distribution, against the broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from interop.harness import COMPRESSIONS, ClientProcess

ClientFactory = Callable[[str], ClientProcess]


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """What kcat printed; it must end well and in time."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def consumed(bootstrap: str, topic: str, *arguments: str) -> list[dict[str, object]]:
    """The records of partition 0, from the beginning to its end."""
    printed = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_kcat_reads_what_kcat_wrote(
    bootstrap: str, client: ClientFactory, topic: str, compression: str
) -> None:
    client("confluent").create_topic(topic)
    lines = "".join(f"k{n}:value {n}\n" for n in range(200))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K:", "-z", compression, "-H", "origin=kcat", stdin=lines)
    records = consumed(bootstrap, topic)
    assert [(record["offset"], record["key"], record["payload"]) for record in records] == [
        (n, f"k{n}", f"value {n}") for n in range(200)
    ]
    assert all(record["headers"] == ["origin", "kcat"] for record in records)


def test_kcat_writes_nulls_and_an_idempotent_producer(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    client("confluent").create_topic(topic)
    settings = ("-X", "enable.idempotence=true", "-X", "acks=all")
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-Z", "-K:", *settings, stdin="a:1\nb:\n")
    assert [(record["key"], record["payload"]) for record in consumed(bootstrap, topic)] == [
        ("a", "1"),
        ("b", None),
    ]


def test_kcat_lists_topics_and_brokers(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic, 3)
    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == bootstrap.split(",")
    (described,) = listed["topics"]
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]


def test_kcat_starts_at_a_time_and_near_the_end(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic)
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin="one\ntwo\nthree\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").strip() == f"{topic} [0] offset 0"
    last = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q")
    assert last == "three\n"


def test_a_missing_topic_is_made_for_a_producer(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="first\n")
    assert [record["payload"] for record in consumed(bootstrap, topic)] == ["first"]
