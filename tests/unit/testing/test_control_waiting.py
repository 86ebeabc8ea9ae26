"""Waiting for groups, records, events and faults over the control port."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import klamm
from unit.testing.control_ports import Port, a_member, joined, port, shared_port

__all__ = ["port", "shared_port"]  # fixtures


def test_waiting_for_a_group_returns_it_as_soon_as_it_is_so(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t", "partitions": 2})
    answers: list[Any] = []
    other = Port(port.broker, f"{port.host}:{port.port}")

    def wait() -> None:
        wanted = {"state": "Stable", "members": ["m"], "lag": 0, "timeout": "60s"}
        answers.append(other.done("POST", "/groups/g/wait-until", wanted))

    waiting = threading.Thread(target=wait)
    waiting.start()
    with (
        klamm.Producer(bootstrap_servers=port.broker.bootstrap) as producer,
        a_member(port.broker, auto_offset_reset="earliest", enable_auto_commit=False) as member,
    ):
        for partition in (0, 1):
            producer.send("t", b"1", partition=partition).result()
        assert len(member.consume(2, timeout=60)) == 2
        group = port.done("GET", "/groups/g")  # it has committed nothing
        assert (group["total_lag"], {each["status"] for each in group["offsets"]}) == (
            None,
            {"nothing committed"},
        )
        assert "nothing committed" in group["summary"]
        assert not answers
        member.commit()
        waiting.join(60)
        other.connection.close()
    (group,) = answers
    assert (group["state"], group["total_lag"]) == ("Stable", 0)
    assert [each["name"] for each in group["members"]] == ["m"]


def test_waiting_for_records_counts_those_of_transactions_when_they_are_committed(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t"})
    with klamm.Producer(bootstrap_servers=port.broker.bootstrap, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1").result()
        wanted = {"records": 1, "timeout": "20ms"}
        status, error = port.refused("POST", "/topics/t/wait-until", wanted)
        assert (status, error.splitlines()[0]) == (
            503,
            "not so after 20ms: topic t has 0 records, expected 1",
        )
        found = port.done("POST", "/topics/t/wait-until", {**wanted, "committed": False})
        assert [each["value"] for each in found["records"]] == ["1"]
        producer.commit_transaction()
    assert len(port.done("POST", "/topics/t/wait-until", {"records": 1})["records"]) == 1


def test_waiting_for_an_event_returns_the_story_that_has_it(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t"})
    with a_member(port.broker) as member:
        joined(port, member)
        port.done("POST", "/clock/freeze")
        port.done("POST", "/clock/advance", {"by": "1m"})
        for path in ("/groups/g/story/wait-until", "/story/wait-until"):
            assert "session timeout" in port.done("POST", path, {"event": "session timeout"})["story"]
        port.done("POST", "/clock/run")
    status, error = port.refused("POST", "/groups/g/story/wait-until", {"event": "fenced", "timeout": "5ms"})
    assert status == 503
    assert "no event has 'fenced'" in error
    assert "session timeout" in error  # the story


def test_waiting_for_a_fault_counts_how_often_it_happened(port: Port) -> None:
    fault = port.done(
        "POST", "/faults", {"fault": "fail", "api": "Metadata", "error": "UNKNOWN_SERVER_ERROR"}
    )
    path = f"/faults/{fault['id']}/wait-until"
    _, error = port.refused("POST", path, {"count": 1, "timeout": "5ms"})
    assert f"fault {fault['id']} has happened 0 times, expected 1" in error
    with klamm.Producer(bootstrap_servers=port.broker.bootstrap):
        assert port.done("POST", path, {"count": 2})["count"] >= 2


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/groups/g/wait-until", {}, "nothing to wait for: expected state, members or lag"),
        ("/groups/g/wait-until", {"state": "stable"}, "invalid state 'stable': expected one of Empty, "),
        ("/groups/g/wait-until", {"members": -1}, "invalid members -1"),
        ("/groups/g/wait-until", {"members": [1]}, "invalid members [1]"),
        ("/groups/g/wait-until", {"lag": "0"}, "invalid lag '0'"),
        ("/groups/g/wait-until", {"lag": 0, "timeout": 5}, "invalid timeout 5: expected a duration"),
        ("/groups/g/wait-until", {"lag": 0, "timeout": "2h"}, "invalid timeout '2h': expected at most 1h"),
        ("/groups/g/wait-until", {"lag": 0, "timeout": "soon"}, "invalid duration 'soon'"),
        ("/topics/t/wait-until", {}, "invalid records None: expected a number from 0 on"),
        ("/topics/t/wait-until", {"records": 1, "committed": 1}, "invalid committed 1"),
        ("/story/wait-until", {"event": ""}, "invalid event ''"),
        ("/faults/1/wait-until", {"count": True}, "invalid count True"),
    ],
)
def test_waiting_for_what_makes_no_sense_is_refused(
    shared_port: Port, path: str, body: Any, message: str
) -> None:
    status, error = shared_port.refused("POST", path, body)
    assert status == 400
    assert message in error


def test_waiting_for_a_fault_that_does_not_exist_is_refused(shared_port: Port) -> None:
    assert shared_port.refused("POST", "/faults/77/wait-until", {"count": 1})[0] == 404
