"""How the connections of a client are secured: what comes out of its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

    from klamm.net.network import Transport
    from klamm.net.security.sasl import MakeMechanism
    from klamm.net.security.tokens import TokenSource


class Security:
    """Never changes. Holds secrets, and does not print them."""

    __slots__ = ("context", "login", "protocol", "tokens")

    def __init__(
        self,
        protocol: str = "PLAINTEXT",
        context: ssl.SSLContext | None = None,  # with TLS
        login: MakeMechanism | None = None,  # with PLAIN and SCRAM
        tokens: TokenSource | None = None,  # with OAUTHBEARER
    ) -> None:
        self.protocol: Final = protocol
        self.context: Final = context
        self.login: Final = login
        self.tokens: Final = tokens

    def __repr__(self) -> str:
        return f"Security({self.protocol})"

    @property
    def has_sasl(self) -> bool:
        return self.login is not None or self.tokens is not None

    def over(self, transport: Transport) -> Transport:
        """This transport, or TLS over it."""
        if self.context is None:
            return transport
        from klamm.net.security.tls import TlsTransport  # noqa: PLC0415 - slow to import

        return TlsTransport(transport, self.context)


PLAINTEXT: Final = Security()
