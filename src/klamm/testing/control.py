"""What the control port of `klamm up --control` does: one function for each path, JSON in and out.

Everything is done by `klamm.testing.Broker`, as in a Python test.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from klamm.broker.net.server import StartError
from klamm.client.consumer.record_json import record_as_json
from klamm.clock import SystemClock
from klamm.errors import KlammError, KlammTimeoutError
from klamm.testing.control_faults import FaultOrders
from klamm.version import __version__
from klamm.virtual_time.clock import NotSettledError, VirtualClock

if TYPE_CHECKING:
    from klamm.testing.broker import Broker

MAX_INJECTED: Final = 1000  # of the faults that happened, the last ones are listed
_TRUTH: Final = {"true": True, "false": False}


class ControlError(Exception):
    """A request that is not carried out; the message is for the client."""

    def __init__(self, status: HTTPStatus, message: str, *, allow: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.allow = tuple(allow)  # methods that the path has, when it does not have this one


class Request:
    """What a function is given: the variable parts of the path, the query, the body."""

    def __init__(self, parts: list[str], query: Mapping[str, str], body: Mapping[str, Any]) -> None:
        self.parts = parts
        self.query = query
        self.body = body

    def flag(self, name: str, default: bool) -> bool:
        """A flag of the query. Raises ControlError."""
        text = self.query.get(name)
        if text is None:
            return default
        if text not in _TRUTH:
            raise _invalid(f"invalid {name}={text}: expected true or false")
        return _TRUTH[text]


Operation = Callable[[Request], object]


class Control:
    """The operations on one broker, from any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._faults = FaultOrders(broker.faults)
        # The clients that look are used by one thread at a time, and not while the broker ends.
        self._lock = threading.Lock()
        # Method and path; {} is a variable part. Then the fields of the body and the names of the query.
        self._routes: tuple[tuple[str, str, Operation, str], ...] = (
            ("GET", "/", self._summary, ""),
            ("GET", "/clock", self._show_clock, ""),
            ("POST", "/clock/advance", self._advance, "by"),
            ("POST", "/clock/freeze", self._freeze, ""),
            ("POST", "/clock/run", self._run, "rate"),
            ("GET", "/faults", lambda _: {"faults": self._faults.all()}, ""),
            ("POST", "/faults", lambda request: self._faults.add(request.body), "*"),
            ("DELETE", "/faults", lambda _: {"faults": self._faults.lift_all()}, ""),
            ("GET", "/faults/injected", self._injected, ""),
            ("GET", "/faults/{}", lambda request: self._faults.described(_number(request)), ""),
            ("DELETE", "/faults/{}", lambda request: self._faults.lift(_number(request)), ""),
            ("GET", "/topics", self._topics, ""),
            ("POST", "/topics", self._create_topic, "name partitions configs"),
            ("GET", "/topics/{}/records", self._records, "?committed"),
            ("GET", "/groups/{}", self._group, ""),
            ("GET", "/groups/{}/story", self._story, "?times"),
            ("GET", "/transactions/{}/story", self._story, "?times"),
            ("GET", "/story", self._story, "?times"),
            ("POST", "/broker/kill", self._kill, ""),
            ("POST", "/broker/cut-power", self._cut_power, ""),
            ("POST", "/broker/restart", self._restart, ""),
        )

    def carry_out(self, method: str, target: str, body: bytes) -> object:
        """The answer to a request, as JSON has it. Raises ControlError."""
        url = urlsplit(target)
        words = [unquote(word) for word in url.path.split("/")]
        operation, parts, fields = self._find(method, words)
        request = Request(parts, _query(url.query, fields), _body(body, fields))
        try:
            return operation(request)
        except ValueError as error:
            raise _invalid(str(error)) from error
        except LookupError as error:
            raise ControlError(HTTPStatus.NOT_FOUND, str(error.args[0])) from error
        except (KlammTimeoutError, NotSettledError) as error:
            raise ControlError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        except (KlammError, StartError, RuntimeError) as error:
            raise ControlError(HTTPStatus.CONFLICT, str(error)) from error

    def _find(self, method: str, words: list[str]) -> tuple[Operation, list[str], str]:
        allowed = []
        for each_method, path, operation, fields in self._routes:
            pattern = path.split("/")
            if len(pattern) != len(words) or any(
                known not in ("{}", word) for known, word in zip(pattern, words, strict=True)
            ):
                continue
            if each_method == method:
                parts = [word for known, word in zip(pattern, words, strict=True) if known == "{}"]
                return operation, parts, fields
            allowed.append(each_method)
        path = "/".join(words)
        if allowed:
            raise ControlError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{path} has no {method}: expected {' or '.join(allowed)}",
                allow=allowed,
            )
        raise ControlError(HTTPStatus.NOT_FOUND, f"unknown path {path}: GET / lists what exists")

    # --- the clock -----------------------------------------------------------------------------------------

    @property
    def _clock(self) -> VirtualClock | SystemClock:
        return self._broker.clock if self._broker.is_on_virtual_time else SystemClock()

    def _movable(self) -> VirtualClock:
        clock = self._clock
        if isinstance(clock, SystemClock):
            raise RuntimeError(
                "this broker runs on the clock of the system, which cannot be moved: "
                "start it with `klamm up --clock virtual`"
            )
        return clock

    def _show_clock(self, _: Request | None = None) -> object:
        clock = self._clock
        is_virtual = isinstance(clock, VirtualClock)
        timestamp_ms = clock.timestamp_ms()
        return {
            "clock": "virtual" if is_virtual else "system",
            "now": datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "timestamp_ms": timestamp_ms,
            "rate": clock.rate if isinstance(clock, VirtualClock) else 1.0,
        }

    def _advance(self, request: Request) -> object:
        by = request.body.get("by")
        if not isinstance(by, str):
            raise _invalid(f'invalid by {by!r}: expected a duration, as in {{"by": "2h"}}')
        self._movable().advance(by)
        return self._show_clock()

    def _freeze(self, _: Request) -> object:
        # Not for one thread: another request, or a restarted broker, may run on a thread with the same id.
        self._movable().freeze_for_all()
        return self._show_clock()

    def _run(self, request: Request) -> object:
        rate = request.body.get("rate", 1.0)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)):
            raise _invalid(f"invalid rate {rate!r}: expected a number, as 60 for a minute in each second")
        if rate == 0:
            return self._freeze(request)
        self._movable().resume(rate)
        return self._show_clock()

    # --- faults --------------------------------------------------------------------------------------------

    def _injected(self, _: Request) -> object:
        injected = self._broker.faults.injected
        return {"count": len(injected), "injected": [each.as_json() for each in injected[-MAX_INJECTED:]]}

    # --- looking -------------------------------------------------------------------------------------------

    def _summary(self, _: Request) -> object:
        return {
            "klamm": __version__,
            "pid": os.getpid(),
            "bootstrap": self._broker.bootstrap,
            "is_running": self._broker.is_running,
            "clock": "virtual" if self._broker.is_on_virtual_time else "system",
            "paths": [f"{method} {path}" for method, path, *_ in self._routes],
        }

    def _topics(self, _: Request) -> object:
        with self._lock:
            found = self._broker.topics()
        return {"topics": [{"topic": name, "partitions": count} for name, count in sorted(found.items())]}

    def _create_topic(self, request: Request) -> object:
        name, configs = request.body.get("name"), request.body.get("configs") or {}
        partitions = request.body.get("partitions", -1)
        if not isinstance(name, str):
            raise _invalid(f"invalid name {name!r}: expected the name of a topic")
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not -1 <= partitions < 10_000:
            raise _invalid(f"invalid partitions {partitions!r}: expected a number from 1 to 9999")
        if not isinstance(configs, dict):
            raise _invalid(f'invalid configs {configs!r}: expected an object, as {{"retention.ms": "1000"}}')
        with self._lock:
            self._broker.create_topic(name, partitions, {key: str(value) for key, value in configs.items()})
            return {"topic": name, "partitions": self._broker.topics().get(name, partitions)}

    def _records(self, request: Request) -> object:
        (topic,) = request.parts
        is_committed = request.flag("committed", True)
        with self._lock:
            exists = topic in self._broker.topics()
            found = self._broker.records(topic, committed=is_committed) if exists else []
        return {"topic": topic, "exists": exists, "records": [record_as_json(each) for each in found]}

    def _group(self, request: Request) -> object:
        (group_id,) = request.parts
        with self._lock:
            group = self._broker.group(group_id)
        return {
            "group": group_id,
            "state": group.state,
            "members": [
                {
                    "name": name,
                    "assignment": [{"topic": each.topic, "partition": each.partition} for each in assigned],
                }
                for name, assigned in group.assignment.items()
            ],
            "offsets": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "committed": offset,
                    "lag": group.lag.get(each),
                }
                for each, offset in sorted(group.committed.items())
            ],
            "total_lag": group.total_lag,
        }

    def _story(self, request: Request) -> object:
        key = request.parts[0] if request.parts else None
        return {"story": self._broker.story(key, times=request.flag("times", False))}

    # --- ending --------------------------------------------------------------------------------------------

    def _kill(self, request: Request) -> object:
        with self._lock:
            self._broker.kill()
        return self._summary(request)

    def _cut_power(self, request: Request) -> object:
        with self._lock:
            self._broker.cut_power()
        return self._summary(request)

    def _restart(self, request: Request) -> object:
        with self._lock:
            self._broker.restart()
        return self._summary(request)


