"""What a listener's settings amount to: its TLS, its mechanisms, and who its clients are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from klamm.broker.config.http_ports import METRICS
from klamm.broker.config.security_settings import ListenerValues
from klamm.broker.net.listeners import is_loopback
from klamm.broker.security.sasl import OAUTHBEARER, PLAIN
from klamm.broker.security.session import SaslListener
from klamm.config import ConfigError
from klamm.extras import install_command

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.net.listeners import Listener
    from klamm.broker.security.credentials import ScramCredential, ScramCredentials
    from klamm.broker.security.sasl_bearer import TokenValidator
    from klamm.broker.security.sasl_login import MakeMechanism
    from klamm.broker.security.sasl_plain import PlainUsers
    from klamm.broker.security.stored_credentials import SessionCloser
    from klamm.broker.security.tls_listener import TlsListener
    from klamm.broker.services import Services
    from klamm.clock import Clock

_JWKS_HANDLER: Final = "OAuthBearerValidatorCallbackHandler"  # the end of Kafka's class

_log = logging.getLogger(__name__)


class ListenerSecurity:
    """One listener."""

    def __init__(self, values: ListenerValues, tls: TlsListener | None, sasl: SaslListener | None) -> None:
        self.name = values.name
        self.tls = tls
        self.sasl = sasl

    def reload(self, values: ListenerValues) -> None:
        """Read the certificates again. What cannot be read leaves the former ones, and a log line."""
        if self.tls is None:
            return
        try:
            self.tls.reload(values)
        except ConfigError as error:
            _log.error("listener %s keeps its former certificate: %s", self.name, error)
        else:
            _log.info("listener %s: certificates are read again", self.name)


async def secure_listeners(services: Services) -> None:
    """Read the keys, certificates and users of all listeners. Raises ConfigError."""
    from klamm.broker.security.stored_credentials import (  # noqa: PLC0415 - where it is used
        StoredCredentials,
        salt_secret,
    )

    config = services.config
    has_sasl = any(config.listener_values[each.name].has_sasl for each in config.listeners)
    salts = b""
    if has_sasl:
        salts = await services.run_blocking(salt_secret, services.cluster, services.random)
    services.scram = StoredCredentials(services.image)
    metrics = config.listener_values.get(METRICS)
    if metrics is not None and metrics.has_tls:
        from klamm.broker.security.tls_listener import TlsListener  # noqa: PLC0415 - slow to import

        services.listener_securities[METRICS] = ListenerSecurity(metrics, TlsListener(metrics), None)
    for listener in config.listeners:
        values = config.listener_values[listener.name]
        if values.protocol != "PLAINTEXT":
            built = _Builder(
                listener, values, config, services.clock, services.random, lambda: services.scram, salts
            )
            services.listener_securities[listener.name] = built.build()
        if not values.has_tls and not is_loopback(listener.host):
            _log.warning(
                "listener %s has no TLS and can be reached from other machines: what it carries can be read "
                "and changed on the way",
                listener,
            )


def session_closer(services: Services) -> SessionCloser:
    """Watches the credentials of the cluster."""
    from klamm.broker.security.stored_credentials import (  # noqa: PLC0415 - where it is used
        SessionCloser,
        StoredCredentials,
    )

    listeners = [each.sasl for each in services.listener_securities.values() if each.sasl is not None]
    return SessionCloser(
        StoredCredentials(services.image), lambda: (each for sasl in listeners for each in sasl.sessions)
    )


class _Builder:
    """Builds the security of one listener."""

    def __init__(
        self,
        listener: Listener,
        values: ListenerValues,
        config: BrokerConfig,
        clock: Clock,
        random: Random,
        scram: Callable[[], ScramCredentials | None],
        salts: bytes,
    ) -> None:
        self._listener = listener
        self._values = values
        self._config = config
        self._clock = clock
        self._random = random
        self._scram = scram
        self._salts = salts
        self._users: PlainUsers | None = None

    def build(self) -> ListenerSecurity:
        values = self._values
        tls = None
        if values.has_tls:
            from klamm.broker.security.tls_listener import TlsListener  # noqa: PLC0415 - slow to import

            tls = TlsListener(values)
        return ListenerSecurity(values, tls, self._sasl() if values.has_sasl else None)

    def _sasl(self) -> SaslListener:
        values = self._values
        names = values.words("sasl.enabled.mechanisms")
        if not names:
            setting = values.full_name("sasl.enabled.mechanisms")
            raise ConfigError(
                setting,
                f"listener {values.name} has SASL and no mechanism: set {setting}, for example to "
                "SCRAM-SHA-512",
            )
        is_local = is_loopback(self._listener.host)
        is_open = PLAIN in names and not values.has_tls and not is_local
        if is_open and not self._config.klamm_allow_plaintext_passwords:
            raise ConfigError(
                "sasl.enabled.mechanisms",
                f"listener {self._listener} would receive passwords without TLS: use SASL_SSL or SCRAM, or "
                "set klamm.allow.plaintext.passwords=true",
            )
        return SaslListener(
            mechanisms={name: self._mechanism(name) for name in names},
            max_receive_bytes=values.integer("sasl.server.max.receive.size"),
            failure_delay_ms=values.integer("connection.failed.authentication.delay.ms"),
            max_session_ms={name: values.integer("connections.max.reauth.ms", name) for name in names},
        )

    def _mechanism(self, name: str) -> MakeMechanism:
        if name == PLAIN:
            from klamm.broker.security.sasl_plain import PlainServer  # noqa: PLC0415 - where it is used

            return partial(PlainServer, self._plain_users())
        if name == OAUTHBEARER:
            from klamm.broker.security.sasl_bearer import BearerServer  # noqa: PLC0415 - where it is used

            return partial(BearerServer, self._validator())
        from klamm.broker.security.sasl_scram import ScramServer  # noqa: PLC0415 - where it is used

        return partial(ScramServer, name, self._find_credential(), self._salts, self._random)

    def _find_credential(self) -> Callable[[str, str], ScramCredential | None]:
        from klamm.broker.security.users_file import read_users  # noqa: PLC0415 - where it is used

        scram, rows = self._scram, read_users(self._values)

        def find(user: str, mechanism: str) -> ScramCredential | None:
            store = scram()
            found = None if store is None else store.find(user, mechanism)
            if found is None and (row := rows.get(user)) is not None and row[0] == mechanism:
                found = row[1]
            return found

        return find

    def _plain_users(self) -> PlainUsers:
        from klamm.broker.security.sasl_plain import PlainUsers  # noqa: PLC0415 - where it is used
        from klamm.broker.security.users_file import jaas_users, read_users  # noqa: PLC0415 - where it is used

        rows = read_users(self._values)
        passwords = jaas_users(self._values)
        if not rows and not passwords:
            setting = self._values.full_name("sasl.jaas.config", PLAIN)
            raise ConfigError(
                setting,
                f"listener {self._values.name} offers PLAIN and has no users: set "
                f"listener.name.{self._values.name.lower()}.plain.sasl.jaas.config, or klamm.users.file",
            )
        return PlainUsers(passwords, rows, self._clock, self._random)

    def _validator(self) -> TokenValidator:
        from klamm.broker.security.bearer_tokens import SignedTokens, UnsecuredTokens  # noqa: PLC0415

        values = self._values
        handler = values.text("sasl.server.callback.handler.class", OAUTHBEARER)
        url = values.text("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER)
        claim = str(values.get("sasl.oauthbearer.sub.claim.name", OAUTHBEARER))
        if handler is not None and not handler.endswith(_JWKS_HANDLER):
            name = values.full_name("sasl.server.callback.handler.class", OAUTHBEARER)
            raise ConfigError(name, f"{name}={handler}: expected Kafka's {_JWKS_HANDLER}")
        if url is None:
            if handler is None and values.boolean("klamm.oauthbearer.unsecured", OAUTHBEARER):
                _log.warning(
                    "listener %s accepts tokens without a signature (klamm.oauthbearer.unsecured=true): "
                    "any client that can connect can claim to be any user",
                    values.name,
                )
                return UnsecuredTokens(self._clock, claim)
            raise ConfigError(
                "sasl.oauthbearer.jwks.endpoint.url",
                f"listener {values.name} offers OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url, or "
                "klamm.oauthbearer.unsecured=true for development",
            )
        issuer = values.text("sasl.oauthbearer.expected.issuer", OAUTHBEARER)
        audience: Sequence[str] = values.words("sasl.oauthbearer.expected.audience", OAUTHBEARER)
        if not issuer or not audience:
            missing = "issuer" if not issuer else "audience"
            name = f"sasl.oauthbearer.expected.{missing}"
            raise ConfigError(
                name,
                f"{name} is required with sasl.oauthbearer.jwks.endpoint.url: tokens for others would do",
            )
        from klamm.broker.security.jwks import fetch_jwks  # noqa: PLC0415 - where it is used

        tokens = SignedTokens(
            partial(fetch_jwks, url),
            self._clock,
            audience=audience,
            issuer=issuer,
            principal_claim=claim,
            skew_s=values.integer("sasl.oauthbearer.clock.skew.seconds", OAUTHBEARER),
            refresh_ms=values.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms", OAUTHBEARER),
        )
        try:
            tokens.load()
        except ImportError:
            raise ConfigError(
                "sasl.enabled.mechanisms",
                f"OAUTHBEARER with signed tokens needs the package PyJWT: {install_command('oauth')}",
            ) from None
        except (OSError, ValueError) as error:
            name = values.full_name("sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER)
            raise ConfigError(name, f"{name}: cannot fetch the keys from {url}: {error}") from error
        return tokens
