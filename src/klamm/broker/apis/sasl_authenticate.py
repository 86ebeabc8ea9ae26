"""SaslAuthenticate on a connection that is open: to log in again (KIP-368). A first login is LoginGate's."""

from __future__ import annotations

import asyncio

from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.security.audit import login_refused
from klamm.broker.security.sasl import Challenge, LoginRefusedError
from klamm.broker.security.session import LoginSession
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(
    services: Services, context: RequestContext, request: SaslAuthenticateRequest
) -> HandlerResult[SaslAuthenticateResponse]:
    """The next token of a login."""
    session = context.session
    if session is None or not session.is_logging_in:
        return SaslAuthenticateResponse(
            error_code=int(ErrorCode.illegal_sasl_state),
            error_message="SaslAuthenticate request received after successful authentication",
        )
    return _evaluated(services, context, session, request.auth_bytes)


async def _evaluated(
    services: Services, context: RequestContext, session: LoginSession, token: bytes
) -> SaslAuthenticateResponse:
    try:
        result = session.progress.evaluate(token)
        if callable(result):
            result = await services.run_blocking(result)
        if isinstance(result, Challenge):
            return SaslAuthenticateResponse(error_message="", auth_bytes=result.token)
        session.succeed(result)
    except LoginRefusedError as error:
        session.progress.fail()
        mechanism = session.progress.mechanism
        login_refused(error.user, mechanism, context.client_host, context.listener, error.cause)
        await asyncio.sleep(session.listener.failure_delay_ms / 1000)
        session.end()
        code = int(ErrorCode.sasl_authentication_failed)
        return SaslAuthenticateResponse(error_code=code, error_message=str(error))
    return SaslAuthenticateResponse(
        error_message="", auth_bytes=result.token, session_lifetime_ms=session.lifetime_ms
    )
