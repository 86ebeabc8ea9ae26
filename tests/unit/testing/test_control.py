"""The control port: what tests in other languages order and see, over HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import klamm
from klamm.broker.net.listeners import control_listener
from klamm.config import ConfigError
from klamm.testing import Broker, control_faults
from klamm.testing.control_http import MAX_BODY_BYTES, ControlServer


class Port:
    """A control port, and one connection to it that is kept."""

    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.connection.request(method, path, data, headers)
        with self.connection.getresponse() as response:
            assert response.headers["Content-Type"] == "application/json; charset=utf-8"
            return response.status, json.loads(response.read())

    def done(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.ask(method, path, body)
        assert status in (200, 201), answer
        return answer

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, answer = self.ask(method, path, body)
        assert set(answer) == {"error"}
        # The port and the broker work as before, on the same connection.
        assert self.done("GET", "/clock")["rate"] == 1.0
        return status, answer["error"]

    def raw(self, request: bytes) -> bytes:
        """What is answered to bytes until the connection is closed."""
        with socket.create_connection((self.host, self.port), timeout=60) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))


@contextmanager
def port_of(broker: Broker) -> Iterator[Port]:
    listener = control_listener("127.0.0.1:0")
    assert listener is not None
    with ControlServer(broker, listener) as server, broker:
        server.start()
        port = Port(broker, server.address)
        yield port
        port.connection.close()


@pytest.fixture
def port() -> Iterator[Port]:
    with port_of(Broker(auto_create_topics_enable=False)) as port:
        yield port


@pytest.fixture(scope="module")
def shared_port() -> Iterator[Port]:
    """For requests that are refused: the broker is as before."""
    with port_of(Broker(auto_create_topics_enable=False)) as port:
        yield port


def a_member(broker: Broker, **settings: Any) -> klamm.Consumer[bytes, bytes]:
    # On real time, as a client in another process: its heartbeats do not follow the broker's clock.
    return klamm.Consumer(
        "t",
        bootstrap_servers=broker.bootstrap,
        group_id="g",
        client_id="m",
        clock=klamm.clock.SystemClock(),
        **settings,
    )


def joined(port: Port, member: klamm.Consumer[bytes, bytes]) -> None:
    while port.done("GET", "/groups/g")["state"] != "Stable":
        member.poll(0.1)


# --- the clock ---------------------------------------------------------------------------------------------


def test_the_clock_moves_by_a_duration_and_shows_it(port: Port) -> None:
    port.done("POST", "/clock/freeze")
    before = port.done("GET", "/clock")
    after = port.done("POST", "/clock/advance", {"by": "1h30m"})
    assert (before["clock"], before["rate"]) == ("virtual", 0.0)
    assert after["timestamp_ms"] - before["timestamp_ms"] == 5_400_000
    assert port.broker.clock.timestamp_ms() == after["timestamp_ms"]
    assert after["now"].endswith("+00:00")


def test_the_clock_stops_and_runs_at_a_rate(port: Port) -> None:
    assert port.done("POST", "/clock/freeze")["rate"] == 0.0
    assert port.done("POST", "/clock/run", {"rate": 60})["rate"] == 60.0
    assert port.done("POST", "/clock/run", {"rate": 0})["rate"] == 0.0
    assert port.done("POST", "/clock/run")["rate"] == 1.0


def test_a_member_of_another_process_is_expelled_when_its_session_ends(port: Port) -> None:
    port.done("POST", "/topics", {"name": "t", "partitions": 2})
    with a_member(port.broker) as member:
        joined(port, member)
        group = port.done("GET", "/groups/g")
        assert group["members"] == [
            {"name": "m", "assignment": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]}
        ]
        port.done("POST", "/clock/freeze")
        port.done("POST", "/clock/advance", {"by": "2h"})
        # What was due has happened when the request returns.
        assert "session" in port.done("GET", "/groups/g/story")["story"]


@pytest.mark.parametrize(
    "by", ["-1s", "2 parsecs", "", "1e9h", "200000d", "99999999999999999999999999d", "2h; rm", "٣h", "NaNs"]
)
def test_a_duration_that_makes_no_sense_is_refused(shared_port: Port, by: str) -> None:
    before_ms = shared_port.broker.clock.timestamp_ms()
    status, error = shared_port.refused("POST", "/clock/advance", {"by": by})
    assert (status, error.startswith("invalid duration")) == (400, True)
    assert shared_port.broker.clock.timestamp_ms() - before_ms < 3_000_000


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/clock/advance", {"by": 7200}, "expected a duration"),
        ("/clock/advance", {"by": None}, "expected a duration"),
        ("/clock/advance", {}, "expected a duration"),
        ("/clock/advance", {"to": "2h"}, "unknown field 'to': expected by"),
        ("/clock/run", {"rate": -1}, "invalid rate"),
        ("/clock/run", {"rate": 10**400}, "invalid rate"),
        ("/clock/run", {"rate": "fast"}, "invalid rate"),
        ("/clock/run", {"rate": True}, "invalid rate"),
        ("/clock/run", b'{"rate": NaN}', "invalid rate"),
        ("/clock/freeze", {"rate": 1}, "unknown field 'rate': expected no body"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(shared_port: Port, path: str, body: Any, said: str) -> None:
    status, error = shared_port.refused("POST", path, body)
    assert status == 400
    assert said in error


@pytest.mark.parametrize("path", ["/clock/freeze", "/clock/run", "/clock/advance"])
def test_without_virtual_time_the_clock_is_shown_and_not_moved(path: str) -> None:
    with port_of(Broker(clock="system")) as port:
        assert port.done("GET", "/clock")["clock"] == "system"
        status, error = port.refused("POST", path, {"by": "1s"} if path.endswith("advance") else None)
    assert status == 409
    assert "klamm up --clock virtual" in error


# --- faults ------------------------------------------------------------------------------------------------


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
    assert port.done("GET", "/groups/g")["offsets"] == [
        {"topic": "t", "partition": 0, "committed": 0, "lag": 0}
    ]


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


# --- looking -----------------------------------------------------------------------------------------------


def test_records_have_text_or_base64_and_the_time_of_the_clock(port: Port) -> None:
    port.done("POST", "/topics", {"name": "a.b", "configs": {"retention.ms": 1000}})
    port.done("POST", "/clock/freeze")
    now_ms = port.done("POST", "/clock/advance", {"by": "30d"})["timestamp_ms"]
    with klamm.Producer(bootstrap_servers=port.broker.bootstrap, linger_ms=0) as producer:
        producer.send("a.b", "grün", key=b"\xff", headers=[("h", b"1")]).result()
    answer = port.done("GET", "/topics/a.b/records")
    (record,) = answer["records"]
    assert (record["value"], record["key_base64"], record["offset"]) == ("grün", "/w==", 0)
    assert record["headers"] == [{"name": "h", "value": "1"}]
    assert record["timestamp_ms"] >= now_ms


def test_a_topic_that_does_not_exist_has_no_records(shared_port: Port) -> None:
    assert shared_port.done("GET", "/topics/absent/records") == {
        "topic": "absent",
        "exists": False,
        "records": [],
    }


def test_names_in_paths_are_decoded(shared_port: Port) -> None:
    group_id = "team/billing ü"
    assert shared_port.done("GET", f"/groups/{quote(group_id, safe='')}")["group"] == group_id


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/nosuch", None, 404, "GET / lists what exists"),
        ("GET", "/groups", None, 404, "unknown path /groups"),
        ("GET", "/groups/a/b/story", None, 404, "unknown path"),
        ("GET", "/faults/one", None, 404, "expected the number of a fault"),
        ("GET", "/faults/99999999999999999999", None, 404, "expected the number of a fault"),
        ("DELETE", "/faults/7", None, 404, "no fault has the id 7"),
        ("PUT", "/clock", b"{}", 405, "/clock has no PUT: expected GET"),
        ("BREW", "/clock", None, 405, "expected GET"),
        ("GET", "/topics/t/records?committed=maybe", None, 400, "expected true or false"),
        ("GET", "/topics/t/records?since=1", None, 400, "unknown parameter 'since': expected committed"),
        ("GET", "/clock?" + "a=1&" * 20, None, 400, "invalid query"),
        ("POST", "/topics", {"name": 1}, 400, "invalid name 1"),
        ("POST", "/topics", {"name": "t", "partitions": 0.5}, 400, "invalid partitions 0.5"),
        ("POST", "/topics", {"name": "t", "partitions": 10**9}, 400, "invalid partitions"),
        ("POST", "/topics", {"name": "t", "configs": [1]}, 400, "invalid configs [1]"),
        ("POST", "/topics", {"name": "t", "configs": {"retention.mss": 1}}, 409, "retention.mss"),
        ("POST", "/topics", {"name": "no such name"}, 400, "no such name"),
        ("POST", "/faults", b"{", 400, "invalid JSON"),
        ("POST", "/faults", b"\xff\xfe\xfd", 400, "invalid JSON"),
        ("POST", "/faults", b'{"fault": "\\ud800"}', 400, "invalid JSON"),
        ("POST", "/faults", b"[" * 60_000, 400, "invalid JSON"),
        ("POST", "/faults", b'{"times": ' + b"9" * 10_000 + b"}", 400, "invalid JSON"),
        ("POST", "/faults", b"[]", 400, "expected a JSON object"),
        ("POST", "/faults", b"", 400, "invalid fault None"),
    ],
)
def test_bad_requests_are_refused_and_harm_nothing(
    shared_port: Port, method: str, path: str, body: Any, status: int, said: str
) -> None:
    found, error = shared_port.refused(method, path, body)
    assert (found, said in error) == (status, True), (found, error)


def test_bodies_are_bounded_and_have_a_length(shared_port: Port) -> None:
    big = b" " * (MAX_BODY_BYTES + 1)
    assert shared_port.ask("POST", "/faults", big)[0] == 413
    assert shared_port.ask("POST", "/clock/freeze", b" " * MAX_BODY_BYTES)[0] == 200
    shared_port.done("POST", "/clock/run")
    head = b"POST /clock/freeze HTTP/1.1\r\nHost: localhost\r\n"
    for fields, status in (
        (b"Content-Length: 99999999999999999999\r\n\r\n", b"413"),
        (b"Content-Length: -1\r\n\r\n", b"400"),
        (b"Content-Length: ten\r\n\r\n", b"400"),
        (b"Content-Length: 10\r\n\r\n{}", b"400"),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"X: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    ):
        answer = shared_port.raw(head + fields)
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert b'{"error": ' in answer
    assert shared_port.raw(b"\x00\x00\x00\x12\r\n\r\n").count(b'{"error": ') == 1
    assert shared_port.done("GET", "/clock")["rate"] == 1.0


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example:80"}])
def test_a_page_in_a_browser_cannot_use_it(shared_port: Port, headers: dict[str, str]) -> None:
    status, answer = shared_port.ask("POST", "/clock/freeze", None, **headers)
    assert (status, answer) == (403, {"error": "the control port is not for web pages"})
    assert shared_port.broker.clock.rate == 1.0


# --- ending ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "cut-power"])
def test_a_broker_that_was_killed_is_restarted_with_what_was_acknowledged(port: Port, how: str) -> None:
    port.done("POST", "/topics", {"name": "t"})
    with klamm.Producer(bootstrap_servers=port.broker.bootstrap) as producer:
        producer.send("t", "kept").result()
        assert port.done("POST", f"/broker/{how}")["is_running"] is False
        assert port.refused("GET", "/groups/g") == (409, "the broker is not running")
        assert port.refused("POST", f"/broker/{how}")[0] == 409
        before = port.broker.bootstrap
        assert port.done("POST", "/broker/restart")["bootstrap"] == before
        producer.send("t", "after").result()
    values = [record["value"] for record in port.done("GET", "/topics/t/records")["records"]]
    assert values == ["kept", "after"]


@pytest.mark.parametrize("address", ["0.0.0.0:1", ":1", "192.168.0.1:1", "[::]:1", "example.org:1"])
def test_a_control_port_is_for_this_machine_only(address: str) -> None:
    with pytest.raises(ConfigError, match="this machine only"):
        control_listener(address)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:1", "[::1]:1", "127.1.2.3:65535"])
def test_loopback_addresses_are_accepted(address: str) -> None:
    assert str(control_listener(address)) == f"HTTP://{address}"


@pytest.mark.parametrize("address", ["9404", "127.0.0.1", "127.0.0.1:70000", "http://127.0.0.1:1"])
def test_a_control_port_is_an_address(address: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        control_listener(address)


@pytest.mark.parametrize("settings", [{"klamm.clock": "virtual"}, {"klamm.control.listener": "127.0.0.1:0"}])
@pytest.mark.parametrize("kind", [klamm.Broker, Broker])
def test_in_a_program_settings_of_klamm_up_are_refused(kind: Any, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="is for `klamm up`"):
        kind(settings=settings)


def test_a_restart_keeps_the_ports_of_all_listeners() -> None:
    settings = {"listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"}
    with port_of(Broker(settings=settings)) as port:
        before = port.broker.bootstrap
        assert before.count(",") == 1
        assert port.done("POST", "/broker/restart")["bootstrap"] == before


# --- waiting -----------------------------------------------------------------------------------------------


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
        # It has committed nothing: all that it was assigned is behind.
        assert port.done("GET", "/groups/g")["total_lag"] == 2
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
