"""`klamm groups inspect` of groups of both protocols, through any broker of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.app import app
from klamm.client.admin.model import NewTopic
from klamm.testing import wait_until


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[str]]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
    }
    with klamm.Broker(brokers=2, settings=settings) as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 4)]).unwrap()
        yield broker.bootstrap.split(",")


def says(bootstrap: str, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["groups", "inspect", *arguments, "--bootstrap", bootstrap])
    assert done.exit_code == 0, done.output
    return done.stdout


def of(found: dict[str, Any], client_id: str) -> dict[str, Any]:
    return next(member for member in found["members"] if member["client_id"] == client_id)


def reconciling(bootstrap: str) -> dict[str, Any]:
    """The group, if one of its members has been told to give up partitions."""
    found: dict[str, Any] = json.loads(says(bootstrap, "billing", "--json"))
    return found if any(member["give_up_left_ms"] is not None for member in found["members"]) else {}


def consumer(bootstrap: str, client_id: str, **settings: Any) -> klamm.Consumer:
    return klamm.Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="billing", client_id=client_id, **settings
    )


def test_a_consumer_group_shows_who_holds_what_up_through_every_broker(brokers: list[str]) -> None:
    settings: dict[str, Any] = {"group_protocol": "consumer", "max_poll_interval_ms": 120_000}
    with consumer(brokers[0], "first", **settings) as first:
        while len(first.assignment()) < 4:
            first.poll(0.05)
        # Given a member that does not poll, and another one that gets half of its partitions
        with consumer(brokers[1], "second", **settings) as second:
            second.poll(0.1)
            found = wait_until(lambda: reconciling(brokers[0]))
            assert found
            for bootstrap in brokers:
                shown = says(bootstrap, "billing")
                assert "billing: consumer group, Reconciling" in shown
                assert f"epoch {found['epoch']}  target of epoch {found['target_epoch']}" in shown
                assert "(given up within " in shown
                assert f"coordinator {found['coordinator']}, log __consumer_offsets-" in shown
            done = CliRunner().invoke(app, ["groups", "diagnose", "billing", "--bootstrap", brokers[1]])
    giving, getting = of(found, "first"), of(found, "second")
    assert "waits for first at 127.0.0.1 to give up orders-" in done.stdout
    assert "it is removed in 2.0 min" in done.stdout or "it is removed in 1." in done.stdout
    assert (giving["protocol"], giving["state"]) == ("consumer", "gives up partitions")
    assert len(giving["assigned"]) == 4
    assert len(giving["target"]) == len(giving["to_give_up"]) == 2
    assert 0 < giving["give_up_left_ms"] <= giving["rebalance_timeout_ms"] == 120_000
    assert 0 < giving["session_left_ms"] <= giving["session_timeout_ms"]
    assert getting["to_get"] == [
        {"partition": name, "owner": giving["member_id"]} for name in giving["to_give_up"]
    ]


def test_a_member_of_the_classic_protocol_in_a_consumer_group_is_shown_as_such(brokers: list[str]) -> None:
    def polled(*members: klamm.Consumer) -> bool:
        for member in members:
            member.poll(0.05)
        return all(len(member.assignment()) == 2 for member in members)

    with (
        consumer(brokers[0], "new", group_protocol="consumer") as new,
        consumer(brokers[0], "old", session_timeout_ms=20_000) as old,
    ):
        wait_until(lambda: polled(new, old))
        found = json.loads(says(brokers[1], "billing", "--json"))
        shown = says(brokers[1], "billing")
    assert (of(found, "new")["protocol"], of(found, "old")["protocol"]) == ("consumer", "classic")
    assert of(found, "old")["session_timeout_ms"] == 20_000
    assert "classic" in shown
