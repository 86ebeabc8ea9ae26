from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from klamm.virtual_time import flows as module
from klamm.virtual_time.flows import CountingSocket, Flows


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> Flows:
    monkeypatch.setattr(module, "GRACE_S", 3600.0)
    return Flows()


@pytest.fixture
def listener(flows: Flows) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flows.listening.add(listener.getsockname())
        yield listener


def connected(flows: Flows, listener: socket.socket) -> CountingSocket:
    client = CountingSocket(flows, socket.AF_INET, socket.SOCK_STREAM)
    assert client.connect_ex(listener.getsockname()) == 0
    return client


def accepted(flows: Flows, listener: socket.socket) -> CountingSocket:
    found = CountingSocket(flows, fileno=listener.accept()[0].detach())
    found.join()
    return found


def test_what_is_sent_is_under_way_until_the_other_end_has_read_it(
    flows: Flows, listener: socket.socket
) -> None:
    with connected(flows, listener) as client:
        assert not flows.are_quiet()  # not accepted yet
        with accepted(flows, listener) as server:
            assert flows.are_quiet()
            client.send(b"request")
            assert not flows.are_quiet()
            server.recv(3)
            assert not flows.are_quiet()
            server.recv(4)
            assert flows.are_quiet()
            server.sendmsg([b"resp", b"onse"])
            assert not flows.are_quiet()
            client.recv(8)
            assert flows.are_quiet()
        assert not flows.are_quiet()  # the client has not noticed the end
    assert flows.are_quiet()


def test_what_is_not_read_on_purpose_is_not_waited_for_for_ever(
    flows: Flows, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(flows, listener) as client, accepted(flows, listener):
        client.send(b"request")
        assert not flows.are_quiet()
        monkeypatch.setattr(module, "GRACE_S", -1.0)
        assert flows.are_quiet()


def test_the_other_end_may_be_another_program(flows: Flows, listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as foreign, accepted(flows, listener) as server:
        server.send(b"response")
        foreign.sendall(b"request")
        assert flows.are_quiet()
