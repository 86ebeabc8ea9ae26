"""The ports for metrics and control: where they listen, their TLS, their tokens."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from klamm.broker import broker as assembly
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.http_ports import CONTROL, METRICS
from klamm.broker.net.http_access import NOT_FOR_PAGES
from klamm.broker.net.listeners import Listener
from klamm.broker.security.tls_listener import TlsListener
from klamm.cli.control_port import CA, TOKEN, ask
from klamm.config import ConfigError, Password
from klamm.net.security.authority import CertificateAuthority
from klamm.testing import Broker
from klamm.testing.control_http import ControlServer

SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    authority = CertificateAuthority(tmp_path_factory.mktemp("ca"))
    authority.issue("broker", ["127.0.0.1"])
    return authority


def trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"klamm.control.listener": "0.0.0.0:1"}, "can be reached from other machines: use https://"),
        ({"klamm.control.listener": "example.org:1"}, "can be reached from other machines: use https://"),
        ({"klamm.control.listener": "https://0.0.0.0:1"}, "klamm.control.token is required"),
        ({**SECURED, "klamm.control.listener": "127.0.0.1:1"}, "has logins or an authorizer"),
        ({"klamm.authorizer": "acl", "klamm.control.listener": "127.0.0.1:1"}, "has logins or an authorizer"),
        ({"klamm.control.listener": "9404"}, "expected HOST:PORT, or https://HOST:PORT"),
        ({"klamm.control.listener": "127.0.0.1:70000"}, "expected HOST:PORT"),
        ({"klamm.metrics.listener": "http://127.0.0.1:1"}, "expected HOST:PORT"),
        (
            {
                "klamm.metrics.listener": "127.0.0.1:1",
                "listeners": "METRICS://127.0.0.1:0",
                "listener.security.protocol.map": "METRICS:PLAINTEXT",
            },
            "a listener is called METRICS, too",
        ),
    ],
)
def test_what_would_be_open_to_others_is_refused(settings: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BrokerConfig.from_settings(settings)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:1", "[::1]:1", "127.1.2.3:65535"])
def test_a_control_port_without_a_token_is_for_a_broker_of_this_machine_without_logins(address: str) -> None:
    config = BrokerConfig.from_settings({"klamm.control.listener": address})
    assert str(config.klamm_control_listener) == f"CONTROL://{address}"


def test_a_port_has_tls_settings_of_its_own_and_a_token_that_nothing_shows() -> None:
    config = BrokerConfig.from_settings(
        {
            "klamm.metrics.listener": "https://0.0.0.0:9404",
            "klamm.metrics.token": "s3cret",
            "ssl.keystore.location": "broker.pem",
            "listener.name.metrics.ssl.keystore.location": "metrics.pem",
        }
    )
    assert config.listener_values[METRICS].text("ssl.keystore.location") == "metrics.pem"
    assert config.listener_values[METRICS].has_tls
    assert "s3cret" not in repr(config.klamm_metrics_token)


class MeasuredBroker(Broker):
    """Knows the port of its metrics."""

    metrics_port = 0

    def _has_started(self, broker: assembly.BrokerNode) -> None:
        super()._has_started(broker)
        assert broker.metrics_listener is not None
        self.metrics_port = broker.metrics_listener.port


def measured(authority: CertificateAuthority, **settings: str) -> MeasuredBroker:
    given = {
        "klamm.metrics.listener": "https://127.0.0.1:0",
        "klamm.metrics.token": "s3cret",
        "listener.name.metrics.ssl.keystore.location": str(authority.folder / "broker.pem"),
        **settings,
    }
    return MeasuredBroker(settings=given, clock="system")


def scraped(context: ssl.SSLContext | None, port: int, **fields: str) -> tuple[int, bytes]:
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    )
    try:
        connection.request("GET", "/metrics", headers=fields)
        with connection.getresponse() as response:
            return response.status, response.read()
    finally:
        connection.close()


def test_metrics_are_read_over_tls_with_the_token_only(authority: CertificateAuthority) -> None:
    with measured(authority) as broker:
        context = trusting(authority)
        status, page = scraped(context, broker.metrics_port, Authorization="Bearer s3cret")
        assert (status, b"kafka_server_kafkaserver_brokerstate 3" in page) == (200, True)
        assert scraped(context, broker.metrics_port, Authorization="Bearer guess")[0] == 401
        assert scraped(context, broker.metrics_port)[0] == 401
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            scraped(None, broker.metrics_port)


def test_metrics_may_ask_for_a_client_certificate(authority: CertificateAuthority, tmp_path: Path) -> None:
    more = {
        "listener.name.metrics.ssl.client.auth": "required",
        "listener.name.metrics.ssl.truststore.location": str(authority.certificate),
    }
    with measured(authority, **more) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            scraped(trusting(authority), broker.metrics_port, Authorization="Bearer s3cret")
        context = trusting(authority)
        context.load_cert_chain(authority.issue("prometheus"))
        assert scraped(context, broker.metrics_port, Authorization="Bearer s3cret")[0] == 200


@pytest.fixture
def control(authority: CertificateAuthority) -> Iterator[ControlServer]:
    config = BrokerConfig.from_settings(
        {
            "klamm.control.listener": "https://127.0.0.1:0",
            "listener.name.control.ssl.keystore.location": str(authority.folder / "broker.pem"),
        }
    )
    tls, broker = TlsListener(config.listener_values[CONTROL]), Broker()
    listener = Listener(CONTROL, "127.0.0.1", 0)
    with ControlServer(broker, listener, token=Password("s3cret"), tls=tls) as server, broker:
        server.start()
        yield server


def test_klamm_ctl_uses_a_control_port_with_tls_and_a_token(
    control: ControlServer,
    authority: CertificateAuthority,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = f"https://{control.address}"

    def refused() -> str:
        with pytest.raises(Exception, match="1"):
            ask(address, 20, "GET", "/clock")
        return capsys.readouterr().err

    assert f"certificate is refused: unable to get local issuer certificate; set {CA}" in refused()
    monkeypatch.setenv(CA, str(authority.certificate))
    assert f"refuses the token: set {TOKEN}" in refused()
    monkeypatch.setenv(TOKEN, "guess")
    assert f"refuses the token: set {TOKEN}" in refused()
    monkeypatch.setenv(TOKEN, "s3cret")
    assert ask(address, 20, "GET", "/clock")["clock"] == "virtual"


def test_a_silent_client_holds_up_no_other(
    control: ControlServer, authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    host, _, port = control.address.rpartition(":")
    with socket.create_connection((host, int(port))):
        monkeypatch.setenv(CA, str(authority.certificate))
        monkeypatch.setenv(TOKEN, "s3cret")
        assert ask(f"https://{control.address}", 20, "GET", "/clock")["rate"] == 1.0


def test_a_web_page_has_no_way_in_even_with_the_token(
    control: ControlServer, authority: CertificateAuthority
) -> None:
    host, _, port = control.address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=20, context=trusting(authority))
    fields: dict[str, Any] = {"Origin": "https://evil.example", "Authorization": "Bearer s3cret"}
    connection.request("POST", "/clock/freeze", headers=fields)
    with connection.getresponse() as response:
        assert (response.status, json.loads(response.read())) == (403, {"error": NOT_FOR_PAGES})
    connection.close()
