"""A login over SaslHandshake and SaslAuthenticate. Sans-IO: responses in, the next request out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.errors import SaslAuthenticationError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from klamm.net.security.sasl import Mechanism

HANDSHAKE_VERSION: Final = 1  # the tokens of version 0 have no headers
NO_SASL: Final = (
    "the listener has no SASL: set security.protocol to PLAINTEXT or SSL, or use the port of a SASL listener"
)


class Login:
    """One login of one connection."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self.session_lifetime_ms = 0  # 0: the session does not end

    def begin(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._mechanism.name)

    def handshaken(self, response: SaslHandshakeResponse) -> SaslAuthenticateRequest:
        """The first token. Raises SaslAuthenticationError when the broker has not the mechanism."""
        if response.error_code == ErrorCode.unsupported_sasl_mechanism:
            offered = ", ".join(sorted(map(_shown, response.mechanisms))) or "none"
            raise SaslAuthenticationError(
                f"the broker does not offer sasl.mechanism={self._mechanism.name}; it offers: {offered}"
            )
        if response.error_code == ErrorCode.illegal_sasl_state:
            raise SaslAuthenticationError(NO_SASL)
        if response.error_code != ErrorCode.none:
            raise SaslAuthenticationError(f"SaslHandshake: error {response.error_code}")
        return SaslAuthenticateRequest(auth_bytes=self._mechanism.first())

    def answered(self, response: SaslAuthenticateResponse) -> SaslAuthenticateRequest | None:
        """The next token; None when the login is complete. Raises SaslAuthenticationError."""
        name = self._mechanism.name
        if response.error_code != ErrorCode.none:
            message = _shown(response.error_message or f"error {response.error_code}")
            raise SaslAuthenticationError(f"{name}: {self._mechanism.explain(message)}")
        token = self._mechanism.respond(response.auth_bytes)
        if token is not None:
            return SaslAuthenticateRequest(auth_bytes=token)
        self.session_lifetime_ms = response.session_lifetime_ms
        return None


class SaslQuestion:
    """Does a listener require a login? Asked where it closed a connection that had none.

    One without SASL refuses the handshake and stays; one with SASL answers with what it offers.
    """

    session_lifetime_ms = 0

    def begin(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism="PLAIN")

    def handshaken(self, response: SaslHandshakeResponse) -> None:
        """Raises SaslAuthenticationError when there is no way in without a login."""
        if response.error_code not in (ErrorCode.none, ErrorCode.unsupported_sasl_mechanism):
            return
        offered = ", ".join(sorted(map(_shown, response.mechanisms))) or "none"
        raise SaslAuthenticationError(
            "the listener requires a login: set security.protocol to SASL_SSL or SASL_PLAINTEXT and "
            f"sasl.mechanism to one that it offers: {offered}"
        )

    def answered(self, response: SaslAuthenticateResponse) -> SaslAuthenticateRequest | None:
        raise AssertionError("no token was sent")


def _shown(text: str) -> str:
    """A text of the broker for an error message: short, without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text[:200])
