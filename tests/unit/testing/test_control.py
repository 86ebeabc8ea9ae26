"""The control port: what tests in other languages order and see, over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

import klamm
from klamm.broker.net.http_access import NOT_FOR_PAGES
from klamm.config import ConfigError
from klamm.testing import Broker
from klamm.testing.control_http import MAX_BODY_BYTES
from unit.testing.control_ports import Port, a_member, joined, port, port_of, shared_port

__all__ = ["port", "shared_port"]  # fixtures


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
        "records": None,
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
    assert (status, answer) == (403, {"error": NOT_FOR_PAGES})
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


@pytest.mark.parametrize("settings", [{"klamm.clock": "virtual"}, {"klamm.control.listener": "127.0.0.1:0"}])
@pytest.mark.parametrize("kind", [klamm.Broker, Broker])
def test_in_a_program_settings_of_klamm_up_are_refused(kind: Any, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="is for `klamm up`"):
        kind(settings=settings)


def test_a_restart_keeps_the_ports_of_all_listeners() -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with port_of(Broker(settings=settings)) as port:
        before = port.broker.bootstrap
        assert before.count(",") == 1
        assert port.done("POST", "/broker/restart")["bootstrap"] == before
