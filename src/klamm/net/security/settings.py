"""The settings of TLS and SASL, under the names of Java's client and of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.config import Check, ConfigError, Kind, Password, Setting, Values, each_of, one_of
from klamm.net.security.security import Security

if TYPE_CHECKING:
    import ssl

    from klamm.net.security.certificates import Material
    from klamm.net.security.sasl import MakeMechanism
    from klamm.net.security.tokens import TokenSource

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS: Final = ("SSL", "SASL_SSL")
SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OIDC_CALLBACK: Final = "OAuthBearerLoginCallbackHandler"  # the end of its class name
OBJECTS: Final = frozenset({"oauth_cb", "ssl.context"})  # settings whose value is not text


def _is_protocol(value: object) -> bool:
    return isinstance(value, str) and value.upper() in PROTOCOLS  # in any case, as Java and librdkafka


def _text(name: str, doc: str) -> Setting:
    return Setting(name=name, kind=Kind.STRING, default=None, doc=doc)


def _secret(name: str, doc: str) -> Setting:
    return Setting(name=name, kind=Kind.PASSWORD, default=None, doc=doc)


def _type(name: str) -> Setting:
    return Setting(
        name=name,
        kind=Kind.STRING,
        default=None,
        check=one_of("PEM", "PKCS12", "JKS"),
        doc="PEM or PKCS12. Default: what the file is. Files of type JKS have to be converted to PKCS12.",
    )


SETTINGS: Final = (
    Setting(
        name="security.protocol",
        kind=Kind.STRING,
        default="PLAINTEXT",
        check=Check(_is_protocol, "one of " + ", ".join(PROTOCOLS)),
        doc="What the listener of the brokers speaks.",
    ),
    _text(
        "ssl.truststore.location",
        "A file of the CA certificates to trust: PEM or PKCS12. Default: the system's.",
    ),
    _type("ssl.truststore.type"),
    _secret("ssl.truststore.password", "The password of a truststore in PKCS12."),
    _secret("ssl.truststore.certificates", "The CA certificates to trust, as PEM text."),
    _text("ssl.ca.location", "As ssl.truststore.location: librdkafka's name."),
    _secret("ssl.ca.pem", "As ssl.truststore.certificates: librdkafka's name."),
    _text("ssl.keystore.location", "A file of the client's key and certificates: PEM or PKCS12."),
    _type("ssl.keystore.type"),
    _secret("ssl.keystore.password", "The password of a keystore in PKCS12."),
    _secret("ssl.keystore.key", "The client's private key, as PEM text."),
    _secret("ssl.keystore.certificate.chain", "The client's certificates, as PEM text."),
    _text("ssl.certificate.location", "A PEM file of the client's certificates: librdkafka's name."),
    _secret("ssl.certificate.pem", "As ssl.keystore.certificate.chain: librdkafka's name."),
    _text("ssl.key.location", "A PEM file of the client's private key: librdkafka's name."),
    _secret("ssl.key.pem", "As ssl.keystore.key: librdkafka's name."),
    _secret("ssl.key.password", "The password of the client's private key, if it is encrypted."),
    Setting(
        name="ssl.endpoint.identification.algorithm",
        kind=Kind.STRING,
        default="https",
        check=one_of("https", "none", ""),
        doc="https: a broker's certificate must have the name that is connected to; none or empty: any.",
    ),
    Setting(
        name="enable.ssl.certificate.verification",
        kind=Kind.BOOLEAN,
        default=True,
        doc="false: accept any certificate of a broker, also that of somebody in between. For tests only.",
    ),
    Setting(
        name="ssl.enabled.protocols",
        kind=Kind.LIST,
        default=("TLSv1.2", "TLSv1.3"),
        check=each_of("TLSv1.2", "TLSv1.3"),
        doc="The versions of TLS that may be used.",
    ),
    Setting(
        name="sasl.mechanism",
        kind=Kind.STRING,
        default=None,
        check=one_of(*MECHANISMS),
        doc="How the client logs in; required with SASL_SSL and SASL_PLAINTEXT.",
    ),
    _text("sasl.mechanisms", "As sasl.mechanism: librdkafka's name."),
    _text("sasl.username", "The user, for PLAIN and SCRAM."),
    _secret("sasl.password", "The user's password, for PLAIN and SCRAM."),
    _secret("sasl.jaas.config", "User and password, or client id and secret, as Java's clients take them."),
    _text(
        "sasl.login.callback.handler.class",
        "Java's OAuthBearerLoginCallbackHandler: tokens of a token endpoint.",
    ),
    _text("sasl.oauthbearer.method", "oidc: tokens of a token endpoint; default: tokens of oauth_cb."),
    _text("sasl.oauthbearer.config", "A text that oauth_cb is called with."),
    _text("sasl.oauthbearer.token.endpoint.url", "The OIDC token endpoint, for client credentials."),
    _text("sasl.oauthbearer.client.id", "The client id for the token endpoint."),
    _secret("sasl.oauthbearer.client.secret", "The client's secret for the token endpoint."),
    _text("sasl.oauthbearer.client.credentials.client.id", "As sasl.oauthbearer.client.id: Java's name."),
    _secret(
        "sasl.oauthbearer.client.credentials.client.secret", "As sasl.oauthbearer.client.secret: Java's name."
    ),
    _text("sasl.oauthbearer.scope", "The scope to ask the token endpoint for."),
    _text("sasl.oauthbearer.extensions", "SASL extensions: name=value, separated by commas."),
    _text("https.ca.location", "A PEM file of the CA certificates that the token endpoint's must come from."),
)
NAMES: Final = frozenset(setting.name for setting in SETTINGS) | OBJECTS


def security_of(values: Values, given: frozenset[str], objects: Mapping[str, Any]) -> Security:
    """What the settings ask for, with all files read. Raises ConfigError."""
    protocol = values.text("security.protocol").upper()
    given = frozenset(name for name in given & NAMES if name in objects or values[name] is not None)
    _check_use(protocol, given)
    login, tokens = _Sasl(values, given, objects).read() if protocol in SASL else (None, None)
    context = _context(values, given, objects) if protocol in TLS else None
    return Security(protocol, context, login, tokens)


def _check_use(protocol: str, given: frozenset[str]) -> None:
    """Reject settings that would have no effect: who names a password expects that it protects something."""
    for name in sorted(given):
        is_tls = name.startswith(("ssl.", "enable.ssl."))
        is_sasl = name.startswith(("sasl.", "oauth_cb", "https."))
        if is_tls and protocol not in TLS:
            wanted = "SASL_SSL" if protocol in SASL else "SSL or SASL_SSL"
        elif is_sasl and protocol not in SASL:
            wanted = "SASL_SSL"
        else:
            continue
        raise ConfigError(
            name, f"{name} has no effect with security.protocol={protocol}: set {wanted}, or remove {name}"
        )


def _one_of(given: frozenset[str], names: Sequence[str]) -> str | None:
    """The one name that is set; ConfigError if several are."""
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise ConfigError(found[1], f"{found[0]} and {found[1]} are both set: remove one")
    return found[0] if found else None


def _context(values: Values, given: frozenset[str], objects: Mapping[str, Any]) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - slow to import, as all that follows

    from klamm.net.security.certificates import TlsSettings, tls_context  # noqa: PLC0415

    own = objects.get("ssl.context")
    if own is not None:
        others = sorted(
            name for name in given if name.startswith(("ssl.", "enable.ssl")) and name != "ssl.context"
        )
        if not isinstance(own, ssl.SSLContext) or others:
            wrong = f"{others[0]} is set too: remove one" if others else "expected an ssl.SSLContext"
            raise ConfigError("ssl.context", f"ssl.context: {wrong}")
        return own
    trusted = _material(
        values, given,
        ("ssl.truststore.location", "ssl.ca.location", "ssl.truststore.certificates", "ssl.ca.pem"),
        "ssl.truststore",
    )  # fmt: skip
    certificate = _material(
        values, given,
        ("ssl.keystore.location", "ssl.certificate.location", "ssl.keystore.certificate.chain",
         "ssl.certificate.pem"),
        "ssl.keystore",
    )  # fmt: skip
    key = _material(values, given, ("ssl.key.location", "ssl.keystore.key", "ssl.key.pem"), "ssl.key")
    if certificate is None and (key is not None or "ssl.key.password" in given):
        name = key.setting if key is not None else "ssl.key.password"
        raise ConfigError(name, f"{name} is set without a certificate: set ssl.certificate.location as well")
    if certificate is not None and key is None and "ssl.key.password" in given:
        certificate = _with_password(certificate, values.secret("ssl.key.password") or "")
    if key is not None and certificate is not None and certificate.setting == "ssl.keystore.location":
        raise ConfigError(key.setting, f"{key.setting} and ssl.keystore.location are both set: remove one")
    return tls_context(
        TlsSettings(
            trusted=[trusted] if trusted is not None else [],
            certificate=certificate,
            key=key,
            checks_certificates=values.boolean("enable.ssl.certificate.verification"),
            checks_host_names=values.text("ssl.endpoint.identification.algorithm") == "https",
            versions=values.words("ssl.enabled.protocols"),
        )
    )


def _material(values: Values, given: frozenset[str], names: Sequence[str], store: str) -> Material | None:
    """What the one of these names that is set refers to; the settings of its store go with it."""
    from klamm.net.security.certificates import Material  # noqa: PLC0415

    name = _one_of(given, names)
    is_store = store != "ssl.key"  # which may be in the file of its certificate, and its password too
    for other in (f"{store}.password", f"{store}.type"):
        if name is None and is_store and other in given:
            raise ConfigError(other, f"{other} is set without {names[0]}")
    if name is None:
        return None
    secret = values.secret(f"{store}.password")
    password = Password(secret) if secret is not None else None
    kind = values.optional_text(f"{store}.type") if is_store else None
    if name.endswith(".location"):
        return Material(name, path=values.text(name), password=password, type=kind)
    return Material(name, pem=Password(values.secret(name) or ""), password=password, type=kind)


def _with_password(material: Material, password: str) -> Material:
    from dataclasses import replace  # noqa: PLC0415

    return material if material.password is not None else replace(material, password=Password(password))


class _Sasl:
    """Reads how to log in."""

    def __init__(self, values: Values, given: frozenset[str], objects: Mapping[str, Any]) -> None:
        self._values = values
        self._given = given
        self._objects = objects

    def read(self) -> tuple[MakeMechanism | None, TokenSource | None]:
        mechanism = self._mechanism()
        options: dict[str, str] = {}
        jaas = self._values.secret("sasl.jaas.config")
        if jaas is not None:
            from klamm.net.security.jaas import jaas_options  # noqa: PLC0415

            options = jaas_options(Password(jaas), mechanism)
        if mechanism == "OAUTHBEARER":
            self._refuse("sasl.username", "sasl.password", mechanism=mechanism)
            return None, self._tokens(options)
        oauth = sorted(name for name in self._given if name.startswith(("sasl.oauthbearer.", "oauth_cb")))
        self._refuse(*oauth, "sasl.login.callback.handler.class", "https.ca.location", mechanism=mechanism)
        return self._password_login(mechanism, options), None

    def _refuse(self, *names: str, mechanism: str) -> None:
        for name in names:
            if name in self._given:
                raise ConfigError(name, f"{name} has no effect with sasl.mechanism={mechanism}: remove it")

    def _mechanism(self) -> str:
        name = _one_of(self._given, ("sasl.mechanism", "sasl.mechanisms"))
        found = self._values.optional_text(name) if name is not None else None
        if found is None or found not in MECHANISMS:
            shown = f"{name}={found}" if found else "sasl.mechanism is required with SASL"
            raise ConfigError(name or "sasl.mechanism", f"{shown}: expected one of {', '.join(MECHANISMS)}")
        return found

    def _password_login(self, mechanism: str, options: Mapping[str, str]) -> MakeMechanism:
        from secrets import token_urlsafe  # noqa: PLC0415

        from klamm.net.security.sasl import Plain, Scram  # noqa: PLC0415

        username = self._either("sasl.username", options, "username")
        password = Password(self._either("sasl.password", options, "password"))
        if mechanism == "PLAIN":
            return lambda: Plain(username, password.secret)
        return lambda: Scram(mechanism, username, password.secret, token_urlsafe(24))

    def _either(self, name: str, options: Mapping[str, str], option: str) -> str:
        """A value of its own setting or of sasl.jaas.config."""
        found = self._optional(name, options, option)
        if not found:
            raise ConfigError(name, f"{name} is required: set it, or {option} in sasl.jaas.config")
        return found

    def _optional(self, name: str, options: Mapping[str, str], option: str) -> str | None:
        if name in self._given and option in options:
            raise ConfigError(name, f"{name} and {option} in sasl.jaas.config are both set: remove one")
        if name not in self._given:
            return options.get(option)
        value = self._values[name]
        return value.secret if isinstance(value, Password) else str(value)

    def _tokens(self, options: dict[str, str]) -> TokenSource:
        from klamm.net.security.jaas import extensions_of  # noqa: PLC0415
        from klamm.net.security.tokens import ClientCredentials, TokenSource, from_function  # noqa: PLC0415

        function = self._objects.get("oauth_cb")
        url = self._values.optional_text("sasl.oauthbearer.token.endpoint.url")
        method = self._values.optional_text("sasl.oauthbearer.method")
        handler = self._values.optional_text("sasl.login.callback.handler.class")
        if method not in (None, "default", "oidc"):
            raise ConfigError(
                "sasl.oauthbearer.method", f"sasl.oauthbearer.method={method}: expected default or oidc"
            )
        if handler is not None and not handler.endswith(OIDC_CALLBACK):
            raise ConfigError(
                "sasl.login.callback.handler.class",
                f"sasl.login.callback.handler.class={handler} is Java's: pass a function as oauth_cb instead",
            )
        if function is None and "sasl.oauthbearer.config" in self._given:
            raise ConfigError("sasl.oauthbearer.config", "sasl.oauthbearer.config is set without oauth_cb")
        if function is not None:
            if url is not None or method == "oidc" or options:
                raise ConfigError("oauth_cb", "oauth_cb and a token endpoint are both set: remove one")
            if not callable(function):
                raise ConfigError("oauth_cb", "oauth_cb is not callable: expected a function of one argument")
            config = self._values.optional_text("sasl.oauthbearer.config") or ""
            return TokenSource(from_function(function, config))
        if url is None:
            raise ConfigError(
                "sasl.mechanism",
                "sasl.mechanism=OAUTHBEARER needs a token: set oauth_cb to a function that returns (token, "
                "expires_at_s), or sasl.oauthbearer.token.endpoint.url",
            )
        ids = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
        keys = ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret")
        endpoint = ClientCredentials(
            url=url,
            client_id=self._either(_one_of(self._given, ids) or ids[0], options, "clientId"),
            client_secret=Password(
                self._either(_one_of(self._given, keys) or keys[0], options, "clientSecret")
            ),
            scope=self._optional("sasl.oauthbearer.scope", options, "scope"),
            ca_location=self._values.optional_text("https.ca.location"),
            extensions=self._extensions() | extensions_of(options),
        )
        return TokenSource(endpoint.obtain)

    def _extensions(self) -> dict[str, str]:
        text = self._values.optional_text("sasl.oauthbearer.extensions") or ""
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        if any(not name.strip() or not equals for name, equals, _ in pairs):
            raise ConfigError(
                "sasl.oauthbearer.extensions", "sasl.oauthbearer.extensions: expected name=value, name=value"
            )
        return {name.strip(): value.strip() for name, _, value in pairs}