def _invalid(message: str) -> ControlError:
    return ControlError(HTTPStatus.BAD_REQUEST, message)


def _number(request: Request) -> int:
    (text,) = request.parts
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise LookupError(f"invalid id {text}: expected the number of a fault")
    return int(text)


def _query(text: str, fields: str) -> dict[str, str]:
    known = fields[1:].split() if fields.startswith("?") else []
    try:
        given = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=10))
    except ValueError as error:
        raise _invalid(f"invalid query: {error}") from None
    for name in given:
        if name not in known:
            raise _invalid(f"unknown parameter {name!r}: expected {' or '.join(known) or 'none'}")
    return given


def _body(data: bytes, fields: str) -> dict[str, Any]:
    if not data.strip():
        return {}
    try:
        body = json.loads(data)
        json.dumps(body, ensure_ascii=False).encode()  # half of a surrogate pair is in no topic or group
    except RecursionError:
        raise _invalid("invalid JSON: too deeply nested") from None
    except ValueError as error:
        raise _invalid(f"invalid JSON: {error}") from None
    if not isinstance(body, dict):
        raise _invalid("invalid body: expected a JSON object")
    known = [] if fields.startswith("?") else fields.split()
    for name in body:
        if known != ["*"] and name not in known:
            raise _invalid(f"unknown field {name!r}: expected {' or '.join(known) or 'no body'}")
    return body
