"""Settings of listeners: TLS, SASL, how brokers log in to each other, and how many connections there may be.

Each can be set for one listener as `listener.name.NAME.SETTING`, those of a mechanism also for one listener
and mechanism: `listener.name.NAME.MECHANISM.SETTING`, name and mechanism in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.net.listeners import PROTOCOLS
from klamm.config import (
    INT_MAX,
    ConfigError,
    Kind,
    Password,
    RawValue,
    Setting,
    Value,
    at_least,
    each_of,
    one_of,
    unknown_name,
)

PREFIX: Final = "listener.name."
TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _text(name: str, doc: str) -> Setting:
    return Setting(name=name, kind=Kind.STRING, default=None, doc=doc)


def _secret(name: str, doc: str) -> Setting:
    return Setting(name=name, kind=Kind.PASSWORD, default=None, doc=doc)


# What may change while the broker runs: new connections get the new certificate.
_RENEWED: Final = (
    "ssl.keystore.", "ssl.key.", "ssl.truststore.", "ssl.client.", "ssl.enabled.", "ssl.cipher.",
    "ssl.endpoint.", "max.connection",
)  # fmt: skip

LISTENER_SETTINGS: Final[Mapping[str, Setting]] = {
    each.name: each._replace(dynamic=each.name.startswith(_RENEWED))
    for each in (
        _text("ssl.keystore.location", "The key and the certificates of a TLS listener: PEM or PKCS12."),
        Setting("ssl.keystore.type", Kind.STRING, None, one_of("PEM", "PKCS12", "JKS"),
                "PEM or PKCS12. Default: what the file is."),
        _secret("ssl.keystore.password", "The password of a keystore in PKCS12."),
        _secret("ssl.keystore.key", "The private key of a TLS listener, as PEM text."),
        _secret("ssl.keystore.certificate.chain", "The certificates of a TLS listener, as PEM text."),
        _secret("ssl.key.password", "The password of the private key, if it is encrypted."),
        _text("ssl.truststore.location",
              "The CA certificates that client certificates must come from: PEM or PKCS12."),
        Setting("ssl.truststore.type", Kind.STRING, None, one_of("PEM", "PKCS12", "JKS"),
                "PEM or PKCS12. Default: what the file is."),
        _secret("ssl.truststore.password", "The password of a truststore in PKCS12."),
        _secret("ssl.truststore.certificates", "The CA certificates of clients, as PEM text."),
        Setting("ssl.client.auth", Kind.STRING, "none", one_of("none", "requested", "required"),
                "Whether clients show a certificate: none, requested or required."),
        Setting("ssl.enabled.protocols", Kind.LIST, ("TLSv1.2", "TLSv1.3"), each_of("TLSv1.2", "TLSv1.3"),
                "The versions of TLS that clients may use."),
        Setting("ssl.cipher.suites", Kind.LIST, (), None,
                "The ciphers of TLS 1.2, separated by commas. Default: those of OpenSSL."),
        Setting("ssl.principal.mapping.rules", Kind.STRING, "DEFAULT", None,
                "Who the subject of a client certificate is: RULE:pattern/replacement/[LU], DEFAULT; the "
                "first that matches."),
        Setting("ssl.endpoint.identification.algorithm", Kind.STRING, "https", one_of("https", "none", ""),
                "Between brokers: https checks the host name in the certificate; none or empty does not."),
        Setting("sasl.enabled.mechanisms", Kind.LIST, (), each_of(*_MECHANISMS),
                "The mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."),
        _secret("sasl.jaas.config",
                'Users of PLAIN, and the user of this broker at others: MODULE required user_NAME="..." ;'),
        _text("klamm.users.file",
              "Users of PLAIN and SCRAM, without their passwords: lines "
              "NAME:SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER."),
        Setting("sasl.server.max.receive.size", Kind.INT, 524288, at_least(1024),
                "The largest request before a login is complete, in bytes."),
        Setting("connection.failed.authentication.delay.ms", Kind.INT, 100, at_least(0),
                "How long the answer to a failed login is delayed."),
        Setting("connections.max.reauth.ms", Kind.LONG, 0, at_least(0),
                "How long a login is valid, after which the client logs in again; 0: no limit."),
        Setting("sasl.server.callback.handler.class", Kind.CLASS, None, None,
                "For OAUTHBEARER: Kafka's OAuthBearerValidatorCallbackHandler, tokens signed with keys of a "
                "JWKS."),
        _text("sasl.oauthbearer.jwks.endpoint.url",
              "The keys that tokens are signed with: a URL with https, http or file."),
        Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, 3600000, at_least(10000),
                "How often the keys are fetched."),
        Setting("sasl.oauthbearer.expected.audience", Kind.LIST, (), None,
                "Who a token must be for: one of these."),
        _text("sasl.oauthbearer.expected.issuer", "Who must have issued a token."),
        Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", None,
                "The claim of a token that names the user."),
        Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", None,
                "Accepted so that Kafka's files work; scopes have no effect here.", has_effect=False),
        Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30, at_least(0),
                "How far the clock of an issuer may be off."),
        _text("sasl.oauthbearer.token.endpoint.url",
              "Where this broker gets the tokens by which it logs in to others: https, or http on loopback."),
        _text("sasl.oauthbearer.client.credentials.client.id",
              "Who this broker is at the token endpoint; or clientId in sasl.jaas.config."),
        _secret("sasl.oauthbearer.client.credentials.client.secret",
                "Its secret at the token endpoint; or clientSecret in sasl.jaas.config."),
        _text("sasl.oauthbearer.scope",
              "What it asks of the token endpoint; or scope in sasl.jaas.config."),
        _text("https.ca.location",
              "The CA certificates of the token endpoint, as PEM. Default: the system's."),
        Setting("klamm.oauthbearer.unsecured", Kind.BOOLEAN, False, None,
                "For development: accept tokens without a signature, which anybody can make."),
        Setting("max.connections", Kind.INT, INT_MAX, at_least(0),
                "Connections of all listeners; with listener.name.NAME. before it, of one."),
        Setting("max.connection.creation.rate", Kind.INT, INT_MAX, at_least(1),
                "Connections that may be opened in a second, of all listeners, or of one: others wait."),
    )
}  # fmt: skip

BETWEEN_BROKERS: Final = (
    Setting("security.inter.broker.protocol", Kind.STRING, None, one_of(*PROTOCOLS),
            "Other brokers connect to the listener with this protocol; or set inter.broker.listener.name."),
    Setting("sasl.mechanism.inter.broker.protocol", Kind.STRING, None, one_of(*_MECHANISMS),
            "How brokers log in to each other: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."),
)  # fmt: skip
BEFORE_LOGIN: Final = (
    Setting("klamm.login.timeout.ms", Kind.INT, 10000, at_least(100),
            "How long a TLS handshake may take, and a SASL login."),
    Setting("klamm.max.unauthenticated.connections", Kind.INT, 1000, at_least(1),
            "Connections that have not completed TLS handshake or login, at most."),
    Setting("klamm.max.unauthenticated.connections.per.ip", Kind.INT, 100, at_least(1),
            "The same of one address."),
    Setting("klamm.scram.close.on.delete", Kind.BOOLEAN, False, None,
            "Close the connections of a user when its SCRAM credential is deleted; Kafka leaves them open."),
    Setting("klamm.allow.plaintext.passwords", Kind.BOOLEAN, False, None,
            "Offer PLAIN without TLS also on addresses that other machines can reach."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListenerValues:
    """The settings of one listener: its own, and those of all listeners."""

    name: str
    protocol: str = "PLAINTEXT"
    general: Mapping[str, Value] = field(default_factory=dict)
    own: Mapping[str, Value] = field(default_factory=dict)
    of_mechanism: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # in lower case

    @property
    def has_tls(self) -> bool:
        return self.protocol in TLS_PROTOCOLS

    @property
    def has_sasl(self) -> bool:
        return self.protocol in SASL_PROTOCOLS

    def full_name(self, name: str, mechanism: str = "") -> str:
        """The name that the value in effect was set under."""
        if mechanism and name in self.of_mechanism.get(mechanism.lower(), {}):
            return f"{PREFIX}{self.name.lower()}.{mechanism.lower()}.{name}"
        return f"{PREFIX}{self.name.lower()}.{name}" if name in self.own else name

    def get(self, name: str, mechanism: str = "") -> Value:
        """A value: the one for listener and mechanism, for the listener, for all, or the default."""
        for values in (self.of_mechanism.get(mechanism.lower(), {}), self.own, self.general):
            if name in values:
                return values[name]
        return LISTENER_SETTINGS[name].default

    def text(self, name: str, mechanism: str = "") -> str | None:
        value = self.get(name, mechanism)
        assert value is None or isinstance(value, str), name
        return value

    def secret(self, name: str, mechanism: str = "") -> Password | None:
        value = self.get(name, mechanism)
        assert value is None or isinstance(value, Password), name
        return value

    def integer(self, name: str, mechanism: str = "") -> int:
        value = self.get(name, mechanism)
        assert type(value) is int, name
        return value

    def words(self, name: str, mechanism: str = "") -> tuple[str, ...]:
        value = self.get(name, mechanism)
        assert isinstance(value, tuple), name
        return value

    def boolean(self, name: str, mechanism: str = "") -> bool:
        value = self.get(name, mechanism)
        assert isinstance(value, bool), name
        return value


def listener_setting(full_name: str) -> Setting | None:
    """The setting behind `listener.name.NAME.SETTING`; None for another name."""
    _, _, name = full_name.removeprefix(PREFIX).partition(".")
    if not full_name.startswith(PREFIX) or name not in LISTENER_SETTINGS:
        return None
    return LISTENER_SETTINGS[name]._replace(name=full_name)


def listener_values(protocols: Mapping[str, str], raw: Mapping[str, RawValue]) -> dict[str, ListenerValues]:
    """The settings of each listener, by name. Raises ConfigError."""
    general = {name: setting.parse(raw[name]) for name, setting in LISTENER_SETTINGS.items() if name in raw}
    own: dict[str, dict[str, Value]] = {name: {} for name in protocols}
    of_mechanism: dict[str, dict[str, dict[str, Value]]] = {name: {} for name in protocols}
    for full_name, value in raw.items():
        if not full_name.startswith(PREFIX):
            continue
        listener, _, name = full_name.removeprefix(PREFIX).partition(".")
        if listener.upper() not in protocols or listener != listener.lower():
            known = ", ".join(each.lower() for each in protocols)
            raise ConfigError(
                full_name, f"{full_name}: no listener is called {listener}: expected one of {known}"
            )
        mechanism = next((each.lower() for each in _MECHANISMS if name.startswith(each.lower() + ".")), "")
        setting_name = name.removeprefix(mechanism + ".") if mechanism else name
        setting = LISTENER_SETTINGS.get(setting_name)
        if setting is None:
            suggested = (f"{PREFIX}{listener}.{each}" for each in LISTENER_SETTINGS)
            raise unknown_name(full_name, suggested)
        place = (
            of_mechanism[listener.upper()].setdefault(mechanism, {}) if mechanism else own[listener.upper()]
        )
        place[setting_name] = setting._replace(name=full_name).parse(value)
    return {
        name: ListenerValues(name, protocol, general, own[name], of_mechanism[name])
        for name, protocol in protocols.items()
    }
