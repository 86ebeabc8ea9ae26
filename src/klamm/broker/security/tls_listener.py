"""The TLS of a listener: its context, made anew when certificates are renewed, and who its clients are."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from klamm.broker.security.principal_mapping import mapping_rules, principal_of
from klamm.config import ConfigError
from klamm.net.security.certificates import Material, TlsSettings, listener_context

if TYPE_CHECKING:
    from klamm.access.acls import Principal
    from klamm.broker.config.security_settings import ListenerValues
    from klamm.net.security.tls_bytes import Subject

_STORES: Final = (
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
)
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class TlsListener:
    """`context` is for the next connection; those that are open keep theirs."""

    def __init__(self, values: ListenerValues) -> None:
        """Reads files. Raises ConfigError that names the setting."""
        self._rules = mapping_rules(str(values.get("ssl.principal.mapping.rules")))
        self.context = new_context(values)

    def reload(self, values: ListenerValues) -> None:
        """Read the files again. Raises ConfigError, and nothing has changed then."""
        self.context = new_context(values)

    def principal_of(self, subject: Subject | None) -> Principal | None:
        """Who a client is that showed a certificate with this subject, or none; None if no rule matches."""
        return principal_of(subject, self._rules)


def check_certificates(listeners: Iterable[ListenerValues]) -> None:
    """Whether all that these listeners name can be read. Raises ConfigError."""
    for values in listeners:
        if values.has_tls:
            new_context(values)


def tls_settings(values: ListenerValues) -> TlsSettings:
    """Key, certificates and trust of a listener, as connections of and to it use them. Raises ConfigError."""
    names = {name: values.full_name(name) for name in _STORES}
    location = values.text("ssl.keystore.location")
    key_text, chain_text = values.secret("ssl.keystore.key"), values.secret("ssl.keystore.certificate.chain")
    if location is not None and (key_text is not None or chain_text is not None):
        own = names["ssl.keystore.key" if key_text is not None else "ssl.keystore.certificate.chain"]
        raise ConfigError(own, f"{names['ssl.keystore.location']} and {own} are both set: remove one")
    if (key_text is None) != (chain_text is None):
        raise ConfigError(
            names["ssl.keystore.key"],
            "ssl.keystore.key and ssl.keystore.certificate.chain go together: set both",
        )
    key_password = values.secret("ssl.key.password")
    certificate = key = None
    if location is not None:
        certificate = Material(
            names["ssl.keystore.location"],
            path=location,
            password=values.secret("ssl.keystore.password") or key_password,
            type=values.text("ssl.keystore.type"),
        )
    elif key_text is not None:
        certificate = Material(names["ssl.keystore.certificate.chain"], pem=chain_text)
        key = Material(names["ssl.keystore.key"], pem=key_text, password=key_password)
    trusted: list[Material] = []
    trust_location, trust_text = (
        values.text("ssl.truststore.location"),
        values.secret("ssl.truststore.certificates"),
    )
    if trust_location is not None and trust_text is not None:
        raise ConfigError(
            names["ssl.truststore.certificates"],
            f"{names['ssl.truststore.location']} and ssl.truststore.certificates are both set: remove one",
        )
    if trust_location is not None:
        trusted.append(
            Material(
                names["ssl.truststore.location"],
                path=trust_location,
                password=values.secret("ssl.truststore.password"),
                type=values.text("ssl.truststore.type"),
            )
        )
    elif trust_text is not None:
        trusted.append(Material(names["ssl.truststore.certificates"], pem=trust_text))
    return TlsSettings(
        trusted=trusted,
        certificate=certificate,
        key=key,
        checks_host_names=values.text("ssl.endpoint.identification.algorithm") == "https",
        versions=values.words("ssl.enabled.protocols"),
    )


def new_context(values: ListenerValues) -> ssl.SSLContext:
    """The context for connections to a listener. Reads files; raises ConfigError."""
    client_auth = values.text("ssl.client.auth") or "none"
    settings = tls_settings(values)
    if settings.certificate is None:
        name = "ssl.keystore.location"
        raise ConfigError(
            name,
            f"listener {values.name} has TLS and no certificate: set {name} (`klamm certs` makes one)",
        )
    if client_auth != "none" and not settings.trusted:
        name = "ssl.truststore.location"
        raise ConfigError(
            name, f"{name} is required with {values.full_name('ssl.client.auth')}={client_auth}"
        )
    return listener_context(settings, _CLIENT_AUTH[client_auth], values.words("ssl.cipher.suites"))
