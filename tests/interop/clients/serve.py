"""One Kafka client library behind a line protocol: a JSON command in, a JSON answer out.

Every client under test is such a program, whatever its language:

    {"do": "produce", "topic": "t", ...}    ->  {"ok": {...}}  or  {"error": CODE, "message": TEXT}

`error` is Kafka's error code, or null where the library gave none. The command `member` turns the program
into a consumer-group member that prints events ({"event": ...}) until `{"do": "stop"}` arrives or somebody
kills it. Keys, values and header values travel as base64, or null.

A program can hold several transactional producers at once; `producer` in a command is the name of one.
`init_transactions` creates it, and `close_producer` ends it. `transfer` copies `count` records of the topic
`source` within the open transaction, as a member of `group`, and sends the group's offsets to the
transaction. `init_transactions` gets the same `group` and `source`, because franz-go joins the group there.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypedDict


class WireRecord(TypedDict, total=False):
    """A record as JSON; `offset` only in answers."""

    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]
    timestamp_ms: int
    offset: int


class RefusedError(Exception):
    """The broker (or the library on its behalf) said no."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client(Protocol):
    """A library, ready to be asked: each method takes and gives plain JSON values."""

    def produce(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def consume(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def create_topic(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def delete_topic(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def create_partitions(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def describe_topic(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def describe_config(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def alter_config(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def offsets(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def delete_records(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def init_transactions(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def begin_transaction(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def produce_in_transaction(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def transfer(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def commit_transaction(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def abort_transaction(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def close_producer(self, command: dict[str, Any]) -> dict[str, Any]: ...
    def member(self, command: dict[str, Any], stopped: threading.Event, tell: Tell) -> None: ...


Tell = Callable[[dict[str, Any]], None]


def to_wire(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def from_wire(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def tell(message: dict[str, Any]) -> None:
    """Print one line at once: the other side waits for it."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def serve(make_client: Callable[[str], Client]) -> None:
    """Answer commands from standard input until it ends."""
    client = make_client(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "member":
            _be_a_member(client, command)
            return
        try:
            answer = getattr(client, command["do"])(command)
        except RefusedError as refused:
            tell({"error": refused.code, "message": str(refused)})
        except Exception as error:  # the test that asked shall see whatever went wrong
            tell({"error": None, "message": f"{type(error).__name__}: {error}"})
        else:
            tell({"ok": answer})


def _be_a_member(client: Client, command: dict[str, Any]) -> None:
    stopped = threading.Event()

    def wait_for_stop() -> None:
        for line in sys.stdin:
            if json.loads(line)["do"] == "stop":
                break
        stopped.set()

    threading.Thread(target=wait_for_stop, daemon=True).start()
    client.member(command, stopped, tell)
    tell({"event": "left"})
