"""How many connections there may be, and how fast they may be opened; on virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar, JarClient
from internals.logins import log_in, sasl_jar
from klamm.broker.config.broker_config import BrokerConfig
from klamm.config import ConfigError
from klamm.net.security.sasl import Plain
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.api_versions import ApiVersionsRequest

TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,BETWEEN://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
    "inter.broker.listener.name": "BETWEEN",
}


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    yield jar
    jar.close()


def closed(clients: list[JarClient]) -> list[bool]:
    return [client.is_closed for client in clients]


def limit_rate(jar: Jar, address: str | None, rate: float | None) -> int:
    entry = EntryData(
        [EntityData("ip", address)], [OpData("connection_creation_rate", rate or 0.0, rate is None)]
    )
    client = jar.connect(ip="10.9.9.9")
    client.send(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry]))
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    return int(answer.entries[0].error_code)


# --- how many ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "ips"),
    [
        ("max.connections.per.ip", ["10.0.0.1"] * 3),
        ("max.connections", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
        ("listener.name.plaintext.max.connections", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    ],
)
def test_one_connection_too_many_is_closed_at_once(setting: str, ips: list[str]) -> None:
    jar = Jar({setting: "2"})
    clients = [jar.connect(ip=ip) for ip in ips]
    assert closed(clients) == [False, False, True]
    jar.loop.settle()
    clients[0].close()
    jar.loop.settle()
    assert not jar.connect(ip=ips[0]).is_closed
    jar.close()


def test_an_address_may_have_a_limit_of_its_own() -> None:
    jar = Jar({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.2:2, ::1:0"})
    clients = [
        jar.connect(ip=ip) for ip in ("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "::1")
    ]
    assert closed(clients) == [False, True, False, False, True, True]
    jar.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections.per.ip.overrides": "10.0.0.1"},
        {"max.connections.per.ip.overrides": "somewhere:3"},
        {"max.connections.per.ip": "0"},
        {"max.connection.creation.rate": "0"},
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.from_settings(settings)


def test_other_brokers_connect_when_clients_have_taken_all_connections() -> None:
    jar = Jar({**TWO_LISTENERS, "max.connections": "1"})
    clients = [jar.connect(listener=name) for name in ("PLAINTEXT", "PLAINTEXT", "BETWEEN")]
    assert closed(clients) == [False, True, False]
    jar.close()


def test_a_limit_of_a_listener_counts_those_that_log_in() -> None:
    jar = sasl_jar({"listener.name.saslp.max.connections": "2"})
    first, second, third = (jar.connect(listener="SASLP") for _ in range(3))
    jar.loop.settle()
    assert closed([first, second, third]) == [False, False, True]
    assert log_in(jar, first, Plain("bob", "pw")).error_code == 0
    assert log_in(jar, second, Plain("bob", "pw")).error_code == 0
    fourth = jar.connect(listener="SASLP")
    jar.loop.settle()
    assert fourth.is_closed
    jar.close()


def test_a_limit_of_a_listener_is_not_that_of_another() -> None:
    jar = Jar({**TWO_LISTENERS, "listener.name.plaintext.max.connections": "1"})
    clients = [jar.connect(listener=name) for name in ("PLAINTEXT", "PLAINTEXT", "BETWEEN", "BETWEEN")]
    assert closed(clients) == [False, True, False, False]
    jar.close()


# --- how fast ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_connections_above_the_rate_are_served_later(prefix: str) -> None:
    jar = Jar({f"{prefix}max.connection.creation.rate": "5"})
    clients = [jar.connect() for _ in range(52)]  # ten seconds of the rate are free
    for client in clients:
        client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    jar.pass_ms(10)
    assert [len(client.new_answers()) for client in clients] == [1] * 50 + [0, 0]
    jar.pass_ms(195)
    assert len(clients[50].new_answers()) == 1
    assert not clients[51].new_answers()
    jar.pass_ms(205)
    assert len(clients[51].new_answers()) == 1
    assert not any(closed(clients))
    jar.close()


def test_other_brokers_do_not_wait_for_the_rate_of_the_broker() -> None:
    jar = Jar({**TWO_LISTENERS, "max.connection.creation.rate": "1"})
    clients = [jar.connect(listener="PLAINTEXT") for _ in range(11)]
    between = jar.connect(listener="BETWEEN")
    between.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    jar.pass_ms(10)
    assert len(between.new_answers()) == 1
    assert clients[-1].transport.is_unread()
    jar.close()


def test_connections_of_an_address_above_its_rate_are_closed_after_a_while(jar: Jar) -> None:
    assert limit_rate(jar, "10.0.0.1", 2) == 0
    clients = [jar.connect(ip="10.0.0.1") for _ in range(22)]
    other = jar.connect(ip="10.0.0.2")
    jar.pass_ms(100)
    assert not any(closed(clients))
    jar.pass_ms(900)
    assert closed(clients) == [False] * 20 + [True, True]
    assert not other.is_closed
    jar.pass_ms(11_000)  # those that were closed are not counted
    again = jar.connect(ip="10.0.0.1")
    jar.pass_ms(2000)
    assert not again.is_closed


def test_the_rate_of_all_addresses_is_that_of_each_which_has_none_of_its_own(jar: Jar) -> None:
    assert limit_rate(jar, "10.0.0.1", 100) == 0
    assert limit_rate(jar, None, 1) == 0
    own = [jar.connect(ip="10.0.0.1") for _ in range(11)]
    others = [jar.connect(ip=ip) for ip in ("10.0.0.2", "10.0.0.3") for _ in range(11)]
    jar.pass_ms(2000)
    assert closed(own) == [False] * 11
    assert closed(others) == ([False] * 10 + [True]) * 2
    assert limit_rate(jar, None, None) == 0
    late = jar.connect(ip="10.0.0.2")
    jar.pass_ms(2000)
    assert not late.is_closed


def test_a_rate_of_connections_is_not_in_the_way_of_requests(jar: Jar) -> None:
    limit_rate(jar, None, 100)
    assert jar.services.quotas is None
