"""The client's thread: every address of a name is tried, and nobody waits for a thread that has died."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from klamm.clock import SystemClock
from klamm.errors import IllegalStateError, KlammError
from klamm.net.reactor import Reactor

PATIENCE_S = 10


class Events:
    """What a connection reported, for a test that waits for it."""

    def __init__(self) -> None:
        self.outcome: Future[OSError | None] = Future()

    def connected(self) -> None:
        self.outcome.set_result(None)

    def received(self, data: bytes) -> None:
        raise AssertionError(data)

    def room(self) -> memoryview | None:
        return None

    def filled(self, count: int) -> None:
        raise AssertionError(count)

    def lost(self, error: OSError | KlammError | None) -> None:
        if not self.outcome.done():  # the other end goes first, when the test is over
            assert error is None or isinstance(error, OSError)
            self.outcome.set_result(error)


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor(SystemClock(), "reactor")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.2", 0)) as opened:
        yield opened


def resolves_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    def addresses(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)


def connect(reactor: Reactor, port: int) -> Events:
    events = Events()
    reactor.ask(lambda: reactor.connect(("kafka.test", port), events)).result(PATIENCE_S)
    return events


def test_the_second_address_of_a_name_is_tried_when_the_first_refuses(
    reactor: Reactor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    events = connect(reactor, listener.getsockname()[1])
    assert events.outcome.result(PATIENCE_S) is None


def test_an_address_of_a_family_that_is_not_there_is_passed_over(
    reactor: Reactor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, "fe80::1%nowhere", "127.0.0.2")
    events = connect(reactor, listener.getsockname()[1])
    assert events.outcome.result(PATIENCE_S) is None


def test_when_every_address_refuses_the_error_names_each(
    reactor: Reactor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, "127.0.0.1", "127.0.0.3")
    error = connect(reactor, listener.getsockname()[1]).outcome.result(PATIENCE_S)
    assert error is not None
    assert "127.0.0.1" in str(error)
    assert "127.0.0.3" in str(error)


def test_an_address_that_never_answered_is_tried_last_the_next_time(
    reactor: Reactor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    resolves_to(monkeypatch, "192.0.2.1", "127.0.0.2")  # the first is reserved: nobody answers there
    reactor.unreachable[("kafka.test", port)] = [("192.0.2.1", port)]
    assert connect(reactor, port).outcome.result(PATIENCE_S) is None


def test_a_connection_closed_while_it_was_tried_counts_as_not_answering(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, "127.0.0.1")
    looked_up = threading.Event()
    events = Events()

    def try_and_close() -> None:
        link = reactor.connect(("kafka.test", 9), events)
        link._connect([("127.0.0.9", 9)])  # as the look-up does
        link.close()
        looked_up.set()

    reactor.ask(try_and_close).result(PATIENCE_S)
    assert looked_up.is_set()
    assert reactor.unreachable == {("kafka.test", 9): [("127.0.0.9", 9)]}


@pytest.mark.parametrize("address", [("a..b", 9092), ("127.0.0.1", 99_999), ("127.0.0.1", -1)])
def test_an_address_that_cannot_be_one_is_an_error_of_the_connection(
    reactor: Reactor, address: tuple[str, int]
) -> None:
    # Brokers advertise such addresses when they are misconfigured; other brokers are still of use.
    events = Events()
    reactor.ask(lambda: reactor.connect(address, events)).result(PATIENCE_S)
    assert isinstance(events.outcome.result(PATIENCE_S), OSError)
    assert reactor.failure is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whoever_waits_for_a_thread_that_dies_gets_its_error() -> None:
    reactor = Reactor(SystemClock(), "reactor")
    owed: Future[None] = Future()
    reactor.owes(owed)

    def die() -> None:
        raise MemoryError("out of memory")

    reactor.submit(die)
    behind = reactor.ask(_nothing)  # queued behind what kills the thread
    reactor.start()
    for future in (owed, behind):
        with pytest.raises(IllegalStateError, match="out of memory"):
            future.result(PATIENCE_S)
    with pytest.raises(IllegalStateError):
        reactor.ask(_nothing).result(PATIENCE_S)
    reactor.stop()


def test_what_a_stopped_thread_still_owes_fails() -> None:
    reactor = Reactor(SystemClock(), "reactor")
    owed: Future[None] = Future()
    reactor.owes(owed)
    reactor.start()
    reactor.stop()
    with pytest.raises(IllegalStateError, match="closed"):
        owed.result(PATIENCE_S)


_nothing: Callable[[], None] = lambda: None  # noqa: E731  # a name for what does nothing
