"""SaslHandshake on a connection that is open: to log in again (KIP-368). A first login is LoginGate's."""

from __future__ import annotations

import asyncio

from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.security.session import LoginSession
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(
    services: Services, context: RequestContext, request: SaslHandshakeRequest
) -> HandlerResult[SaslHandshakeResponse]:
    """Begin another login, if the session of the connection ends at all."""
    session = context.session
    if session is None or not session.may_renew:
        return SaslHandshakeResponse(error_code=int(ErrorCode.illegal_sasl_state))
    session.renew()
    if not session.progress.choose(request.mechanism, is_raw=False):
        return _refused(session)
    session.on_login()
    return SaslHandshakeResponse(mechanisms=session.progress.offered)


async def _refused(session: LoginSession) -> SaslHandshakeResponse:
    await asyncio.sleep(session.listener.failure_delay_ms / 1000)
    session.end()
    code = int(ErrorCode.unsupported_sasl_mechanism)
    return SaslHandshakeResponse(error_code=code, mechanisms=session.progress.offered)
