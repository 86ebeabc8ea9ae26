"""A secured broker for tests: TLS, users, ACLs; certificates that expire, users that are revoked."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from klamm.access.acls import Acl, AclOperation
from klamm.broker import broker as assembly
from klamm.client.admin.access_model import ScramMechanism
from klamm.client.admin.admin import Admin
from klamm.clock import SystemClock, clients_on
from klamm.config import RawValue
from klamm.durations import nanoseconds
from klamm.net.security.authority import CertificateAuthority
from klamm.testing.broker import Broker

USERS: Final = "SASL_SSL"  # the listener for users with passwords
CERTIFICATES: Final = "SSL"  # the one for client certificates
MECHANISM: Final = ScramMechanism.SHA_512
_ADMIN: Final = "admin"
_HOSTS: Final = ("127.0.0.1", "localhost")
_A_YEAR: Final = 365.0
_EXPIRED: Final = -1.0


class SecureBroker(Broker):
    """A `klamm.testing.Broker` that clients log in to, over TLS, and that allows nothing without an ACL.

    `client("alice")` has the settings of a client of a user, who is made when needed. Needs the package
    cryptography.
    """

    _not_in_bootstrap = (CERTIFICATES,)

    def __init__(self, settings: Mapping[str, RawValue] | None = None, **more_settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="klamm-secure-broker-")
        self._authority = CertificateAuthority(Path(self._folder.name), name="klamm test CA")
        self._issue()
        self._passwords = {_ADMIN: secrets.token_urlsafe(18)}
        self._node: assembly.BrokerNode | None = None
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        super().__init__(
            settings={
                "listeners": f"{USERS}://127.0.0.1:0,{CERTIFICATES}://127.0.0.1:0",
                "ssl.keystore.location": str(self._authority.folder / "broker.pem"),
                "ssl.truststore.location": str(self._authority.certificate),
                "listener.name.ssl.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
                "sasl.enabled.mechanisms": f"{MECHANISM},PLAIN",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                    f'{plain} user_{_ADMIN}="{self._passwords[_ADMIN]}";'  # admin makes the others
                ),
                "klamm.authorizer": "acl",
                "klamm.scram.close.on.delete": "true",
                "connection.failed.authentication.delay.ms": 0,
                "super.users": f"User:{_ADMIN}",
                **(settings or {}),
            },
            **more_settings,
        )

    def _issue(self, days: float = _A_YEAR) -> None:
        self._authority.issue("broker", _HOSTS, days=days)

    # --- clients ---------------------------------------------------------------------------------------

    @property
    def ca_pem(self) -> str:
        """The certificate of the CA, for clients of other libraries."""
        return self._authority.certificate.read_text()

    def client(self, user: str) -> dict[str, Any]:
        """The settings of a client that logs in as this user; made with a password, and no rights."""
        if user not in self._passwords:
            self._passwords[user] = secrets.token_urlsafe(18)
            with self._an_admin() as admin:
                admin.set_passwords({user: self._passwords[user]}, mechanism=MECHANISM)
        return self._settings_of(user)

    def client_with_certificate(self, user: str, *, has_expired: bool = False) -> dict[str, Any]:
        """The settings of a client that shows a certificate with this name."""
        pem = self._authority.issue(user, days=_EXPIRED if has_expired else _A_YEAR)
        return {
            "bootstrap.servers": f"127.0.0.1:{self._ports[CERTIFICATES]}",
            "security.protocol": "SSL",
            "ssl.ca.pem": self.ca_pem,
            "ssl.keystore.location": str(pem),
        }

    def _settings_of(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.pem": self.ca_pem,
            "sasl.mechanism": MECHANISM.value,
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    # --- rights ----------------------------------------------------------------------------------------

    def allow(self, user: str, *operations: str, prefixed: bool = False, **resource: str) -> None:
        """Allow operations on a resource: `allow("alice", "read", topic="orders")`."""
        self._add_acls(user, operations, resource, prefixed=prefixed, deny=False)

    def deny(self, user: str, *operations: str, prefixed: bool = False, **resource: str) -> None:
        """The same to deny, whatever is allowed: `deny("bob", "all", group="billing")`."""
        self._add_acls(user, operations, resource, prefixed=prefixed, deny=True)

    def _add_acls(
        self, user: str, operations: tuple[str, ...], resource: dict[str, str], *, prefixed: bool, deny: bool
    ) -> None:
        if len(resource) != 1 or not operations:
            raise TypeError('expected operations and one resource: allow("alice", "read", topic="orders")')
        ((kind, name),) = resource.items()
        acls = [
            Acl.of(f"User:{user}", AclOperation[each.upper()], kind, name, prefixed=prefixed, deny=deny)
            for each in operations
        ]
        with self._an_admin() as admin:
            admin.create_acls(acls)

    def revoke(self, user: str) -> None:
        """Delete a user: its connections are closed, and it cannot log in any more."""
        with self._an_admin() as admin:
            admin.delete_users([user])

    def _an_admin(self) -> Admin:
        with clients_on(SystemClock()):  # as those that look: it does not move the broker's clock
            return Admin(self._own_settings())

    def _own_settings(self) -> dict[str, Any]:
        return {**self._settings_of(_ADMIN), "sasl.mechanism": "PLAIN"}

    # --- certificates ----------------------------------------------------------------------------------

    def expire_certificate(self, after: str = "") -> None:
        """Let the broker's certificate expire now, or after a time on the broker's clock, as in `"30d"`.

        New connections fail from then on; open ones go on, as with any certificate.
        """
        in_s = nanoseconds(after) / 1e9 if after else 0.0

        async def expire() -> None:
            if in_s:
                asyncio.get_running_loop().call_later(in_s, self._renew, _EXPIRED)
            else:
                self._renew(_EXPIRED)

        self._do(expire)

    def renew_certificate(self) -> None:
        """Give the broker a certificate that is valid: new connections get it."""

        async def renew() -> None:
            self._renew(_A_YEAR)

        self._do(renew)

    def _renew(self, days: float) -> None:
        self._issue(days)
        assert self._node is not None
        self._node.reload_certificates()

    def _do(self, operation: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop is None or not self.is_running:
            raise RuntimeError("the broker is not running")
        asyncio.run_coroutine_threadsafe(operation(), self._loop).result()

    # --- what Broker calls -----------------------------------------------------------------------------

    def _has_started(self, broker: assembly.BrokerNode) -> None:
        super()._has_started(broker)
        self._node = broker

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._folder.cleanup()
