"""`klamm up --control`: a broker for tests, with a control port for its clock and its faults."""

from __future__ import annotations

import logging
import signal
import threading
from typing import TYPE_CHECKING, Final

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.http_ports import CONTROL
from klamm.broker.net.server import StartError
from klamm.cli.serve import announce, log_to_stderr, raise_file_limit, stop_on_signals
from klamm.config import ConfigError, RawValue, as_text
from klamm.testing.broker import Broker
from klamm.testing.control_http import ControlServer

if TYPE_CHECKING:
    from klamm.broker.broker import BrokerNode
    from klamm.broker.config.security_settings import ListenerValues
    from klamm.broker.security.tls_listener import TlsListener

_log = logging.getLogger(__name__)

# Clients in other processes do not see the virtual clock: their records get its time from the broker, and a
# connection is not idle because the clock has moved.
_VIRTUAL_SETTINGS: Final = {
    "log.message.timestamp.type": "LogAppendTime",
    "connections.max.idle.ms": "-1",
}

_TOKEN_ENDPOINT: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "https.ca.location",
)


class _ControlledBroker(Broker):
    _has_control_port = True
    _node: BrokerNode | None = None

    def _has_started(self, broker: BrokerNode) -> None:
        super()._has_started(broker)
        self._node = broker

    def reload_certificates(self) -> None:
        """Have the broker read its certificates again; one that is down does so when it starts."""
        if self.is_running and self._loop is not None and self._node is not None:
            self._loop.call_soon_threadsafe(self._node.reload_certificates)

    def _own_settings(self) -> dict[str, RawValue]:
        """As this broker would log in to others."""
        values = self._config.listener_values[self._config.inter_broker_listener_name]
        settings: dict[str, RawValue | None] = {
            **super()._own_settings(),
            "security.protocol": values.protocol,
        }
        if values.has_sasl:
            mechanism = self._config.sasl_mechanism_inter_broker_protocol
            jaas = None if mechanism is None else values.secret("sasl.jaas.config", mechanism)
            settings |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": None if jaas is None else jaas.secret,
            }
            if mechanism == "OAUTHBEARER":
                found = {name: values.get(name, mechanism) for name in _TOKEN_ENDPOINT}
                settings |= {name: as_text(value) for name, value in found.items() if value is not None}
        if values.has_tls:
            settings["ssl.truststore.location"] = values.text("ssl.truststore.location")
        return {name: value for name, value in settings.items() if value is not None}


def serve_controlled(config: BrokerConfig, *, in_memory: bool) -> str | None:
    """Serve until SIGTERM or SIGINT; the error when the broker cannot start."""
    listener = config.klamm_control_listener
    assert listener is not None
    raise_file_limit()
    log_to_stderr()
    is_virtual = config.klamm_clock == "virtual"
    stop = threading.Event()
    stop_on_signals(stop)
    try:
        broker = _ControlledBroker(
            None if in_memory else ",".join(config.log_dirs),
            {**(_VIRTUAL_SETTINGS if is_virtual else {}), **config.layers.static},
            clock="virtual" if is_virtual else "system",
        )
        values = config.listener_values[CONTROL]
        tls = None
        if values.has_tls:
            from klamm.broker.security.tls_listener import TlsListener  # noqa: PLC0415 - slow to import

            tls = TlsListener(values)
        with ControlServer(broker, listener, token=config.klamm_control_token, tls=tls) as control, broker:
            control.start()

            def renew(_number: int, _frame: object) -> None:
                broker.reload_certificates()
                if tls is not None:
                    _reload(tls, values)

            if any(each.has_tls for each in config.listener_values.values()):
                signal.signal(signal.SIGHUP, renew)
            kept = "in memory" if in_memory else f"in {config.log_dirs[0]}"
            announce(broker.bootstrap.replace(",", ", "), f"control on {control.address}, data {kept}")
            stop.wait()
    except (StartError, ConfigError) as error:
        return str(error)
    return None


def _reload(tls: TlsListener, values: ListenerValues) -> None:
    """Of the control port, for new connections. What cannot be read leaves the former one, and a log line."""
    try:
        tls.reload(values)
    except ConfigError as error:
        _log.error("the control port keeps its former certificate: %s", error)
    else:
        _log.info("the certificate of the control port is read again")
