"""One interface to the transactions of several client libraries, each in a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

OUT: Final = "out"  # where producers write to
IN: Final = "in"  # what is copied
PARTITIONS: Final = 3
TRANSACTION_TIMEOUT_MS: Final = 8_000
PATIENCE_S: Final = 20.0  # a broker that was killed is back long before


class Polled(NamedTuple):
    """A record that a consumer was given."""

    partition: int
    offset: int
    value: str


class Transactional(Protocol):
    """A transactional producer."""

    acknowledges_commits: bool  # whether a commit that returns was committed

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: str) -> None: ...

    def send_offsets(self, offsets: Mapping[int, int], consumer: Member) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Member(Protocol):
    """A consumer in a group; `raw` is the library's own object."""

    source: str
    raw: Any

    def poll(self) -> list[Polled]: ...

    def rewind(self) -> None:
        """Go back to what is committed."""
        ...

    def close(self) -> None: ...


class Reader(Protocol):
    """A read_committed consumer of all partitions of one topic, without a group."""

    def poll(self) -> list[Polled]: ...


class Library(Protocol):
    """The module of a library; not each has a member and a reader."""

    def make_producer(self, bootstrap: str, transactional_id: str) -> Transactional: ...

    def make_member(self, bootstrap: str, group: str, source: str) -> Member: ...

    def make_reader(self, bootstrap: str, topic: str, next_offsets: Mapping[int, int]) -> Reader: ...


def library(name: str) -> Library:
    """Imported when it is used: workers are started often."""
    found: Any = import_module(f"faults.exactly_once.with_{name.replace('-', '_')}")
    return found  # type: ignore[no-any-return]
