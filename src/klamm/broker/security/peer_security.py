"""How this broker connects to others: over TLS, logged in, as their listener asks for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from klamm.config import ConfigError, Password
from klamm.net.security.jaas import jaas_options
from klamm.net.security.security import PLAINTEXT, Security

if TYPE_CHECKING:
    from klamm.broker.cluster.peers import Peers
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.config.security_settings import ListenerValues
    from klamm.net.security.sasl import MakeMechanism
    from klamm.net.security.tokens import TokenSource

NAME: Final = "sasl.mechanism.inter.broker.protocol"
_BEARER: Final = "OAUTHBEARER"

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
    mechanism = _mechanism(config, values) if values.has_sasl else None
    if mechanism is None:
        return Security(values.protocol, context)
    text = values.secret("sasl.jaas.config", mechanism)
    options = {} if text is None else jaas_options(text, mechanism, prefix="user_")
    if mechanism == _BEARER:
        return Security(values.protocol, context, tokens=_tokens(values, options))
    return Security(values.protocol, context, _login(values, mechanism, options))


def renew_peer_security(config: BrokerConfig, peers: Peers) -> None:
    """Read the files again. What cannot be read leaves the former ones, and a log line."""
    if peers.security.context is None:
        return
    try:
        peers.renew(peer_security(config))
    except ConfigError as error:
        _log.error("connections to other brokers keep their former certificates: %s", error)


def _mechanism(config: BrokerConfig, values: ListenerValues) -> str | None:
    """How this broker logs in to others; None for one that is alone and need not."""
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism is not None and mechanism not in values.words("sasl.enabled.mechanisms"):
        raise ConfigError(
            NAME,
            f"{NAME}={mechanism} is not in sasl.enabled.mechanisms of listener {values.name}: add it there",
        )
    return mechanism


def _login(values: ListenerValues, mechanism: str, options: Mapping[str, str]) -> MakeMechanism:
    """Makes a login as the user of sasl.jaas.config."""
    from secrets import token_urlsafe  # noqa: PLC0415 - slow to import

    from klamm.net.security.sasl import Plain, Scram  # noqa: PLC0415 - where it is used

    if "username" not in options or "password" not in options:
        name = f"listener.name.{values.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(
            name, f"{name} has no username and password: this broker needs them to log in to other brokers"
        )
    username, password = options["username"], options["password"]
    if mechanism == "PLAIN":
        return lambda: Plain(username, password)
    return lambda: Scram(mechanism, username, password, token_urlsafe(24))


def _tokens(values: ListenerValues, options: Mapping[str, str]) -> TokenSource:
    """Tokens of a token endpoint, for the client that this broker is there."""
    from klamm.net.security.jaas import extensions_of  # noqa: PLC0415 - where it is used
    from klamm.net.security.tokens import ClientCredentials, TokenSource  # noqa: PLC0415

    url_name = "sasl.oauthbearer.token.endpoint.url"
    id_name = "sasl.oauthbearer.client.credentials.client.id"
    secret_name = "sasl.oauthbearer.client.credentials.client.secret"
    url = values.text(url_name, _BEARER)
    client_id = values.text(id_name, _BEARER) or options.get("clientId")
    secret = values.secret(secret_name, _BEARER) or Password(options.get("clientSecret", ""))
    for name, value in ((url_name, url), (id_name, client_id), (secret_name, secret.secret)):
        if not value:
            raise ConfigError(
                name, f"{name} is required with {NAME}={_BEARER}: this broker logs in to others with a token"
            )
    assert url is not None
    assert client_id is not None
    endpoint = ClientCredentials(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=values.text("sasl.oauthbearer.scope", _BEARER) or options.get("scope"),
        ca_location=values.text("https.ca.location", _BEARER),
        extensions=extensions_of(dict(options)),
    )
    return TokenSource(endpoint.obtain)
