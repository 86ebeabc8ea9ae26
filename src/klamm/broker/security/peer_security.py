"""How this broker connects to others: over TLS, logged in, as their listener asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from klamm.config import ConfigError
from klamm.net.security.security import PLAINTEXT, Security

if TYPE_CHECKING:
    from klamm.broker.cluster.peers import Peers
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.config.security_settings import ListenerValues
    from klamm.net.security.sasl import Mechanism

NAME: Final = "sasl.mechanism.inter.broker.protocol"

_log = logging.getLogger(__name__)


def peer_security(config: BrokerConfig) -> Security:
    """From the settings of inter.broker.listener.name. Reads files; raises ConfigError."""
    values = config.listener_values[config.inter_broker_listener_name]
    if values.protocol == "PLAINTEXT":
        return PLAINTEXT
    context = None
    if values.has_tls:
        from klamm.broker.security.tls_listener import tls_settings  # noqa: PLC0415 - slow to import
        from klamm.net.security.certificates import tls_context  # noqa: PLC0415 - slow to import

        context = tls_context(tls_settings(values))
    return Security(values.protocol, context, _login(config, values) if values.has_sasl else None)


def renew_peer_security(config: BrokerConfig, peers: Peers) -> None:
    """Read the files again. What cannot be read leaves the former ones, and a log line."""
    if peers.security.context is None:
        return
    try:
        peers.renew(peer_security(config))
    except ConfigError as error:
        _log.error("connections to other brokers keep their former certificates: %s", error)


def _login(config: BrokerConfig, values: ListenerValues) -> Callable[[], Mechanism] | None:
    """Makes a login as the user of sasl.jaas.config; None for a broker that is alone and has none."""
    from secrets import token_urlsafe  # noqa: PLC0415 - slow to import

    from klamm.net.security.jaas import jaas_options  # noqa: PLC0415 - where it is used
    from klamm.net.security.sasl import Plain, Scram  # noqa: PLC0415 - where it is used

    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism is None:
        return None
    if mechanism not in values.words("sasl.enabled.mechanisms"):
        raise ConfigError(
            NAME,
            f"{NAME}={mechanism} is not in sasl.enabled.mechanisms of listener {values.name}: add it there",
        )
    text = values.secret("sasl.jaas.config", mechanism)
    options = {} if text is None else jaas_options(text, mechanism, prefix="user_")
    if "username" not in options or "password" not in options:
        name = f"listener.name.{values.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(
            name, f"{name} has no username and password: this broker needs them to log in to other brokers"
        )
    username, password = options["username"], options["password"]
    if mechanism == "PLAIN":
        return lambda: Plain(username, password)
    return lambda: Scram(mechanism, username, password, token_urlsafe(24))
