"""Faults that are ordered over the control port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import klamm
from klamm.testing import Broker, control_faults
from unit.testing.control_ports import Port, port, port_of, shared_port

__all__ = ["port", "shared_port"]  # fixtures


def test_a_fault_happens_as_often_as_ordered_and_is_in_the_story(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t"})
    order = {"fault": "fail", "api": "OffsetCommit", "group": "g", "error": "NOT_COORDINATOR", "times": 1}
    fault = port.done("POST", "/faults", order)
    assert (fault["count"], fault["is_over"]) == (0, False)
    with klamm.Consumer(bootstrap_servers=port.broker.bootstrap, group_id="g") as consumer:
        consumer.assign([klamm.TopicPartition("t", 0)])
        consumer.commit({klamm.TopicPartition("t", 0): 0})
    after = port.done("GET", f"/faults/{fault['id']}")
    assert after == {**order, "id": fault["id"], "count": 1, "is_over": True}
    assert "answered with NOT_COORDINATOR" in port.done("GET", "/groups/g/story")["story"]
    injected = port.done("GET", "/faults/injected")
    assert (injected["count"], injected["injected"][0]["subject"]) == (1, "g")
    row = {"topic": "t", "partition": 0, "committed": 0, "start": 0, "end": 0, "lag": 0, "status": "known"}
    assert port.done("GET", "/groups/g")["offsets"] == [row]


def test_every_kind_of_fault_can_be_ordered_listed_and_lifted(port: Port) -> None:
    orders: list[dict[str, Any]] = [
        {"fault": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "transactional_id": "x"},
        {"fault": "delay", "by": "10s", "api": "Fetch", "topic": "t", "partition": 1, "version": 12},
        {"fault": "drop", "api": "Produce", "client_id": "nobody"},
        {"fault": "drop", "api": "Produce", "when": "after", "probability": 0.5, "seed": 7},
        {"fault": "lose", "api": "Produce"},
        {"fault": "cut", "api": "Produce"},
        {"fault": "hang", "client_id": "nobody"},
        {"fault": "fill_disk"},
        {"fault": "fill_disk", "times": 3, "probability": 0.5, "seed": 7},
        {"fault": "fail_fsync", "times": 1},
        {"fault": "fail_fsync"},
        {"fault": "fill_disk", "topic": "orders"},
        {"fault": "fail_fsync", "topic": "__consumer_offsets", "partition": 0, "times": 2},
    ]
    ids = [port.done("POST", "/faults", order)["id"] for order in orders]
    assert len(list(port.broker.faults)) == 7
    listed = port.done("GET", "/faults")["faults"]
    assert [
        {name: each[name] for name in order} for each, order in zip(listed, orders, strict=True)
    ] == orders
    assert not any(each["is_over"] for each in listed)
    assert port.done("DELETE", f"/faults/{ids[-1]}")["is_over"]
    assert port.refused("DELETE", f"/faults/{ids[-1]}")[0] == 404
    assert len(port.done("DELETE", "/faults")["faults"]) == len(orders) - 1
    assert port.done("GET", "/faults") == {"faults": []}
    assert list(port.broker.faults) == []
    port.done("POST", "/topics", {"name": "t"})  # the disk works again


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({}, "invalid fault None: expected one of fail, delay"),
        ({"fault": "explode"}, "invalid fault 'explode'"),
        ({"fault": ["fail"]}, "invalid fault ['fail']"),
        ({"fault": "fail", "api": "OffsetComit", "error": "NOT_COORDINATOR"}, "did you mean OffsetCommit?"),
        ({"fault": "fail", "api": 8, "error": "NOT_COORDINATOR"}, "invalid API 8"),
        (
            {"fault": "fail", "api": "OffsetCommit", "error": "NOT_CORDINATOR"},
            "did you mean NOT_COORDINATOR?",
        ),
        ({"fault": "fail", "api": "OffsetCommit", "error": 16}, "invalid error 16"),
        ({"fault": "fail", "api": "OffsetCommit"}, "fault 'fail' needs 'error'"),
        ({"fault": "fail", "error": "NOT_COORDINATOR"}, "fault 'fail' needs 'api'"),
        ({"fault": "delay"}, "fault 'delay' needs 'by'"),
        ({"fault": "delay", "by": "-1s"}, "invalid duration"),
        ({"fault": "delay", "by": 5}, "invalid duration 5"),
        ({"fault": "drop", "when": "later"}, "expected 'before' or 'after'"),
        ({"fault": "lose", "colour": "red"}, "fault 'lose' has no 'colour': expected api, topic"),
        ({"fault": "lose", "api": "Heartbeat", "topic": "t"}, "Heartbeat requests have no topic"),
        ({"fault": "lose", "partition": 1}, "without a topic"),
        ({"fault": "lose", "topic": "t", "partition": -1}, "invalid partition -1"),
        ({"fault": "lose", "group": 7}, "invalid group 7"),
        ({"fault": "lose", "version": "1"}, "invalid version '1'"),
        ({"fault": "lose", "times": 0}, "invalid times 0"),
        ({"fault": "lose", "times": 1.5}, "invalid times 1.5"),
        ({"fault": "lose", "probability": 2}, "invalid probability 2"),
        ({"fault": "lose", "probability": "often"}, "invalid probability 'often'"),
        ({"fault": "lose", "seed": {}}, "invalid seed {}"),
        (
            {"fault": "fill_disk", "client_id": "web"},
            "fault 'fill_disk' has no 'client_id': expected topic, partition, times, probability, seed",
        ),
        ({"fault": "fill_disk", "api": "Produce"}, "fault 'fill_disk' has no 'api'"),
        ({"fault": "fill_disk", "partition": 0}, "without a topic"),
        ({"fault": "fill_disk", "topic": ["t"]}, "invalid topic ['t']"),
        ({"fault": "fail_fsync", "times": -3}, "invalid times -3"),
    ],
)
def test_a_fault_that_does_not_exist_is_refused(shared_port: Port, order: Any, said: str) -> None:
    status, error = shared_port.refused("POST", "/faults", order)
    assert status == 400
    assert said in error
    assert shared_port.done("GET", "/faults") == {"faults": []}


def test_faults_of_the_disk_need_a_broker_in_memory(tmp_path: Path) -> None:
    with port_of(Broker(tmp_path)) as port:
        for path, body in (
            ("/faults", {"fault": "fill_disk"}),
            ("/broker/kill", None),
            ("/broker/cut-power", None),
        ):
            status, error = port.refused("POST", path, body)
            assert (status, "a broker in memory" in error) == (409, True)
        port.done("POST", "/topics", {"name": "t"})
        assert port.done("POST", "/broker/restart")["is_running"]
        assert port.done("GET", "/topics") == {"topics": [{"topic": "t", "partitions": 1}]}


def test_a_clock_that_stands_still_does_so_after_a_restart(port: Port) -> None:
    before = port.done("POST", "/clock/freeze")
    assert port.done("POST", "/broker/restart")["is_running"]
    port.done("POST", "/topics", {"name": "t"})
    after = port.done("GET", "/clock")
    assert after["rate"] == 0.0
    assert after["timestamp_ms"] - before["timestamp_ms"] < 3_600_000
    assert (
        port.done("POST", "/clock/advance", {"by": "1h"})["timestamp_ms"] == after["timestamp_ms"] + 3_600_000
    )


def test_a_disk_that_is_full_for_one_topic_is_so_over_the_port(port: Port) -> None:
    for topic in ("t", "other"):
        port.done("POST", "/topics", {"name": topic})
    order = {"fault": "fill_disk", "topic": "t", "partition": 0, "times": 1}
    number = port.done("POST", "/faults", order)["id"]
    with klamm.Producer(bootstrap_servers=port.broker.bootstrap) as producer:
        assert producer.send("other", "x").result().offset == 0
        assert port.done("GET", f"/faults/{number}")["count"] == 0
        assert producer.send("t", "x").result().offset == 0
    lifted = port.done("DELETE", f"/faults/{number}")
    assert (lifted["count"], lifted["topic"], lifted["partition"]) == (1, "t", 0)
    line = "injected fault: write of t-0 to disk: no space left on device"
    assert line in port.done("GET", "/story")["story"]


def test_there_is_a_limit_to_faults(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_faults, "MAX_FAULTS", 3)
    for _ in range(3):
        port.done("POST", "/faults", {"fault": "lose", "group": "nobody"})
    assert port.refused("POST", "/faults", {"fault": "lose"})[0] == 409
    port.done("DELETE", "/faults/1")
    port.done("POST", "/faults", {"fault": "lose", "group": "nobody"})


def test_looking_is_not_affected_by_faults(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t"})
    fault = port.done("POST", "/faults", {"fault": "drop"})
    assert port.done("GET", "/topics/t/records")["exists"]
    assert port.done("GET", "/groups/g")["state"] == "Dead"
    assert port.done("GET", f"/faults/{fault['id']}")["count"] == 0
