"""What the control port of `klamm up --control` does: one function for each path, JSON in and out.

Everything is done by `klamm.testing.Broker`, as in a Python test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from klamm.broker.net.server import StartError
from klamm.clock import SystemClock
from klamm.errors import KlammError, KlammTimeoutError
from klamm.testing.control_faults import FaultOrders
from klamm.testing.control_looks import Looks, WaitedInVain
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


class ControlRequest:
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


Operation = Callable[[ControlRequest], object]


class Control:
    """The operations on one broker, from any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._faults = FaultOrders(broker.faults)
        self._looks = looks = Looks(broker, self._faults)
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
            (
                "POST",
                "/faults/{}/wait-until",
                lambda request: looks.fault_when(_number(request), request.body),
                "count timeout",
            ),
            ("DELETE", "/faults/{}", lambda request: self._faults.lift(_number(request)), ""),
            ("GET", "/topics", lambda _: looks.topics(), ""),
            ("POST", "/topics", lambda request: looks.create_topic(request.body), "name partitions configs"),
            ("GET", "/topics/{}/records", self._records, "?committed"),
            (
                "POST",
                "/topics/{}/wait-until",
                self._wait_for(looks.records_when),
                "records committed timeout",
            ),
            ("GET", "/groups/{}", lambda request: looks.group(request.parts[0]), ""),
            ("POST", "/groups/{}/wait-until", self._wait_for(looks.group_when), "state members lag timeout"),
            ("GET", "/groups/{}/story", self._story, "?times"),
            ("POST", "/groups/{}/story/wait-until", self._wait_for(looks.story_when), "event timeout"),
            ("GET", "/transactions/{}/story", self._story, "?times"),
            ("POST", "/transactions/{}/story/wait-until", self._wait_for(looks.story_when), "event timeout"),
            ("GET", "/story", self._story, "?times"),
            (
                "POST",
                "/story/wait-until",
                lambda request: looks.story_when(None, request.body),
                "event timeout",
            ),
            ("POST", "/broker/kill", self._kill, ""),
            ("POST", "/broker/cut-power", self._cut_power, ""),
            ("POST", "/broker/restart", self._restart, ""),
        )

    def carry_out(self, method: str, target: str, body: bytes) -> object:
        """The answer to a request, as JSON has it. Raises ControlError."""
        url = urlsplit(target)
        words = [unquote(word) for word in url.path.split("/")]
        operation, parts, fields = self._find(method, words)
        request = ControlRequest(parts, _query(url.query, fields), _body(body, fields))
        try:
            return operation(request)
        except ValueError as error:
            raise _invalid(str(error)) from error
        except LookupError as error:
            raise ControlError(HTTPStatus.NOT_FOUND, str(error.args[0])) from error
        except (KlammTimeoutError, NotSettledError, WaitedInVain) as error:
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

    def _show_clock(self, _: ControlRequest | None = None) -> object:
        clock = self._clock
        is_virtual = isinstance(clock, VirtualClock)
        timestamp_ms = clock.timestamp_ms()
        return {
            "clock": "virtual" if is_virtual else "system",
            "now": datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "timestamp_ms": timestamp_ms,
            "rate": clock.rate if isinstance(clock, VirtualClock) else 1.0,
        }

    def _advance(self, request: ControlRequest) -> object:
        by = request.body.get("by")
        if not isinstance(by, str):
            raise _invalid(f'invalid by {by!r}: expected a duration, as in {{"by": "2h"}}')
        self._movable().advance(by)
        return self._show_clock()

    def _freeze(self, _: ControlRequest) -> object:
        # Not for one thread: another request, or a restarted broker, may run on a thread with the same id.
        self._movable().freeze_for_all()
        return self._show_clock()

    def _run(self, request: ControlRequest) -> object:
        rate = request.body.get("rate", 1.0)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)):
            raise _invalid(f"invalid rate {rate!r}: expected a number, as 60 for a minute in each second")
        if rate == 0:
            return self._freeze(request)
        self._movable().resume(rate)
        return self._show_clock()

    # --- faults --------------------------------------------------------------------------------------------

    def _injected(self, _: ControlRequest) -> object:
        injected = self._broker.faults.injected
        return {"count": len(injected), "injected": [each.as_json() for each in injected[-MAX_INJECTED:]]}

    # --- looking -------------------------------------------------------------------------------------------

    def _summary(self, _: ControlRequest) -> object:
        return {
            "klamm": __version__,
            "pid": os.getpid(),
            "bootstrap": self._broker.bootstrap,
            "is_running": self._broker.is_running,
            "clock": "virtual" if self._broker.is_on_virtual_time else "system",
            "paths": [f"{method} {path}" for method, path, *_ in self._routes],
        }

    def _records(self, request: ControlRequest) -> object:
        return self._looks.records(request.parts[0], request.flag("committed", True))

    def _story(self, request: ControlRequest) -> object:
        return self._looks.story(request.parts[0] if request.parts else None, request.flag("times", False))

    @staticmethod
    def _wait_for(look: Callable[[str, Mapping[str, Any]], object]) -> Operation:
        return lambda request: look(request.parts[0], request.body)

    # --- ending --------------------------------------------------------------------------------------------

    def _kill(self, request: ControlRequest) -> object:
        with self._looks.lock:
            self._broker.kill()
        return self._summary(request)

    def _cut_power(self, request: ControlRequest) -> object:
        with self._looks.lock:
            self._broker.cut_power()
        return self._summary(request)

    def _restart(self, request: ControlRequest) -> object:
        with self._looks.lock:
            self._broker.restart()
        return self._summary(request)


def _invalid(message: str) -> ControlError:
    return ControlError(HTTPStatus.BAD_REQUEST, message)


def _number(request: ControlRequest) -> int:
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
