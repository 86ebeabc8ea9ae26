"""`klamm topics list` has two ways in; they print the same."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import klamm
from klamm.cli.quick_topics import ListOptions, list_topics, parse_list
from klamm.errors import KlammError, KlammTimeoutError
from klamm.net.single import ask_once
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from unit.cli.test_cluster_commands import run


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([klamm.NewTopic("orders", 3), klamm.NewTopic("a-longer-name", 12)])
        with klamm.Consumer("orders", bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            consumer.poll(10)  # its group makes an internal topic
        yield broker


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ListOptions("127.0.0.1:9092", 10.0, False, False)),
        (["-b", "h:1", "--json"], ListOptions("h:1", 10.0, False, True)),
        (["--bootstrap=h:1", "--timeout=2.5"], ListOptions("h:1", 2.5, False, False)),
        (["--internal", "--timeout", "3"], ListOptions("127.0.0.1:9092", 3.0, True, False)),
        (["--help"], None),
        (["-b"], None),
        (["--timeout", "soon"], None),
        (["--json=yes"], None),
        (["orders"], None),
        (["-bh:1"], None),
    ],
)
def test_plain_options_are_parsed_here_and_others_elsewhere(
    arguments: list[str], expected: ListOptions | None
) -> None:
    assert parse_list(arguments, {}) == expected


def test_the_environment_has_the_address_and_a_profile_is_handled_elsewhere() -> None:
    found = parse_list([], {"KLAMM_BOOTSTRAP": "h:2"})
    assert found is not None
    assert found.bootstrap == "h:2"
    assert parse_list([], {"KLAMM_PROFILE": "prod"}) is None


@pytest.mark.parametrize("options", [[], ["--json"], ["--internal"], ["--internal", "--json"]])
def test_both_ways_print_the_same(
    broker: klamm.Broker, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parsed = parse_list(["-b", broker.bootstrap, *options], {})
    assert parsed is not None
    assert list_topics(parsed)
    full = run("topics", "list", "-b", broker.bootstrap, *options)
    assert capsys.readouterr().out == full.output
    assert "orders" in full.output


@pytest.mark.parametrize(
    "bootstrap", ["127.0.0.1:1", "a,b:1", "[::1]:1", "nothing", "h:x", "127.0.0.1:99999"]
)
def test_a_cluster_that_does_not_answer_is_left_to_the_full_command_line(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not list_topics(ListOptions(bootstrap, 0.5, False, False))
    assert capsys.readouterr().out == ""


def test_one_request_needs_one_connection(broker: klamm.Broker) -> None:
    host, port = broker.bootstrap.split(":")
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = ask_once((host, int(port)), "test", ApiKey.METADATA, request, 30)
    assert {topic.name for topic in response.topics} >= {"orders", "a-longer-name"}


def test_a_listener_that_is_silent_or_closes_fails_the_request() -> None:
    request = MetadataRequest(topics=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with pytest.raises((TimeoutError, KlammTimeoutError)):
            ask_once(address, "test", ApiKey.METADATA, request, 0.05)
        accepted, _ = server.accept()
        accepted.close()
    with pytest.raises((OSError, KlammError)):
        ask_once(address, "test", ApiKey.METADATA, request, 0.05)
